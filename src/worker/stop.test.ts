import { describe, expect, it } from "vitest";
import { aborted, gate, openBench } from "../../test/kit.ts";
import { failure } from "../core/decision/failure.ts";
import { task } from "../core/task/task.ts";
import type { Executor } from "./executor.ts";

describe("stop", () => {
  it("claims nothing more and lets what runs end within the grace time, uncharged and complete", async () => {
    const bench = await openBench();
    const end = gate<string>();
    const ran: string[] = [];
    const hold = task("hold", async (name: string) => {
      ran.push(name);
      return end.passed;
    });
    const worker = await bench.work([hold]);
    const id = await bench.submit("hold", { payload: '"first"' });
    await bench.settled();
    const stopped = worker.stop(60_000);
    const later = await bench.submit("hold", { payload: '"second"' });
    await bench.advance(30_000);
    end.open("in time");
    await stopped;
    expect(ran).toEqual(["first"]);
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", result: '"in time"', attempt: 1 });
    expect(await bench.job(later)).toMatchObject({ state: "queued", attempt: 0, revision: 1 });
    expect(await bench.store.sessions.list()).toMatchObject([{ running: 0, endedAt: bench.clock.now() }]);
  });

  it("claims no job that is submitted at that moment", async () => {
    const bench = await openBench();
    const quick = task("quick", () => 1);
    const worker = await bench.work([quick]);
    await bench.settled(); // it waits for a job
    const submitted = bench.submit("quick");
    const stopped = worker.stop(1_000);
    const id = await submitted;
    await stopped;
    const { attempt, handbacks, runAt } = await bench.job(id);
    expect({ attempt, handbacks, runAt }).toEqual({ attempt: 0, handbacks: 0, runAt: bench.clock.now() });
  });

  it("releases attempts that react to their signal after the grace time, without counting them", async () => {
    const bench = await openBench();
    const reasons: string[] = [];
    const heed = task("heed", async (_: unknown, ctx) => {
      const reason = await aborted(ctx.signal);
      reasons.push(reason.message);
      throw reason;
    });
    const worker = await bench.work([heed]);
    const id = await bench.submit("heed");
    await bench.settled();
    const stopped = worker.stop(10_000);
    await bench.advance(9_999);
    expect(reasons).toEqual([]);
    await bench.advance(1);
    await stopped;
    expect(reasons).toEqual(["the worker is shutting down"]);
    const job = await bench.job(id);
    expect(job).toMatchObject({ state: "queued", attempt: 1, failures: 0, losses: 0, handbacks: 1 });
    expect(job.runAt).toBe(bench.clock.now());
    expect((await bench.attempts(id))[0]).toMatchObject({ outcome: "interrupted", failure: null });
    await bench.work([task("heed", () => "next time")]);
    await bench.settled();
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", attempt: 2, handbacks: 0 });
  });

  it("also releases attempts that ignore their signal, after their stop grace", async () => {
    const bench = await openBench();
    const deaf = task("deaf", () => new Promise(() => {}));
    const worker = await bench.work([deaf], { stopGraceMs: 3_000 });
    const id = await bench.submit("deaf");
    await bench.settled();
    const stopped = worker.stop(0);
    await bench.advance(3_000);
    await stopped;
    expect(await bench.job(id)).toMatchObject({ state: "queued", attempt: 1, failures: 0, losses: 0 });
  });

  it("keeps the result of a handler that completes after the stop request", async () => {
    const bench = await openBench();
    const thorough = task("thorough", async (_: unknown, ctx) => {
      await aborted(ctx.signal);
      return "done all the same";
    });
    const worker = await bench.work([thorough]);
    const id = await bench.submit("thorough");
    await bench.settled();
    const stopped = worker.stop(0);
    await bench.advance(1);
    await stopped;
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", result: '"done all the same"' });
  });

  it("may be repeated, and waits for the first", async () => {
    const bench = await openBench();
    const end = gate();
    const worker = await bench.work([task("hold", () => end.passed)]);
    await bench.submit("hold");
    await bench.settled();
    const stops = [worker.stop(60_000), worker.stop(0), worker.stop(60_000)];
    await bench.settled();
    end.open();
    await Promise.all(stops);
    expect(worker.running).toBe(0);
  });

  it("forced, cuts a stop under way short and waits for no handler, uncharged", async () => {
    const bench = await openBench();
    const deaf = task("deaf", () => new Promise(() => {}));
    const worker = await bench.work([deaf], { stopGraceMs: 3_600_000 });
    const id = await bench.submit("deaf");
    await bench.settled();
    const stopped = worker.stop(3_600_000);
    await bench.advance(1_000);
    const forced = worker.stop(3_600_000, true);
    await bench.advance(1_000);
    await Promise.all([stopped, forced]);
    expect(await bench.job(id)).toMatchObject({ state: "queued", attempt: 1, failures: 0, losses: 0 });
    expect((await bench.attempts(id))[0]).toMatchObject({ outcome: "interrupted", failure: null });
  });

  it("forced, releases a command when it has exited, and keeps the outcome of one whose files are being stored", async () => {
    const bench = await openBench();
    const [dead, stored] = [gate(), gate()];
    const killed: Executor = {
      kind: "killed",
      run: async () => {
        await dead.passed;
        return { outcome: { kind: "failed", failure: failure({ kind: "exit", message: "killed" }) } };
      },
    };
    const done: Executor = {
      kind: "done",
      run: async (run) => {
        run.workDone();
        await stored.passed;
        return { outcome: { kind: "completed", result: "7" } };
      },
    };
    const worker = await bench.work([], { executors: [killed, done] });
    const ids = [await bench.submit("killed"), await bench.submit("done")] as const;
    await bench.settled();
    const stopped = worker.stop(0, true);
    await bench.advance(500);
    for (const id of ids) expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 1 });
    dead.open();
    stored.open();
    await bench.advance(1);
    await stopped;
    expect(await bench.job(ids[0])).toMatchObject({ state: "queued", failures: 0, losses: 0, handbacks: 1 });
    expect(await bench.job(ids[1])).toMatchObject({ state: "succeeded", result: "7" });
  });

  it("forced, leaves a command that cannot be killed to its lease", async () => {
    const bench = await openBench();
    const immortal: Executor = {
      kind: "immortal",
      run: (run) => {
        run.stopGraceMs = 3_600_000;
        return new Promise(() => {});
      },
    };
    const worker = await bench.work([], { executors: [immortal] });
    const id = await bench.submit("immortal");
    await bench.settled();
    const stopped = worker.stop(0, true);
    await bench.advance(2_000);
    await stopped;
    expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 1 });
    await bench.advance(60_000);
    expect(await bench.job(id)).toMatchObject({ state: "queued", attempt: 1, failures: 0, losses: 1, handbacks: 0 });
  });

  it("counts the twentieth hand-back in a row as a loss, so that nothing goes round for ever", async () => {
    const bench = await openBench();
    const id = await bench.submit("k");
    const heed = task("k", async (_: unknown, ctx) => Promise.reject(await aborted(ctx.signal)));
    for (let round = 0; round < 20; round++) {
      const worker = await bench.work([heed]);
      await bench.settled();
      const stopped = worker.stop(0);
      await bench.advance(1);
      await stopped;
    }
    expect(await bench.job(id)).toMatchObject({ state: "queued", attempt: 20, handbacks: 0, losses: 1, failures: 0 });
  });
});
