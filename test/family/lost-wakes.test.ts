/** What wakes a parent or passes on a cancel may be lost with its process. The store has it, and a sweep finds it. */
import { describe, expect, it, vi } from "vitest";
import { resolvePolicy } from "../../src/core/policy/resolve-policy.ts";
import { task } from "../../src/index.ts";
import { type Bench, gate, openBench } from "../kit.ts";

const mayEnd = gate();
const child = task("child", async () => {
  await mayEnd.passed;
  return "done";
});
const parent = task("parent", async (_: null, ctx) => {
  const [end] = await ctx.waitFor([await ctx.submit(child)]);
  return end.result;
});

describe("a wake that was lost", () => {
  it("is found by the sweep, within 5 s", async () => {
    const bench = await openBench();
    const lost = vi.spyOn(bench.store.children, "unblockable").mockRejectedValue(new Error("killed here"));
    const id = await bench.submit("parent");
    await bench.work([parent, child]);
    await bench.advance(100);
    mayEnd.open();
    await bench.advance(100);
    const [first] = (await bench.store.find({ parentId: id })).jobs;
    expect([first?.state, (await bench.job(id)).state]).toEqual(["succeeded", "blocked"]);
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
    const lost = vi.spyOn(bench.store.children, "cascades").mockRejectedValue(new Error("killed here"));
    await bench.engine.command(id, { kind: "cancel" });
    await bench.advance(100);
    const { jobs } = await bench.store.find({ parentId: id });
    expect(jobs[0]).toMatchObject({ state: "running", cancelRequestedAt: null });
    lost.mockRestore();
    await bench.advance(5_000);
    expect((await bench.store.find({ parentId: id })).jobs[0]?.cancelRequestedAt).not.toBe(null);
    hold.open();
    await bench.advance(100);
    expect(await bench.store.children.cascades(10)).toEqual([]);
  });
});

describe("a job with an impossible wait", () => {
  /** An attempt of kind `loop` that reports to wait for these, and its result. */
  async function waiting(bench: Bench, children: (id: string) => readonly string[]) {
    const request = { namespace: "default", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: 1 };
    const session = await bench.engine.openSession({ ...request, kinds: ["loop"] });
    const id = await bench.submit("loop");
    const [job] = (await bench.engine.claim(session, { limit: 1 })).jobs;
    const from = { kind: "worker", token: job?.token ?? "", reportId: "r" } as const;
    const outcome = { kind: "waiting", children: children(id) } as const;
    await bench.engine.report([{ jobId: id, attempt: 1, from, outcome, usage: null, log: null }]);
    await bench.settled();
    const [attempt] = await bench.attempts(id);
    const { state, reason } = await bench.job(id);
    return { id, state, reason, outcome: attempt?.outcome, message: attempt?.failure?.message };
  }

  it("fails at once: for itself, another's job, no job, nothing", async () => {
    const bench = await openBench();
    const stranger = await bench.submit("child");
    for (const [children, said] of [
      [(id: string) => [id], "is not a child of this job"],
      [() => [stranger], `waitFor(): ${stranger} is not a child of this job`],
      [() => ["no job"], "waitFor(): no job is not a child of this job"],
      [() => [], "waitFor() got no children"],
      [() => Array.from({ length: 1_001 }, (_, i) => `job_${i}`), "is not a child of this job"],
    ] as const) {
      const end = await waiting(bench, children);
      expect(end).toMatchObject({ state: "failed", reason: "rejected", outcome: "failed" });
      expect(end.message).toContain(said);
    }
  });

  it("fails too if it waits repeatedly for the same ended jobs: it would run forever without progress", async () => {
    const bench = await openBench();
    const parents = await bench.submit("loop", { delayMs: 5_000 });
    const children: string[] = [];
    for (let i = 0; i < 2; i++) children.push(await bench.submit("child", { parent: { id: parents, attempt: null } }));
    await bench.work([task("child", () => "done")]);
    await bench.advance(5_000);
    for (const id of children) expect((await bench.job(id)).state).toBe("succeeded");
    const request = { namespace: "default", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: 1 };
    const session = await bench.engine.openSession({ ...request, kinds: ["loop"] });
    const wait = async (attempt: number) => {
      const [job] = (await bench.engine.claim(session, { limit: 1 })).jobs;
      const from = { kind: "worker", token: job?.token ?? "", reportId: `r${attempt}` } as const;
      const outcome = { kind: "waiting", children: [children[attempt % 2] as string] } as const;
      await bench.engine.report([{ jobId: parents, attempt, from, outcome, usage: null, log: null }]);
      await bench.settled();
      return bench.job(parents);
    };
    // Occasionally it may be by chance: the end may have been in progress when the attempt checked.
    for (let attempt = 1; attempt <= 4; attempt++) {
      expect(await wait(attempt)).toMatchObject({ state: "queued", reason: null });
    }
    expect(await wait(5)).toMatchObject({ state: "failed", reason: "rejected" });
    expect((await bench.attempts(parents))[4]?.failure?.message).toBe(
      "waitFor() was called repeatedly for children that had ended before this attempt started",
    );
    // Waits of an earlier chapter do not count.
    await bench.engine.command(parents, { kind: "redrive" });
    expect(await wait(6)).toMatchObject({ state: "queued", reason: null });
  });
});

describe("a parent that is redriven while its cancel is still in progress", () => {
  it("keeps the children of its new chapter", async () => {
    const bench = await openBench();
    const id = await bench.submit("loop");
    const old = await bench.submit("child", { parent: { id, attempt: null } });
    const lost = vi.spyOn(bench.store.children, "cascades").mockRejectedValue(new Error("killed here"));
    await bench.engine.command(id, { kind: "cancel" });
    await bench.settled();
    lost.mockRestore();
    await bench.engine.command(id, { kind: "redrive" });
    const fresh = await bench.submit("child", { parent: { id, attempt: null } });
    await bench.engine.sweepChildren();
    expect([(await bench.job(old)).state, (await bench.job(fresh)).state]).toEqual(["queued", "queued"]);
    // A second cancel applies to all of them.
    await bench.engine.command(id, { kind: "cancel" });
    await bench.engine.sweepChildren();
    expect([(await bench.job(old)).state, (await bench.job(fresh)).state]).toEqual(["cancelled", "cancelled"]);
    expect(await bench.store.children.cascades(10)).toEqual([]);
  });
});

describe("a cancel in progress when parent and child were redriven", () => {
  it("does not reach the child's new chapter", async () => {
    const bench = await openBench();
    const id = await bench.submit("loop");
    const child = await bench.submit("child", { parent: { id, attempt: null } });
    const lost = vi.spyOn(bench.store.children, "cascades").mockRejectedValue(new Error("killed here"));
    await bench.engine.command(id, { kind: "cancel" });
    await bench.settled();
    lost.mockRestore();
    const amend = bench.store.amend.bind(bench.store);
    const asked = vi.spyOn(bench.store, "amend").mockImplementationOnce(async (...given) => {
      await bench.engine.command(child, { kind: "cancel" });
      await bench.engine.command(id, { kind: "redrive" });
      await bench.engine.command(child, { kind: "redrive" });
      return amend(...given);
    });
    await bench.engine.sweepChildren();
    expect(asked).toHaveBeenCalled();
    expect(await bench.job(child)).toMatchObject({ state: "queued", chapter: 2, cancelRequestedAt: null });
  });
});

describe("reported usage", () => {
  it.each([
    { tokensIn: -1, tokensOut: 0, costUsd: 0 },
    { tokensIn: Number.NaN, tokensOut: 0, costUsd: 0 },
    { tokensIn: 0, tokensOut: 0, costUsd: 1e308 },
    { tokensIn: "7", tokensOut: 0, costUsd: 0 },
    { tokens: 1 },
    null,
  ])("must be numbers that can be added up: %j", async (usage) => {
    const bench = await openBench();
    await expect(bench.engine.setUsage("job_x", 1, usage as never)).rejects.toMatchObject({ code: "invalid_config" });
  });

  it("stops no attempt without usage after a redrive that granted more", async () => {
    const bench = await openBench();
    const policy = resolvePolicy({ maxAttempts: 2, budget: { costUsd: 1 } });
    const id = await bench.submit("think", { policy });
    const think = task("think", async (_: null, ctx) => {
      if (ctx.attempt === 1) ctx.usage({ costUsd: 2 });
      if (ctx.attempt === 1) throw new Error("broken");
      await new Promise<void>((resolve) => void bench.clock.after(30_000, resolve));
      return "done";
    });
    await bench.work([think]);
    await bench.advance(100);
    expect((await bench.job(id)).reason).toBe("budget");
    await expect(bench.engine.command(id, { kind: "redrive" })).rejects.toMatchObject({ code: "budget_spent" });
    await bench.engine.command(id, { kind: "redrive", changes: { budget: { costUsd: 1.5 } } });
    await bench.advance(31_000);
    expect((await bench.job(id)).state).toBe("succeeded");
  });
});
