/** What wakes a parent or passes on a cancel may be lost with its process. The store knows, and a sweep finds it. */
import { describe, expect, it, vi } from "vitest";
import { task } from "../../src/index.ts";
import { gate, openBench } from "../kit.ts";

const child = task("child", () => "done");
const parent = task("parent", async (_: null, ctx) => {
  const [end] = await ctx.waitFor([await ctx.submit(child)]);
  return end.result;
});

describe("a wake that was lost", () => {
  it("is found by the sweep, within 5 s", async () => {
    const bench = await openBench();
    const lost = vi.spyOn(bench.store, "unblockable").mockRejectedValue(new Error("killed here"));
    const id = await bench.submit("parent");
    await bench.work([parent, child]);
    await bench.advance(100);
    expect((await bench.job(id)).state).toBe("blocked");
    lost.mockRestore();
    await bench.advance(5_000);
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", result: '"done"', failures: 0 });
  });

  it("of a cancel too", async () => {
    const bench = await openBench();
    const hold = gate();
    const slow = task("child", () => hold.passed);
    const id = await bench.submit("parent");
    await bench.work([parent, slow]);
    await bench.advance(100);
    const lost = vi.spyOn(bench.store, "cascades").mockRejectedValue(new Error("killed here"));
    await bench.engine.command(id, { kind: "cancel" });
    await bench.advance(100);
    const { jobs } = await bench.store.find({ parentId: id });
    expect(jobs[0]).toMatchObject({ state: "running", cancelRequestedAt: null });
    lost.mockRestore();
    await bench.advance(5_000);
    expect((await bench.store.find({ parentId: id })).jobs[0]?.cancelRequestedAt).not.toBe(null);
    hold.open();
    await bench.advance(100);
    expect(await bench.store.cascades(10)).toEqual([]);
  });
});

describe("a job that waits for nothing", () => {
  it("runs again after a second, not at once, and is charged nothing", async () => {
    const bench = await openBench();
    const session = await bench.engine.openSession({
      ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: ["loop"], queues: null, labels: {}, slots: 1 },
    });
    const done = await bench.submit("child");
    await bench.work([child]);
    await bench.advance(10);
    expect((await bench.job(done)).state).toBe("succeeded");
    const id = await bench.submit("loop");
    for (let attempt = 1; attempt <= 3; attempt++) {
      const { jobs } = await bench.engine.claim(session, { limit: 1 });
      const [job] = jobs;
      expect(job?.attempt).toBe(attempt);
      const from = { kind: "worker", token: job?.token ?? "", reportId: `r${attempt}` } as const;
      const outcome = { kind: "waiting", children: [done] } as const;
      await bench.engine.report([{ jobId: id, attempt, from, outcome, usage: null, log: null }]);
      await bench.settled();
      const { state, runAt, failures } = await bench.job(id);
      expect({ state, failures, waits: runAt - bench.clock.now() }).toEqual({
        state: "queued",
        failures: 0,
        waits: 1_000,
      });
      await bench.advance(1_000);
      await bench.engine.renew(session, []);
    }
  });

  it("fails when what it names cannot be a list of jobs", async () => {
    const bench = await openBench();
    const session = await bench.engine.openSession({
      ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: ["loop"], queues: null, labels: {}, slots: 1 },
    });
    const id = await bench.submit("loop");
    const { jobs } = await bench.engine.claim(session, { limit: 1 });
    const from = { kind: "worker", token: jobs[0]?.token ?? "", reportId: "r" } as const;
    const outcome = { kind: "waiting", children: ["no job"] } as const;
    await bench.engine.report([{ jobId: id, attempt: 1, from, outcome, usage: null, log: null }]);
    expect(await bench.job(id)).toMatchObject({ state: "failed", reason: "rejected" });
  });
});
