/** Jobs that wait for others: blocked by a report, and released when all jobs that they wait for have ended. */
import { expect, test } from "vitest";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { Bench } from "./bench.ts";
import { broke, done, jobId, LEASE, MINUTE, reportOf, SECOND, T0, usageOf, waiting } from "./kit.ts";

export function blockedTests(bench: Bench): void {
  const all = async () => (await bench.store.children.unblockable({ parents: null, limit: 100 })).jobs;
  const ofThese = async (...parents: string[]) =>
    (await bench.store.children.unblockable({ parents, limit: 100 })).jobs;
  const unblock = (id: string, attempt: number, now: number) =>
    bench.amend(id, { kind: "unblock", attempt, runAt: now }, now);

  /** A running job, and children of it that another session holds. */
  async function family(size: number, parts: Parameters<typeof bench.running>[0] = {}) {
    const { job, session } = await bench.running({ kind: "parent", ...parts });
    await bench.insert(Array.from({ length: size }, () => ({ parent: { id: job.id, attempt: 1 }, depth: 1 })));
    const children = await bench.claim(await bench.open({ slots: size, leaseMs: 10 * MINUTE }), size);
    return { job, session, children, ids: children.map(({ id }) => id) };
  }
  const first = (jobs: readonly ClaimedJob[]) => jobs[0] as ClaimedJob;

  test("an attempt that waits blocks its job, and does not count as a failure", async () => {
    const { job, ids } = await family(2);
    const report = reportOf(job, waiting(ids), { usage: usageOf(3), log: "waits\n" });
    expect(await bench.settleOne(report, T0 + 1)).toEqual({
      ...{ status: "accepted", repeated: false, state: "blocked", reason: null, runAt: null },
    });
    expect(await bench.settleOne(report, T0 + 2)).toMatchObject({
      status: "accepted",
      repeated: true,
      state: "blocked",
    });
    expect(await bench.row(job.id)).toMatchObject({
      ...{ state: "blocked", failures: 0, losses: 0, handbacks: 0, attempt: 1, finishedAt: null, result: null },
      usage: usageOf(3),
    });
    expect((await bench.store.attempts(job.id)).map(({ outcome, log }) => [outcome, log])).toEqual([
      ["waiting", "waits\n"],
    ]);
    expect(await bench.names(job.id)).toEqual(["job.submitted", "attempt.started", "attempt.waiting"]);
    expect((await bench.store.find({ state: ["blocked"] })).jobs.map(({ id }) => id)).toEqual([job.id]);
  });

  test("may continue when all jobs that it waits for have ended, in any state", async () => {
    const { job, children, ids } = await family(3);
    await bench.report(job, waiting(ids), T0 + 1);
    const [a, b, c] = children as [ClaimedJob, ClaimedJob, ClaimedJob];
    await bench.report(a, done(), T0 + 2);
    await bench.report(b, broke(), T0 + 3);
    expect(await all()).toEqual([]);
    expect(await ofThese(job.id)).toEqual([]);
    await bench.amend(c.id, { kind: "cancel" }, T0 + 4);
    expect(await all()).toEqual([]);
    await bench.report(c, broke(), T0 + 5);
    const found = [{ jobId: job.id, attempt: 1 }];
    expect(await all()).toEqual(found);
    expect(await ofThese(job.id, jobId(), a.id)).toEqual(found);
    expect(await ofThese(a.id)).toEqual([]);
    expect(await ofThese()).toEqual([]);
  });

  test("an unblock queues it again once, and it runs as the next attempt", async () => {
    const { job, session, children, ids } = await family(1, { expireInMs: MINUTE });
    await bench.report(job, waiting(ids), T0 + 1);
    await bench.report(first(children), done(), T0 + 2);
    expect(await unblock(job.id, 2, T0 + 3)).toMatchObject({ status: "noop" });
    expect(await unblock(job.id, 1, T0 + 3)).toMatchObject({ status: "applied", job: { state: "queued" } });
    expect(await unblock(job.id, 1, T0 + 4)).toMatchObject({ status: "noop" });
    expect(await bench.row(job.id)).toMatchObject({ runAt: T0 + 3, expiresAt: T0 + 3 + MINUTE });
    expect(await all()).toEqual([]);
    const next = await bench.take(session, T0 + 3);
    expect(next).toMatchObject({ id: job.id, attempt: 2, previous: null });
    expect(await bench.report(next, done(), T0 + 4)).toMatchObject({ state: "succeeded" });
    expect((await bench.names(job.id)).slice(2)).toEqual([
      ...["attempt.waiting", "job.unblocked", "attempt.started", "attempt.succeeded"],
    ]);
  });

  test("finds a wait for jobs that have ended or do not exist", async () => {
    const { job, session, children, ids } = await family(2);
    const [a, b] = children as [ClaimedJob, ClaimedJob];
    await bench.report(a, done(), T0 + SECOND);
    await bench.report(job, waiting([a.id]), T0 + 2 * SECOND);
    expect(await ofThese(job.id)).toEqual([{ jobId: job.id, attempt: 1 }]);
    await unblock(job.id, 1, T0 + 3 * SECOND);
    // Only a, which existed then.
    await bench.report(await bench.take(session, T0 + 3 * SECOND), waiting([a.id]), T0 + 4 * SECOND);
    expect(await ofThese(job.id)).toEqual([{ jobId: job.id, attempt: 2 }]);
    await unblock(job.id, 2, T0 + 5 * SECOND);
    await bench.report(await bench.take(session, T0 + 5 * SECOND), waiting(ids), T0 + 6 * SECOND);
    expect(await ofThese(job.id)).toEqual([]);
    await bench.report(b, done(), T0 + 7 * SECOND);
    expect(await all()).toEqual([{ jobId: job.id, attempt: 3 }]);
    await unblock(job.id, 3, T0 + 8 * SECOND);
    // A job that does not exist, and no job at all.
    for (const [i, nothing] of [[jobId()], []].entries()) {
      const now = T0 + (9 + i) * SECOND;
      await bench.report(await bench.take(session, now), waiting(nothing), now);
      expect(await all()).toEqual([{ jobId: job.id, attempt: 4 + i }]);
      await unblock(job.id, 4 + i, now);
    }
  });

  test("waits again for a child that was redriven before it continued", async () => {
    const { job, children, ids } = await family(1);
    await bench.report(first(children), broke(), T0);
    await bench.report(job, waiting(ids), T0 + 1);
    expect(await all()).toHaveLength(1);
    await bench.amend(first(children).id, { kind: "redrive" }, T0 + 2);
    expect(await all()).toEqual([]);
  });

  test("is cancelled like a waiting job, and stops waiting", async () => {
    const { job, children, ids } = await family(1);
    await bench.report(job, waiting(ids), T0 + 1);
    expect(await bench.amend(job.id, { kind: "cancel" }, T0 + 2)).toMatchObject({ job: { state: "cancelled" } });
    await bench.report(first(children), done(), T0 + 3);
    expect(await all()).toEqual([]);
    expect(await unblock(job.id, 1, T0 + 4)).toMatchObject({ status: "noop" });
    expect((await bench.row(job.id)).state).toBe("cancelled");
  });

  test("a requested cancel comes before the wait", async () => {
    const { job, ids } = await family(1);
    await bench.amend(job.id, { kind: "cancel" }, T0 + 1);
    expect(await bench.report(job, waiting(ids), T0 + 2)).toMatchObject({ state: "cancelled" });
    expect(await all()).toEqual([]);
  });

  test("is held by no session: neither reaper nor sweep finds it", async () => {
    const { job, session, ids } = await family(1, { deadlineAt: T0 + SECOND });
    await bench.report(job, waiting(ids), T0 + 1);
    expect(await bench.renew(session, [{ jobId: job.id, attempt: 1 }], T0 + 2)).toMatchObject({
      lost: [{ jobId: job.id, attempt: 1 }],
      unheard: [],
    });
    const { found } = await bench.sweep(T0 + LEASE + MINUTE);
    expect(found.filter(({ jobId: id }) => id === job.id)).toEqual([]);
    expect((await bench.row(job.id)).state).toBe("blocked");
  });

  test("a second, different report of the waiting attempt is stale", async () => {
    const { job, ids } = await family(1);
    await bench.report(job, waiting(ids), T0 + 1);
    expect(await bench.report(job, done(), T0 + 2)).toEqual({ status: "stale", recorded: "waiting" });
    expect((await bench.row(job.id)).state).toBe("blocked");
  });

  test("returns no more than the limit, and the others the next time", async () => {
    const session = await bench.open({ slots: 7 });
    await bench.insert(Array.from({ length: 7 }, () => ({})));
    const jobs = await bench.claim(session, 7);
    await bench.settle(
      jobs.map((job) => reportOf(job, waiting([jobId()]))),
      T0,
    );
    const seen = new Set<string>();
    for (let i = 0; i < 4; i++) {
      const some = await bench.store.children.unblockable({ parents: null, limit: 2 });
      expect(some).toMatchObject({ jobs: { length: i < 3 ? 2 : 1 }, more: i < 3 });
      for (const { jobId: id } of some.jobs) seen.add(id);
    }
    expect(seen.size).toBe(7);
    const few = await bench.store.children.unblockable({ parents: jobs.map(({ id }) => id), limit: 3 });
    expect(few).toMatchObject({ jobs: { length: 3 }, more: true });
  });

  test("stays blocked when the store is opened again", async () => {
    if (!bench.canReopen) return;
    const { job, children, ids } = await family(1);
    await bench.report(job, waiting(ids), T0 + 1);
    await bench.reopen();
    await bench.report(first(children), done(), T0 + 2);
    expect(await all()).toEqual([{ jobId: job.id, attempt: 1 }]);
  });
}
