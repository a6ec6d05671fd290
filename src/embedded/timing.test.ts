import { describe, expect, it } from "vitest";
import { task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

const DAY_MS = 86_400_000;

async function kitWithNote() {
  const kit = await openTestEngine();
  const ran: [unknown, number][] = [];
  const start = kit.clock.now();
  const note = task("note", (input: unknown) => {
    ran.push([input, kit.clock.now() - start]);
  });
  return Object.assign(kit, { ran, note, start });
}

describe("when a job runs", () => {
  it("starts at its delay or instant to the millisecond, or at once if that is past", async () => {
    await using kit = await kitWithNote();
    await kit.perdure.work([kit.note]);
    await kit.perdure.submit(kit.note, "delay", { delay: "1500ms" });
    await kit.perdure.submit(kit.note, "date", { runAt: new Date(kit.start + 2_001) });
    await kit.perdure.submit(kit.note, "number", { runAt: kit.start + 777 });
    await kit.perdure.submit(kit.note, "past", { runAt: kit.start - DAY_MS });
    await kit.perdure.submit(kit.note, "zero", { delay: 0 });
    await kit.advance("3s");
    expect(kit.ran).toEqual([
      ["past", 0],
      ["zero", 0],
      ["number", 777],
      ["delay", 1_500],
      ["date", 2_001],
    ]);
  });

  it.each([25, 30, 400])("waits %i days, longer than a timer of Node can", async (days) => {
    await using kit = await kitWithNote();
    await kit.perdure.work([kit.note]);
    const job = await kit.perdure.submit(kit.note, days, { delay: `${days}d` });
    await kit.advance("1s");
    await kit.advance(days * DAY_MS - 2_000);
    expect((await job.get()).state).toBe("queued");
    await kit.advance("999ms");
    expect(kit.ran).toEqual([]);
    await kit.advance("1ms");
    expect(kit.ran).toEqual([[days, days * DAY_MS]]);
  });

  it("takes the lowest priority number first, then the longest due, then the first submitted", async () => {
    await using kit = await kitWithNote();
    const order = [
      ["b", { priority: 5 }],
      ["a-late", { priority: 0, runAt: kit.start - 1 }],
      ["c", { priority: 9, runAt: 0 }],
      ["a-early", { priority: 0, runAt: kit.start - 2 }],
      ["b2", {}],
      ["other queue", { priority: 1, queue: "q" }],
    ] as const;
    for (const [input, options] of order) await kit.perdure.submit(kit.note, input, options);
    await kit.perdure.work([kit.note], { concurrency: 1 });
    await kit.settled();
    expect(kit.ran.map(([input]) => input)).toEqual(["a-early", "a-late", "other queue", "b", "b2", "c"]);
  });

  it("is not delayed by jobs that are not due yet", async () => {
    await using kit = await kitWithNote();
    await kit.perdure.submitMany(
      Array.from({ length: 200 }, () => ({ task: kit.note, options: { delay: "1h", priority: 0 } })),
    );
    await kit.perdure.submit(kit.note, "now", { priority: 9 });
    await kit.perdure.work([kit.note], { concurrency: 1 });
    await kit.settled();
    expect(kit.ran).toEqual([["now", 0]]);
  });
});

describe("expireIn", () => {
  it("fails a job that was not started in time, as unschedulable, and never starts it later", async () => {
    await using kit = await kitWithNote();
    const job = await kit.perdure.submit(kit.note, 1, { expireIn: "10s" });
    await kit.advance("9s");
    expect((await job.get()).state).toBe("queued");
    await kit.advance("2s");
    expect(await job.get()).toMatchObject({ state: "failed", reason: "unschedulable", attempt: 0 });
    await kit.perdure.work([kit.note]);
    await kit.advance("1m");
    expect(kit.ran).toEqual([]);
    await expect(job.result()).rejects.toMatchObject({ code: "job_failed", reason: "unschedulable", failure: null });
  });

  it("does not touch a job that was started in time, however long it runs", async () => {
    await using kit = await openTestEngine();
    let end: (value: string) => void = () => {};
    const long = task("long", () => new Promise<string>((resolve) => (end = resolve)));
    await kit.perdure.work([long]);
    const job = await kit.perdure.submit(long, undefined, { expireIn: "10s" });
    await kit.advance("1m");
    expect((await job.get()).state).toBe("running");
    end("late but fine");
    expect(await job.result()).toBe("late but fine");
  });

  it("counts from the time the job is due, and again for each retry", async () => {
    await using kit = await openTestEngine();
    const flaky = task("flaky", { retry: { maxAttempts: 2, backoff: { type: "fixed", delay: "1m" } } }, () => {
      throw new Error("down");
    });
    const job = await kit.perdure.submit(flaky, undefined, { expireIn: "10s", delay: "30s" });
    await kit.advance("29s");
    expect((await job.get()).state).toBe("queued");
    const worker = await kit.perdure.work([flaky]);
    await kit.advance("1s");
    expect(await job.get()).toMatchObject({ state: "queued", attempt: 1, expiresAt: kit.clock.now() + 70_000 });
    await Promise.all([worker.stop(), kit.advance("10ms")]);
    await kit.advance("72s");
    expect(await job.get()).toMatchObject({ state: "failed", reason: "exhausted", attempt: 1, failures: 2 });
  });

  it("stops counting while the queue is paused", async () => {
    await using kit = await kitWithNote();
    const job = await kit.perdure.submit(kit.note, 1, { expireIn: "10s", queue: "q" });
    const other = await kit.perdure.submit(kit.note, 1, { expireIn: "10s", queue: "open" });
    await kit.advance("6s");
    await kit.perdure.pause("q");
    await kit.advance("5m");
    expect((await job.get()).state).toBe("queued");
    expect((await job.explain()).text).toContain("does not pass while the queue is paused");
    expect(await other.get()).toMatchObject({ state: "failed", reason: "unschedulable" });
    await kit.perdure.resume("q");
    await kit.advance("3s");
    expect((await job.get()).state).toBe("queued");
    await kit.advance("7s");
    expect(await job.get()).toMatchObject({ state: "failed", reason: "unschedulable" });
  });

  it("lets a job delayed by a pause start right after it", async () => {
    await using kit = await kitWithNote();
    await kit.perdure.work([kit.note]);
    await kit.perdure.pause("default");
    await kit.perdure.submit(kit.note, 1, { expireIn: "10s" });
    await kit.advance("1m");
    expect(kit.ran).toEqual([]);
    await kit.perdure.resume("default");
    await kit.advance("1s");
    expect(kit.ran).toHaveLength(1);
  });
});

describe("a deadline", () => {
  it("fails a job that has not started in time, also in a paused queue and in backoff", async () => {
    await using kit = await openTestEngine();
    const retry = { maxAttempts: 5, backoff: { type: "fixed", delay: "1m" } } as const;
    const flaky = task("flaky", { retry }, () => {
      throw new Error("down");
    });
    await kit.perdure.work([flaky]);
    await kit.perdure.pause("held");
    const deadline = kit.clock.now() + 30_000;
    const waiting = await kit.perdure.submit("nobody", undefined, { deadline });
    const held = await kit.perdure.submit("nobody", undefined, { deadline, queue: "held" });
    const retried = await kit.perdure.submit(flaky, undefined, { deadline });
    await kit.advance("29s");
    for (const job of [waiting, held, retried]) expect((await job.get()).state).toBe("queued");
    await kit.advance("2s");
    for (const job of [waiting, held, retried]) {
      expect(await job.get()).toMatchObject({ state: "failed", reason: "unschedulable" });
    }
    expect((await retried.get()).attempt).toBe(1);
  });

  it("starts nothing after it, even when a worker comes before the sweep", async () => {
    await using kit = await kitWithNote();
    const job = await kit.perdure.submit(kit.note, 1, { deadline: new Date(kit.start + 500), delay: 600 });
    await kit.perdure.submit(kit.note, "in time", { deadline: new Date(kit.start + 601), delay: 600 });
    await kit.perdure.work([kit.note]);
    await kit.advance("5s");
    expect(kit.ran.map(([input]) => input)).toEqual(["in time"]);
    expect(await job.get()).toMatchObject({ state: "failed", reason: "unschedulable", attempt: 0 });
  });
});
