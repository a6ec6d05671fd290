import { describe, expect, it } from "vitest";
import { aborted, gate, openBench } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { task } from "../core/task/task.ts";

describe("slots", () => {
  it("are never exceeded, and all of them are used", async () => {
    const bench = await openBench();
    let running = 0;
    const seen: number[] = [];
    const step = task("step", async (turns: number) => {
      running += 1;
      seen.push(running);
      for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    });
    const worker = await bench.work([step], { slots: 3 });
    const ids = await Promise.all(
      Array.from({ length: 60 }, (_, i) => bench.submit("step", { payload: String(i % 5) })),
    );
    for (const id of ids) await bench.engine.waitForEnd(id, 1, { timeoutMs: null });
    expect(seen).toHaveLength(60);
    expect(Math.max(...seen)).toBe(3);
    expect(worker.running).toBe(0);
  });

  it("claim no more than its free slots, so that other workers get the others", async () => {
    const bench = await openBench();
    const end = gate();
    const hold = task("hold", () => end.passed);
    const first = await bench.work([hold], { slots: 2 });
    for (let i = 0; i < 5; i++) await bench.submit("hold");
    await bench.settled();
    const second = await bench.work([hold], { slots: 10 });
    await bench.settled();
    expect([first.running, second.running]).toEqual([2, 3]);
    end.open();
  });

  it("are free again after a handler threw, timed out or was cancelled", async () => {
    const bench = await openBench();
    const odd = task("odd", (how: string, ctx) => {
      if (how === "throw") throw new Error("no");
      return aborted(ctx.signal).then((reason) => Promise.reject(reason));
    });
    const worker = await bench.work([odd], { slots: 1 });
    await bench.submit("odd", { payload: '"throw"' });
    await bench.submit("odd", { payload: '"hang"', timeoutMs: 1_000 });
    const cancelled = await bench.submit("odd", { payload: '"hang"' });
    const last = await bench.submit("odd", { payload: '"throw"' });
    await bench.advance(1_000);
    await bench.engine.command(cancelled, { kind: "cancel" });
    await bench.settled();
    expect((await bench.job(last)).state).toBe("failed");
    expect(worker.running).toBe(0);
  });
});

describe("timeout and cancel", () => {
  it("aborts the signal at the timeout; the attempt counts as timed out and is retried", async () => {
    const bench = await openBench();
    const reasons: string[] = [];
    const slow = task("slow", async (_: unknown, ctx) => {
      reasons.push((await aborted(ctx.signal)).message);
      throw new Error("anything");
    });
    await bench.work([slow]);
    const policy = resolvePolicy({ maxAttempts: 2, backoff: { type: "none" } });
    const id = await bench.submit("slow", { timeoutMs: 3_000, policy });
    await bench.advance(2_999);
    expect(reasons).toEqual([]);
    await bench.advance(3_001);
    expect(reasons).toEqual(Array(2).fill("the attempt ran longer than its timeout"));
    expect(await bench.job(id)).toMatchObject({ state: "failed", reason: "timeout", failures: 2 });
    const [first] = await bench.attempts(id);
    expect(first).toMatchObject({
      outcome: "timeout",
      failure: { kind: "timeout", message: "timed out after 3 s" },
    });
  });

  it("gives up a handler that ignores its timeout after the grace time; what it does later changes nothing", async () => {
    const bench = await openBench();
    const end = gate<string>();
    const deaf = task("deaf", () => end.passed);
    await bench.work([deaf], { stopGraceMs: 2_000 });
    const id = await bench.submit("deaf", { timeoutMs: 1_000 });
    await bench.advance(2_999);
    expect((await bench.job(id)).state).toBe("running");
    await bench.advance(1);
    expect(await bench.job(id)).toMatchObject({ state: "failed", reason: "timeout" });
    const before = await bench.job(id);
    end.open("too late");
    await bench.settled();
    expect(await bench.job(id)).toEqual(before);
  });

  it("gives up a handler that ignores its cancel after the grace time", async () => {
    const bench = await openBench();
    const deaf = task("deaf", () => new Promise(() => {}));
    const worker = await bench.work([deaf], { stopGraceMs: 2_000, slots: 1 });
    const id = await bench.submit("deaf");
    await bench.settled();
    await bench.engine.command(id, { kind: "cancel" });
    await bench.advance(1_999);
    expect(await bench.job(id)).toMatchObject({ state: "running", cancelRequestedAt: expect.any(Number) });
    await bench.advance(1);
    expect(await bench.job(id)).toMatchObject({ state: "cancelled", failures: 0 });
    expect(worker.running).toBe(0);
  });

  it("has nothing to abort when the handler ends in time", async () => {
    const bench = await openBench();
    let signal: AbortSignal | null = null;
    const quick = task("quick", (_: unknown, ctx) => {
      signal = ctx.signal;
    });
    await bench.work([quick]);
    await bench.submit("quick", { timeoutMs: 1_000 });
    await bench.advance(10_000);
    expect((signal as AbortSignal | null)?.aborted).toBe(false);
  });
});
