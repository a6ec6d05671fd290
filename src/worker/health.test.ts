import { describe, expect, it } from "vitest";
import { gate, openBench } from "../../test/kit.ts";
import { failure } from "../core/decision/failure.ts";
import { task } from "../core/task/task.ts";
import type { ClaimedJob, ReportedOutcome, WorkerHealth } from "../core/worker-protocol.ts";
import { AttemptRun } from "./attempt-run.ts";
import type { EngineLink } from "./engine-link.ts";
import { HealthCounts } from "./health.ts";

describe("a worker's counts", () => {
  it("count what ran, and failures in a row until a success", () => {
    const counts = new HealthCounts();
    for (const kind of ["completed", "failed", "interrupted", "timeout", "released", "lost"] as const) {
      counts.ended(kind, 100);
    }
    expect(counts.snapshot(3, 10)).toMatchObject({
      ...{ total: 5, failed: 2, consecutiveFailures: 2, averageMs: 100, inHand: 3, slots: 10 },
    });
    counts.ended("completed", 200);
    expect(counts.snapshot(0, 10)).toMatchObject({ total: 6, failed: 2, consecutiveFailures: 0, averageMs: 110 });
    expect(counts.snapshot(0, 10).load).toBeGreaterThanOrEqual(0);
  });

  it("count an attempt that was cancelled among those that ended, and not as a failure", async () => {
    const bench = await openBench();
    const stopped = task(
      "stopped",
      (_, { signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(new Error("stopped")));
        }),
    );
    const stubborn = task("stubborn", () => new Promise<void>(() => {}));
    await bench.work([stopped, stubborn, task("fails", () => Promise.reject(new Error("no")))], { stopGraceMs: 1_000 });
    for (const kind of ["stopped", "stubborn"]) {
      const id = await bench.submit(kind);
      await bench.settled();
      await bench.engine.command(id, { kind: "cancel" });
      await bench.advance(10_000);
      expect(await bench.job(id)).toMatchObject({ state: "cancelled" });
    }
    const health = async () => (await bench.store.sessions.list())[0]?.health;
    expect(await health()).toMatchObject({ total: 2, failed: 0, consecutiveFailures: 0 });
    await bench.submit("fails");
    await bench.advance(10_000);
    expect(await health()).toMatchObject({ total: 3, failed: 1, consecutiveFailures: 1 });
  });

  it("travel with each renewal", async () => {
    const reported: (WorkerHealth | undefined)[] = [];
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      renew(session, held, health) {
        reported.push(health);
        return link.renew(session, held, health);
      },
    });
    const bench = await openBench({ wrapLink });
    const slow = task("slow", () => new Promise<void>((resolve) => bench.clock.after(6_000, resolve)));
    await bench.work([slow], { slots: 4 });
    await bench.submit("slow");
    await bench.advance(10_000);
    expect(reported).toMatchObject([
      { total: 0, inHand: 1, slots: 4 },
      { total: 1, inHand: 0, averageMs: 6_000 },
    ]);
    const [session] = await bench.store.sessions.list();
    expect(session?.health).toMatchObject({ total: 1, slots: 4 });
  });
});

describe("a heartbeat", () => {
  it("is as often as the link requests, and at least three times per lease", async () => {
    for (const [heartbeatMs, expected] of [
      [2_000, 7],
      [60_000, 3],
    ] as const) {
      let renewals = 0;
      const wrapLink = (link: EngineLink): EngineLink => ({
        ...link,
        heartbeatMs,
        renew(...args) {
          renewals += 1;
          return link.renew(...args);
        },
      });
      const bench = await openBench({ wrapLink });
      await bench.work([task("k", () => {})]);
      await bench.advance(15_000);
      expect(renewals).toBe(expected);
    }
  });
});

describe("a worker that is drained", () => {
  it("is notified by a renewal, stops claiming, and resolves `drained` when it holds no attempt", async () => {
    const bench = await openBench();
    const end = gate();
    const worker = await bench.work([task("slow", () => end.passed)]);
    const id = await bench.submit("slow");
    await bench.settled();
    await bench.store.sessions.drain(worker.session, bench.clock.now());
    let isDrained = false;
    void worker.drained.then(() => {
      isDrained = true;
    });
    await bench.advance(6_000);
    const second = await bench.submit("slow");
    await bench.advance(60_000);
    expect(isDrained).toBe(false);
    expect(await bench.job(second)).toMatchObject({ state: "queued", attempt: 0 });
    end.open();
    await bench.settled();
    expect(isDrained).toBe(true);
    expect(await bench.job(id)).toMatchObject({ state: "succeeded" });
  });

  it("can be stopped meanwhile, with a grace time", async () => {
    const bench = await openBench();
    const worker = await bench.work([task("slow", () => new Promise<void>(() => {}))], { stopGraceMs: 1_000 });
    const id = await bench.submit("slow");
    await bench.settled();
    await bench.store.sessions.drain(worker.session, bench.clock.now());
    await bench.advance(6_000);
    const stopped = worker.stop(2_000);
    await bench.advance(10_000);
    await stopped;
    expect(await bench.job(id)).toMatchObject({ state: "queued", losses: 0 });
  });
});

describe("an attempt whose work is done", () => {
  const JOB: ClaimedJob = {
    ...{ id: "job_1", namespace: "default", queue: "default", kind: "k", attempt: 1, chapter: 1, token: "t" },
    ...{ payload: "", timeoutMs: null, failures: 0, maxAttempts: 3, tags: [], previous: null },
  };

  it("is not ended by its timeout or a request to stop, but by a loss", () => {
    const ends: ReportedOutcome[] = [];
    const holder = {
      now: () => 0,
      touch: () => {},
      ended: (_: AttemptRun, outcome: ReportedOutcome) => ends.push(outcome),
    };
    const run = new AttemptRun(JOB, "ses", 0, holder);
    let isTimerOn = true;
    run.cancelAtEnd(() => {
      isTimerOn = false;
    });
    run.workDone();
    expect(isTimerOn).toBe(false);
    for (const cause of ["timeout", "cancel", "shutdown", "unreachable"] as const) {
      run.stop(cause);
      expect(run.stopCause).toBeNull();
    }
    run.stop("lost");
    expect(run.stopCause).toBe("lost");
    run.finish({ kind: "failed", failure: failure({ kind: "exit", message: "exit code 1" }) });
    expect(ends).toHaveLength(1);
  });
});
