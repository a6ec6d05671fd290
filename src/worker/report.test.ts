import { describe, expect, it } from "vitest";
import { gate, openBench, openCuttable } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { task } from "../core/task/task.ts";
import type { Report } from "../core/worker-protocol.ts";
import type { EngineLink } from "./engine-link.ts";

describe("a report", () => {
  it("that fails is repeated until it is answered, with the same id, and recorded once", async () => {
    const bench = await openCuttable();
    await bench.work([task("quick", () => "fine")]);
    bench.cut.report = true;
    const id = await bench.submit("quick");
    await bench.advance(5_000);
    expect((await bench.job(id)).state).toBe("running");
    bench.cut.report = false;
    await bench.advance(1_000);
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", attempt: 1, revision: 3 });
    expect(bench.reports.length).toBeGreaterThan(3);
    expect(new Set(bench.reports.map(({ from }) => (from as { reportId: string }).reportId)).size).toBe(1);
  });

  it("whose answer was lost is repeated and gets the same answer; nothing is counted twice", async () => {
    let lose = true;
    const answers: unknown[] = [];
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      async report(...args) {
        const answer = await link.report(...args);
        answers.push(answer);
        if (lose) throw new Error("the answer was lost");
        return answer;
      },
    });
    const bench = await openBench({ wrapLink });
    const down = task("down", () => {
      throw new Error("down");
    });
    await bench.work([down], { slots: 1 });
    const policy = resolvePolicy({ maxAttempts: 2, backoff: { type: "fixed", delay: "1h" } });
    const id = await bench.submit("down", { policy });
    await bench.advance(2_500);
    lose = false;
    await bench.advance(1_000);
    expect(answers.map((answer) => (answer as { repeated: boolean }).repeated)).toEqual([false, true, true, true]);
    expect(await bench.job(id)).toMatchObject({ state: "queued", failures: 1, revision: 3 });
    expect(await bench.attempts(id)).toHaveLength(1);
  });

  it("that is refused is replaced by a failure, so that its job ends instead of running for ever", async () => {
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      async report(report, session) {
        const size = JSON.stringify(report).length;
        if (size < 2_000) return link.report(report, session);
        return { status: "refused", code: "body_too_large", message: "the body may have 2000 bytes at most" };
      },
    });
    const bench = await openBench({ wrapLink });
    const handled: number[] = [];
    const long = task("long", (_input, ctx) => {
      handled.push(ctx.attempt);
      return "x".repeat(5_000);
    });
    await bench.work([long]);
    const id = await bench.submit("long", { policy: resolvePolicy({ maxAttempts: 5 }) });
    await bench.advance(60_000);
    expect(await bench.job(id)).toMatchObject({ state: "failed", reason: "rejected", attempt: 1 });
    const [attempt] = await bench.attempts(id);
    expect(attempt?.failure?.message).toBe(
      "the report of this attempt was refused: the body may have 2000 bytes at most",
    );
    expect(handled).toEqual([1]);
  });

  it("in progress keeps its attempt held: its lease is renewed, and stop waits for it", async () => {
    const bench = await openCuttable();
    const worker = await bench.work([task("quick", () => "fine")]);
    bench.cut.report = true;
    const id = await bench.submit("quick");
    await bench.advance(60_000);
    expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 1, losses: 0, handbacks: 0 });
    const stopped = worker.stop(30_000);
    await bench.advance(1_000);
    bench.cut.report = false;
    await bench.advance(1_000);
    await stopped;
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", attempt: 1 });
  });

  it("that contradicts an earlier one of the same attempt gets the first outcome", async () => {
    const bench = await openBench();
    const session = await bench.engine.openSession({
      ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: ["k"], queues: null, labels: {}, slots: 9 },
    });
    await bench.submit("k");
    const { jobs } = await bench.engine.claim(session, { limit: 1 });
    const [job] = jobs;
    if (job === undefined) throw new Error("nothing was claimed");
    const report = (reportId: string, outcome: Report["outcome"]): Report => ({
      ...{ jobId: job.id, attempt: job.attempt, outcome, usage: null, log: null },
      from: { kind: "worker", token: job.token, reportId },
    });
    const won = report("a", { kind: "completed", result: "1" });
    const answers = await Promise.all([
      bench.engine.report([won]),
      bench.engine.report([report("b", { kind: "completed", result: "2" }), won]),
      bench.engine.report([report("c", { kind: "interrupted" })]),
      bench.engine.report([{ ...won, from: { kind: "worker", token: "1.x.y.1", reportId: "a2" } }]),
    ]);
    expect(answers.flat()).toMatchObject([
      { status: "accepted", repeated: false, state: "succeeded" },
      { status: "stale", recorded: "completed" },
      { status: "accepted", repeated: true, state: "succeeded" },
      { status: "stale", recorded: "completed" },
      { status: "stale", recorded: "completed" },
    ]);
    expect(await bench.job(job.id)).toMatchObject({ state: "succeeded", result: "1", revision: 3 });
  });
});

describe("log text", () => {
  it("given to a renewal that fails arrives with the next, once and in order", async () => {
    const bench = await openCuttable();
    const end = gate();
    const talk = task("talk", async (_: unknown, ctx) => {
      ctx.log("first");
      ctx.progress(1);
      await end.passed;
      ctx.log("last");
    });
    await bench.work([talk]);
    const id = await bench.submit("talk");
    await bench.settled();
    bench.cut.renew = true;
    await bench.advance(4_000);
    bench.cut.renew = false;
    await bench.advance(4_000);
    end.open();
    await bench.settled();
    const log = (await bench.attempts(id))[0]?.log ?? "";
    expect(log.split("\n").map((line) => line.slice(25))).toEqual(["first", "last", ""]);
  });

  it("given to a renewal is kept when the run ends in the same moment", async () => {
    const bench = await openBench();
    const end = gate();
    const talk = task("talk", async (_: unknown, ctx) => {
      ctx.log("first");
      ctx.progress(1); // renews in a second
      await end.passed;
      ctx.log("last");
    });
    await bench.work([talk]);
    const id = await bench.submit("talk");
    await bench.settled();
    bench.clock.after(1_000, () => end.open());
    await bench.advance(1_000);
    const log = (await bench.attempts(id))[0]?.log ?? "";
    expect(log.split("\n").map((line) => line.slice(25))).toEqual(["first", "last", ""]);
  });

  it("does not grow without limit while renewals fail", async () => {
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      async renew() {
        // In progress for a while, in which the handler keeps logging.
        for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
        throw new Error("lost on the way");
      },
    });
    const bench = await openBench({ wrapLink });
    const end = gate();
    const flood = task("flood", async (_: unknown, ctx) => {
      while (!end.isOpen) {
        for (let i = 0; i < 700; i++) ctx.log("x".repeat(100));
        await new Promise((resolve) => setImmediate(resolve));
      }
    });
    await bench.work([flood]);
    const id = await bench.submit("flood");
    await bench.advance(12_000);
    end.open();
    await bench.settled();
    const log = (await bench.attempts(id))[0]?.log ?? "";
    expect(log.length).toBeLessThan(65_536);
    expect(log).toMatch(/\[\d+ characters of log dropped\]\n$/);
  });
});
