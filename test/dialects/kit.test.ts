/** Tests of the test stage: it plays what it is set to, at the set times, on both stores. */
import { describe, expect, it } from "vitest";
import { VIRTUAL_START } from "../../src/testing/virtual-clock.ts";
import { openStage, STORES } from "./kit.ts";

const T0 = VIRTUAL_START;
const exec = { task: "exec", input: { argv: ["true"] } };
const fixed = (ms: number) => ({ retry: { maxAttempts: 5, backoff: { type: "fixed", delay: ms } } }) as const;

describe.each(STORES)("the stage on %s", (store) => {
  it("plays ends, each at its instant", async () => {
    const stage = await openStage(store);
    const id = await stage.submit({ ...exec, options: { ...fixed(60_000), timeout: "30s" } });
    expect(await stage.run(id, { exit: 7, stderr: "why" }, { tookMs: 2_500 })).toMatchObject({
      ...{ state: "queued", failures: 1, runAt: T0 + 62_500 },
    });
    expect(await stage.run(id, "timeout")).toMatchObject({ failures: 2, startedAt: T0 + 62_500, runAt: T0 + 152_500 });
    expect(await stage.run(id, "oom", { worker: "another" })).toMatchObject({ failures: 3 });
    expect(await stage.run(id, "ok")).toMatchObject({ state: "succeeded", attempt: 4, result: { exitCode: 0 } });
    const { attempts, events, workerName } = await stage.parts(id);
    expect(attempts.map(({ failure }) => failure?.message ?? null)).toEqual([
      ...["exit code 7: why", "timed out after 30 s", "out of memory: killed by the system", null],
    ]);
    expect(workerName(attempts[2]?.session ?? "")).toBe("another");
    expect(events.at(-1)).toMatchObject({ name: "attempt.succeeded" });
  });

  it("loses a worker when its lease expires, and one that exited at once", async () => {
    const stage = await openStage(store, { leaseMs: 15_000 });
    const [first, second] = [await stage.submit(exec), await stage.submit(exec)];
    const started = await stage.start(second);
    const before = stage.clock.now();
    expect(await stage.run(first, "lost", { tookMs: 40_000 })).toMatchObject({ losses: 1, failures: 0 });
    expect(stage.clock.now() - before).toBe(55_001);
    expect(await started.end("gone")).toMatchObject({ losses: 1, attempt: 1 });
    expect((await stage.parts(second)).events.at(-1)).toMatchObject({
      name: "attempt.lost",
      data: { why: "worker_gone" },
    });
  });

  it("leaps over quiet hours and stops where something runs out", async () => {
    const stage = await openStage(store);
    const id = await stage.submit({ ...exec, options: { expireIn: "1h" } });
    await stage.advance(86_400_000);
    expect(stage.clock.now()).toBe(T0 + 86_400_000);
    expect(await stage.job(id)).toMatchObject({ state: "failed", reason: "unschedulable", finishedAt: T0 + 3_600_001 });
    const other = await stage.submit(exec);
    expect(await stage.run(other, "lost")).toMatchObject({ losses: 1 });
    await expect(stage.run(id, "ok")).rejects.toThrow("it is failed (unschedulable)");
  });
});
