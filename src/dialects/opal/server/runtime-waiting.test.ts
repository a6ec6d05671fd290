/** What waits for the runtime folder: which log lines are missing of a job, how many copies are kept, and that no line is logged twice. */
import { describe, expect, it } from "vitest";
import type { RuntimeFiles } from "./runtime-files.ts";
import { NO_LINES, RuntimeCopies, RuntimePending } from "./runtime-pending.ts";
import { RuntimeLogs } from "./runtime-records.ts";

function manualClock() {
  let now = 0;
  return {
    monotonic: () => now,
    pass(ms: number) {
      now += ms;
    },
  };
}

describe("jobs that wait to be written", () => {
  it("keep the first event of which lines are missing, whatever comes after, and that all attempts are to be checked", () => {
    const clock = manualClock();
    const pending = new RuntimePending(clock);
    pending.add({ id: "a", from: 5, isWhole: true });
    pending.add({ id: "a", from: 9, isWhole: false });
    pending.add({ id: "b", from: NO_LINES, isWhole: false });
    expect(pending.take(9)).toEqual([
      { id: "a", from: 5, isWhole: true },
      { id: "b", from: NO_LINES, isWhole: false },
    ]);
    pending.addFailed({ id: "a", from: 5, isWhole: true });
    expect(pending.take(9)).toEqual([]);
    pending.add({ id: "a", from: 12, isWhole: false });
    expect(pending.take(9)).toEqual([{ id: "a", from: 5, isWhole: true }]);
    pending.addFailed({ id: "b", from: 7, isWhole: false });
    clock.pass(1_000);
    expect(pending.take(9)).toEqual([{ id: "b", from: 7, isWhole: false }]);
  });
});

describe("copies that wait", () => {
  it("are tried again a few at a time after a pause, as a whole; what is beyond the limit is reported as dropped, once", () => {
    const clock = manualClock();
    const copies = new RuntimeCopies(clock);
    for (let i = 0; i < 1_200; i++) copies.add(`job_${i}`, false);
    for (let next = copies.take(); next !== null; next = copies.take()) {
      expect(next).toMatchObject({ isWhole: false, isRetry: false });
      copies.addFailed(next.id);
    }
    expect(copies).toMatchObject({ hasWork: false, hasFailed: true });
    expect(copies.takeDropped()).toBe(false); // most of them fail yet
    clock.pass(1_000);
    const retried: (string | undefined)[] = [];
    for (let next = copies.take(); next !== null; next = copies.take()) {
      expect(next).toMatchObject({ isWhole: true, isRetry: true });
      retried.push(next.id);
      copies.addFailed(next.id);
    }
    expect(retried).toEqual(Array.from({ length: 20 }, (_, i) => `job_${i}`));
    clock.pass(2_000);
    expect(copies.take()?.id).toBe("job_20"); // the others come first
    // From here on it works: all at once.
    let count = 1;
    while (copies.take() !== null) count += 1;
    expect(count).toBe(1_000);
    expect([copies.takeDropped(), copies.takeDropped(), copies.hasFailed]).toEqual([true, false, false]);
  });

  it("block searches through all jobs, and nothing else", async () => {
    const copies = new RuntimeCopies(manualClock());
    for (let i = 0; i < 6_000; i++) copies.add(`job_${i}`, true);
    let hasRoom = false;
    const room = copies.gate.room().then(() => {
      hasRoom = true;
    });
    for (let i = 0; i < 4_000; i++) copies.take();
    await Promise.resolve();
    expect(hasRoom).toBe(false);
    copies.take();
    await room;
    for (let i = 0; i < 600; i++) copies.take();
    expect(copies.takeDropped()).toBe(true); // the thousand beyond the limit
  });
});

describe("lines of workers' logs", () => {
  const record = (worker: string, seq: number) => {
    const line = { timestamp: "", level: "INFO", worker, event: `event ${seq}` } as const;
    return { at: seq, seq, line } as unknown as Parameters<RuntimeLogs["add"]>[0][number];
  };

  it("are written once, even if the log of an old worker cannot be removed", async () => {
    const appended: string[] = [];
    const files = {
      append: async (_path: readonly string[], text: string) => void appended.push(text),
      remove: () => Promise.reject(new Error("EACCES")),
    } as unknown as RuntimeFiles;
    const logs = new RuntimeLogs(files);
    logs.add(Array.from({ length: 501 }, (_, i) => record(`w${i}`, i)));
    expect(await logs.write()).toMatchObject({ message: "EACCES" });
    expect(await logs.write()).toBe(null);
    expect(appended).toHaveLength(501);
  });
});
