import { describe, expect, it } from "vitest";
import { engineEvents, gate, openBench, openSession, vanish } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { task } from "../core/task/task.ts";
import type { ClaimedJob } from "../core/worker-protocol.ts";

function held(job: ClaimedJob | undefined) {
  return [{ jobId: job?.id as string, attempt: job?.attempt as number }];
}

describe("a worker that vanishes", () => {
  it("loses its jobs when its lease has expired, not before, and the first loss is retried at once", async () => {
    const bench = await openBench();
    const id = await bench.submit("k");
    await vanish(bench);
    await bench.advance(15_000);
    expect((await bench.job(id)).state).toBe("running");
    await bench.advance(1_000);
    const job = await bench.job(id);
    expect(job).toMatchObject({ state: "queued", attempt: 1, losses: 1, failures: 0, streak: 1 });
    expect(job.runAt).toBe(bench.clock.now());
    expect((await bench.attempts(id))[0]).toMatchObject({ outcome: "lost", failure: null });
    expect((await engineEvents(bench)).map(({ name }) => name)).not.toContain("engine.reaping_held");
    await bench.advance(1_000);
    expect((await engineEvents(bench)).map(({ name }) => name)).toContain("worker.lost");
  });

  it("does not affect other workers", async () => {
    const bench = await openBench();
    const end = gate();
    const lost = await bench.submit("k");
    await vanish(bench);
    await bench.work([task("other", () => end.passed)]);
    const kept = await bench.submit("other");
    await bench.advance(60_000);
    expect((await bench.job(lost)).losses).toBe(1);
    expect(await bench.job(kept)).toMatchObject({ state: "running", attempt: 1, losses: 0 });
    end.open();
  });

  it("three times in quick succession makes the job poison", async () => {
    const bench = await openBench();
    const id = await bench.submit("k");
    for (let round = 0; round < 3; round++) {
      expect(await vanish(bench)).toHaveLength(1);
      await bench.advance(20_000); // and through the backoff of the second loss
    }
    expect(await bench.job(id)).toMatchObject({
      state: "failed",
      reason: "poison",
      losses: 3,
      failures: 0,
      attempt: 3,
    });
  });

  it("is not poison if the attempt was seen alive for long, or another outcome came between", async () => {
    const bench = await openBench();
    const policy = resolvePolicy({ maxAttempts: 9, backoff: { type: "none" } });
    const id = await bench.submit("k", { policy });
    for (let round = 0; round < 4; round++) {
      const session = await openSession(bench);
      const { jobs } = await bench.engine.claim(session, { limit: 1 });
      for (let renewal = 0; renewal < 8; renewal++) {
        await bench.advance(5_000);
        expect((await bench.engine.renew(session, held(jobs[0]))).alive).toBe(true);
      }
      await bench.advance(30_000);
    }
    expect(await bench.job(id)).toMatchObject({ state: "queued", losses: 4, streak: 0 });
  });

  it("ends the job as lost when that budget is used up", async () => {
    const bench = await openBench();
    const policy = resolvePolicy({ maxAttempts: 5, workerLost: { maxRetries: 1, poison: false } });
    const id = await bench.submit("k", { policy });
    await vanish(bench);
    await bench.advance(17_000);
    await vanish(bench);
    await bench.advance(17_000);
    expect(await bench.job(id)).toMatchObject({ state: "failed", reason: "lost", losses: 2, failures: 0 });
  });

  it("does not retry a job that must run at most once", async () => {
    const bench = await openBench();
    const id = await bench.submit("k", { policy: resolvePolicy({ atMostOnce: true }) });
    await vanish(bench);
    await bench.advance(17_000);
    expect(await bench.job(id)).toMatchObject({ state: "failed", reason: "lost", attempt: 1 });
  });

  it("with a requested cancel ends the job as cancelled", async () => {
    const bench = await openBench();
    const id = await bench.submit("k");
    await vanish(bench);
    await bench.engine.command(id, { kind: "cancel" });
    await bench.advance(17_000);
    expect(await bench.job(id)).toMatchObject({ state: "cancelled", losses: 0 });
  });

  it("loses each attempt once, however many engines reap", async () => {
    const bench = await openBench({ services: false });
    const ids = await Promise.all(Array.from({ length: 50 }, () => bench.submit("k")));
    await vanish(bench);
    await bench.engine.reap();
    for (let second = 0; second < 16; second++) {
      await bench.advance(1_000);
      await Promise.all([bench.engine.reap(), bench.engine.reap(), bench.engine.reap()]);
    }
    for (const id of ids) expect(await bench.job(id)).toMatchObject({ losses: 1, attempt: 1, revision: 3 });
  });

  it("that stopped in good order but still held something loses it at once", async () => {
    const bench = await openBench();
    const id = await bench.submit("k");
    const session = await openSession(bench);
    await bench.engine.claim(session, { limit: 1 });
    await bench.engine.closeSession(session);
    await bench.advance(2_000);
    expect(await bench.job(id)).toMatchObject({ state: "queued", losses: 1 });
  });
});

describe("a report that comes late", () => {
  it("is accepted after the lease has expired, until it is reaped", async () => {
    const bench = await openBench({ services: false });
    const id = await bench.submit("k");
    const [job] = await vanish(bench);
    await bench.advance(60_000);
    const from = { kind: "worker", token: job?.token as string, reportId: "r" } as const;
    const outcome = { kind: "completed", result: "1" } as const;
    const [answer] = await bench.engine.report([{ jobId: id, attempt: 1, from, outcome, usage: null, log: null }]);
    expect(answer).toMatchObject({ status: "accepted", state: "succeeded" });
  });

  it("changes nothing after that, in any call", async () => {
    const bench = await openBench();
    const id = await bench.submit("k");
    const session = await openSession(bench);
    const { jobs } = await bench.engine.claim(session, { limit: 1 });
    await bench.advance(16_000);
    const before = await bench.job(id);
    const from = { kind: "worker", token: jobs[0]?.token as string, reportId: "r" } as const;
    for (const outcome of [{ kind: "completed", result: "1" }, { kind: "interrupted" }, { kind: "lost" }] as const) {
      const [answer] = await bench.engine.report([
        { jobId: id, attempt: 1, from, outcome, usage: null, log: "zombie" },
      ]);
      expect(answer).toMatchObject({ status: "stale", recorded: "lost" });
    }
    const told = [
      { ...held(jobs[0])[0], usage: { tokensIn: 1, tokensOut: 1, costUsd: 1 }, progress: "1", log: "zombie" },
    ];
    const renewal = await bench.engine.renew(session, told as never);
    expect(renewal.lost).toEqual(held(jobs[0]));
    expect(await bench.job(id)).toEqual(before);
    expect((await bench.attempts(id))[0]?.log).toBeNull();
  });
});

describe("a job that its session never received", () => {
  it("is queued again after a lease, not counted as an attempt, and for another session first", async () => {
    const bench = await openBench();
    const id = await bench.submit("k");
    const session = await openSession(bench);
    await bench.engine.claim(session, { limit: 1 }); // the answer was lost on the way
    for (let renewal = 0; renewal < 4; renewal++) {
      await bench.advance(5_000);
      await bench.engine.renew(session, []);
    }
    expect(await bench.job(id)).toMatchObject({ state: "queued", failures: 0, losses: 0, handbacks: 1 });
    await bench.advance(1_500);
    await bench.engine.renew(session, []);
    expect((await bench.engine.claim(session, { limit: 1 })).jobs).toEqual([]);
    expect(await vanish(bench)).toHaveLength(1);
  });
});

describe("after no engine was awake", () => {
  it("nothing is reaped for one lease, and an event has the reason", async () => {
    const bench = await openBench({ services: false });
    const id = await bench.submit("k");
    await vanish(bench);
    await bench.engine.reap();
    await bench.advance(20_000); // the store was down, or the laptop slept
    await bench.engine.reap();
    expect((await bench.job(id)).state).toBe("running");
    expect(await engineEvents(bench)).toContainEqual({
      name: "engine.reaping_held",
      data: expect.objectContaining({ why: "no engine was awake", gapMs: 20_000, engine: "bench" }),
    });
    for (let second = 0; second < 14; second++) {
      await bench.advance(1_000);
      await bench.engine.reap();
      expect((await bench.job(id)).state).toBe("running");
    }
    await bench.advance(2_000);
    await bench.engine.reap();
    expect(await bench.job(id)).toMatchObject({ state: "queued", losses: 1 });
  });

  it("a worker that wakes up at the same time keeps its jobs", async () => {
    const bench = await openBench({ services: false });
    const id = await bench.submit("k");
    const session = await openSession(bench);
    const { jobs } = await bench.engine.claim(session, { limit: 1 });
    await bench.engine.reap();
    await bench.advance(3_600_000);
    await bench.engine.reap();
    expect(await bench.engine.renew(session, held(jobs[0]))).toMatchObject({ alive: true, lost: [] });
    for (let second = 0; second < 14; second++) {
      await bench.advance(1_000);
      await bench.engine.reap();
    }
    expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 1 });
  });

  it("jobs that waited too long still expire: their time is wall clock time", async () => {
    const bench = await openBench({ services: false });
    const id = await bench.submit("k", { expireInMs: 10_000 });
    await bench.engine.reap();
    await bench.advance(3_600_000);
    await bench.engine.reap();
    expect(await bench.job(id)).toMatchObject({ state: "failed", reason: "unschedulable" });
  });
});

describe("a row that cannot be settled", () => {
  it("is skipped and logged, and does not delay the others", async () => {
    const bench = await openBench({ services: false });
    const ids = await Promise.all(Array.from({ length: 5 }, () => bench.submit("k")));
    const bad = ids[2] as string;
    const { settle } = bench.store;
    const logged = bench.logged;
    Object.assign(bench.store, {
      settle: async (...args: Parameters<typeof settle>) => {
        const good = args[0].filter((report) => report.jobId !== bad);
        const answers = await settle(good, args[1], args[2]);
        const refused = { status: "refused", code: "store_refused", message: "a bad row" };
        return args[0].map((report) => (report.jobId === bad ? refused : answers.shift()));
      },
    });
    await vanish(bench);
    for (let second = 0; second < 20; second++) {
      await bench.engine.reap();
      await bench.advance(1_000);
    }
    for (const id of ids) expect((await bench.job(id)).losses).toBe(id === bad ? 0 : 1);
    expect(logged.filter((line) => line.includes(`cannot settle ${bad}`))).toHaveLength(1);
  });
});

describe("a failed round", () => {
  it("is logged and followed by the next", async () => {
    const bench = await openBench();
    const id = await bench.submit("k");
    await vanish(bench);
    const { beat } = bench.store;
    let broken = true;
    Object.assign(bench.store, {
      beat: (...args: Parameters<typeof beat>) => (broken ? Promise.reject(new Error("locked")) : beat(...args)),
    });
    await bench.advance(2_000);
    expect(bench.logged).toContain("error: reaper failed: Error: locked");
    broken = false;
    await bench.advance(40_000);
    expect((await bench.job(id)).losses).toBe(1);
  });
});
