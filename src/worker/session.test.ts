import { describe, expect, it } from "vitest";
import { aborted, gate, openBench, openCuttable, vanish } from "../../test/kit.ts";
import { task } from "../core/task/task.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import type { EngineLink } from "./engine-link.ts";
import { startWorker, TestLink } from "./testing-link.ts";

/** Ends when its signal is aborted, and records why. */
function heeding(reasons: string[]) {
  return task("heed", async (_: unknown, ctx) => {
    const reason = await aborted(ctx.signal);
    reasons.push(reason.message);
    throw reason;
  });
}

const LOST = "the attempt was lost: its lease expired and another worker may hold the job";
const UNREACHABLE = "the engine cannot be reached and the lease has expired: another worker may hold the job";

describe("a session", () => {
  it("keeps its jobs however long they run, by renewing", async () => {
    const bench = await openCuttable();
    const end = gate<string>();
    await bench.work([task("long", () => end.passed)]);
    const id = await bench.submit("long");
    await bench.advance(300_000);
    end.open("after five minutes");
    await bench.settled();
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", attempt: 1, losses: 0 });
  });

  it("survives renewals that fail for less than a lease", async () => {
    const bench = await openCuttable();
    const reasons: string[] = [];
    const worker = await bench.work([heeding(reasons)]);
    const { session } = worker;
    const id = await bench.submit("heed");
    await bench.advance(6_000);
    bench.cut.renew = true;
    await bench.advance(12_000);
    bench.cut.renew = false;
    await bench.advance(60_000);
    expect(reasons).toEqual([]);
    expect(worker.session).toBe(session);
    expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 1, losses: 0 });
    expect(bench.logged.filter((line) => line.includes("cannot renew"))).toHaveLength(1);
  });

  it("stops its handlers by itself when no renewal came through for a lease, without waiting for the engine", async () => {
    const bench = await openCuttable();
    const reasons: string[] = [];
    await bench.work([heeding(reasons)]);
    await bench.submit("heed");
    await bench.settled();
    Object.assign(bench.cut, { renew: true, claim: true, report: true });
    await bench.advance(14_000);
    expect(reasons).toEqual([]);
    await bench.advance(2_000);
    expect(reasons).toEqual([UNREACHABLE]);
  });

  it("counts its lease from the request, not from the answer", async () => {
    let late = true;
    let advanceBy: (ms: number) => Promise<void> = async () => {};
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      async renew(...args) {
        if (!late) throw new Error("the wire is cut");
        late = false;
        const answer = await link.renew(...args);
        await advanceBy(9_000);
        return answer;
      },
    });
    const bench = await openBench({ wrapLink });
    advanceBy = (ms) => new Promise((resolve) => bench.clock.after(ms, resolve));
    const reasons: string[] = [];
    await bench.work([heeding(reasons)]);
    await bench.submit("heed");
    await bench.advance(19_000); // requested at 5 s, answered at 14 s: valid until 20 s
    expect(reasons).toEqual([]);
    await bench.advance(1_500);
    expect(reasons).toEqual([UNREACHABLE]);
  });

  it("soon sends news that came during a renewal", async () => {
    let hold: Promise<void> | null = null;
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      async renew(...args) {
        const answer = await link.renew(...args);
        await hold;
        return answer;
      },
    });
    const bench = await openBench({ wrapLink });
    const [renewed, answered, end] = [gate(), gate(), gate()];
    const long = task("long", async (_: unknown, ctx) => {
      ctx.progress("early");
      await renewed.passed;
      ctx.progress("late");
      await end.passed;
    });
    await bench.work([long]);
    const id = await bench.submit("long");
    hold = answered.passed;
    await bench.advance(1_000);
    renewed.open();
    await bench.settled();
    answered.open();
    await bench.advance(1_000);
    expect((await bench.job(id)).progress).toBe('"late"');
    end.open();
  });

  it("loses its jobs to another worker when it is cut off, and its own late report changes nothing", async () => {
    const bench = await openCuttable();
    const end = gate<string>();
    await bench.work([task("deaf", () => end.passed)]);
    const id = await bench.submit("deaf");
    await bench.settled();
    Object.assign(bench.cut, { renew: true, claim: true, report: true });
    await bench.advance(17_000);
    expect(await bench.job(id)).toMatchObject({ state: "queued", attempt: 1, losses: 1, failures: 0 });
    end.open("too late");
    await bench.settled();
    Object.assign(bench.cut, { renew: false, claim: false, report: false });
    await bench.advance(20_000);
    const [first] = await bench.attempts(id);
    expect(first).toMatchObject({ attempt: 1, outcome: "lost", result: null });
    expect((await bench.job(id)).attempt).toBeGreaterThan(1);
    const history = await bench.store.history(id);
    expect(history?.lateReports).toMatchObject([{ attempt: 1 }]);
  });

  it("that was frozen past its lease stops its handlers when it wakes, and its reports are stale", async () => {
    const thawed = gate();
    let frozen = false;
    const wrapLink = (link: EngineLink): EngineLink => {
      const held = async () => {
        if (frozen) await thawed.passed;
      };
      return {
        ...link,
        renew: (...args) => held().then(() => link.renew(...args)),
        claim: (...args) => held().then(() => link.claim(...args)),
        report: (...args) => held().then(() => link.report(...args)),
      };
    };
    const bench = await openBench({ wrapLink });
    const [finish, reasons] = [gate<string>(), [] as string[]];
    const zombie = task("k", async (_: unknown, ctx) => {
      if (ctx.attempt > 1) throw new Error("not again");
      void aborted(ctx.signal).then((reason) => reasons.push(reason.message));
      return finish.passed;
    });
    await bench.work([zombie], { stopGraceMs: 60_000 });
    const id = await bench.submit("k");
    await bench.settled();
    frozen = true;
    await bench.advance(17_000);
    const [taken] = await vanish(bench);
    const from = { kind: "worker", token: taken?.token as string, reportId: "other" } as const;
    const outcome = { kind: "completed", result: '"by the other"' } as const;
    await bench.engine.report([{ jobId: id, attempt: 2, from, outcome, usage: null, log: null }]);
    frozen = false;
    thawed.open();
    await bench.advance(1_000);
    expect(reasons).toEqual([UNREACHABLE]); // it noticed by itself, without an answer
    finish.open("by the zombie");
    await bench.advance(1_000);
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", attempt: 2, result: '"by the other"' });
    expect((await bench.attempts(id)).map((attempt) => attempt.outcome)).toEqual(["lost", "completed"]);
    expect((await bench.engine.explain(id)).text).toContain("A late report of attempt 1");
  });

  it("does not count an attempt that it stopped as a precaution", async () => {
    const bench = await openCuttable();
    const reasons: string[] = [];
    await bench.work([heeding(reasons)]);
    const id = await bench.submit("heed");
    await bench.settled();
    bench.cut.renew = true;
    await bench.engine.stop(); // no reaper is awake: the worker's own report comes first
    await bench.advance(15_500);
    expect(reasons[0]).toBe(UNREACHABLE);
    expect(await bench.job(id)).toMatchObject({ failures: 0, losses: 0, handbacks: 1, reason: null });
    expect((await bench.attempts(id))[0]).toMatchObject({ outcome: "interrupted" });
  });

  it("keeps holding an attempt that ignores the signal, and can still stop it for another cause", async () => {
    const bench = await openCuttable();
    await bench.work([task("deaf", () => new Promise(() => {}))], { stopGraceMs: 1_000 });
    const id = await bench.submit("deaf");
    await bench.settled();
    bench.cut.renew = true;
    await bench.engine.stop();
    await bench.advance(18_000);
    expect(await bench.job(id)).toMatchObject({ state: "running", failures: 0, losses: 0 });
    bench.cut.renew = false;
    await bench.advance(6_000);
    expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 1 });
    await bench.engine.command(id, { kind: "cancel" });
    await bench.advance(6_000);
    expect(await bench.job(id)).toMatchObject({ state: "cancelled", attempt: 1, losses: 0 });
  });

  it("keeps the result of an attempt that seemed lost, if no other worker took the job", async () => {
    const bench = await openCuttable();
    const thorough = task("thorough", async (_: unknown, ctx) => {
      await aborted(ctx.signal);
      return "done";
    });
    await bench.work([thorough]);
    const id = await bench.submit("thorough");
    await bench.settled();
    bench.cut.renew = true;
    await bench.engine.stop();
    await bench.advance(17_000);
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", result: '"done"' });
  });

  it("that the engine has ended is replaced by a new one, and work continues", async () => {
    const bench = await openCuttable();
    const reasons: string[] = [];
    const worker = await bench.work([heeding(reasons), task("quick", () => "fine")]);
    const before = worker.session;
    const held = await bench.submit("heed");
    await bench.settled();
    await bench.engine.closeSession(before);
    await bench.advance(6_000);
    expect(reasons).toEqual([LOST]);
    expect(worker.session).not.toBe(before);
    const next = await bench.submit("quick");
    await bench.settled();
    expect(await bench.job(next)).toMatchObject({ state: "succeeded", worker: worker.session });
    expect((await bench.attempts(held))[0]).toMatchObject({ outcome: "lost", session: before });
    expect(bench.logged.join("\n")).toContain("session expired, opened a new one");
  });

  it("may claim the same job again while the old handler is still running, and keeps the new attempt alive", async () => {
    const bench = await openCuttable();
    const ends = [gate<string>(), gate<string>()];
    const deaf = task("deaf", (_: unknown, ctx) => ends[ctx.attempt - 1]?.passed);
    const worker = await bench.work([deaf], { stopGraceMs: 60_000 });
    const id = await bench.submit("deaf");
    await bench.settled();
    await bench.engine.closeSession(worker.session);
    await bench.advance(6_000);
    expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 2 });
    ends[0]?.open("the old one");
    await bench.advance(60_000); // several leases: the new run must be renewed
    expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 2, handbacks: 0 });
    ends[1]?.open("the new one");
    await bench.settled();
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", result: '"the new one"', attempt: 2 });
  });

  it("receives a missed cancel with the next renewal", async () => {
    const wrapLink = (link: EngineLink): EngineLink => ({ ...link, onCancel: () => () => {} });
    const bench = await openBench({ wrapLink });
    const reasons: string[] = [];
    await bench.work([heeding(reasons)]);
    const id = await bench.submit("heed");
    await bench.settled();
    await bench.engine.command(id, { kind: "cancel" });
    await bench.advance(5_000);
    expect(reasons).toEqual(["the job was cancelled"]);
    expect((await bench.job(id)).state).toBe("cancelled");
  });

  it("renews even if there are more logs than one renewal can hold, and sends all of them in the end", async () => {
    const longest: number[] = [];
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      renew(session, held, health) {
        longest.push(held.reduce((sum, { log }) => sum + (log?.length ?? 0), 0));
        return link.renew(session, held, health);
      },
    });
    const bench = await openBench({ wrapLink });
    const open = gate();
    const chatty = task("chatty", async (_input, ctx) => {
      for (let line = 0; line < 50; line++) ctx.log("x".repeat(1_000));
      ctx.progress(1);
      await open.passed;
    });
    await bench.work([chatty], { slots: 100 });
    const ids = await Promise.all(Array.from({ length: 100 }, () => bench.submit("chatty")));
    await bench.advance(20_000);
    expect(Math.max(...longest)).toBeLessThan(1_500_000);
    open.open();
    await bench.settled();
    await bench.advance(1_000);
    for (const id of ids) {
      expect(await bench.job(id)).toMatchObject({ state: "succeeded", attempt: 1, progress: "1" });
      expect((await bench.attempts(id))[0]?.log?.match(/x{1000}/g)).toHaveLength(50);
    }
  });

  it("notices the end of its lease in time also when a renewal is under way on a dead line", async () => {
    let isDead = false;
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      renew: (...args) => (isDead ? new Promise(() => {}) : link.renew(...args)),
    });
    const bench = await openBench({ wrapLink });
    const reasons: string[] = [];
    await bench.work([heeding(reasons)]);
    await bench.submit("heed");
    await bench.advance(6_000); // renewed at 5 s: good until 20 s
    isDead = true;
    await bench.advance(13_900);
    expect(reasons).toEqual([]);
    await bench.advance(200);
    expect(reasons).toEqual([UNREACHABLE]);
  });
});

describe("a budget that is spent", () => {
  const settled = async () => {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  };

  /** Runs the handler until a renewal returns that the budget is spent, and returns the report. */
  async function spend(handler: (signal: AbortSignal) => unknown) {
    const link = new TestLink();
    const clock = new VirtualClock();
    const costly = task("costly", (_: unknown, { usage, signal }) => {
      usage({ costUsd: 5 });
      return handler(signal);
    });
    const worker = await startWorker(link, clock, [costly], { stopGraceMs: 2_000 });
    const jobId = link.give("costly");
    await settled();
    link.answer = { overspent: [{ jobId, attempt: 1 }] };
    for (let step = 0; step < 8 && link.reports.length === 0; step++) {
      clock.moveTo(clock.now() + 500);
      await settled();
    }
    await worker.stop(0);
    return { report: link.reportOf(jobId), renewal: link.held[0] };
  }

  it("stops the attempt within about a second, and reports its usage", async () => {
    const reasons: string[] = [];
    const { report, renewal } = await spend(async (signal) => {
      const reason = await aborted(signal);
      reasons.push(reason.message);
      throw reason;
    });
    expect(renewal).toMatchObject([{ usage: { costUsd: 5 } }]);
    expect(reasons).toEqual(["the job has spent its budget of tokens or money"]);
    expect(report).toMatchObject({
      ...{ usage: { costUsd: 5 }, outcome: { kind: "failed", failure: { kind: "error", name: "BudgetError" } } },
    });
  });

  it("ends a run that does not stop, too", async () => {
    const { report } = await spend(() => new Promise(() => {}));
    expect(report).toMatchObject({ usage: { costUsd: 5 }, outcome: { failure: { name: "BudgetError" } } });
  });

  it("does not undo what was done: a handler that completes all the same has completed", async () => {
    const { report } = await spend((signal) => aborted(signal).then(() => "done"));
    expect(report?.outcome).toEqual({ kind: "completed", result: '"done"' });
  });
});
