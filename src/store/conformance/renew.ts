/** Renewals: what a session learns, and what is stored of its report. */
import { expect, test } from "vitest";
import { LOG_PAGE } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, done, jobId, LEASE, placeOf, reaped, SECOND, T0, TWICE, usageOf } from "./kit.ts";

export function renewTests(bench: Bench): void {
  test("extends the lease from now", async () => {
    const { job, session } = await bench.running();
    const answer = await bench.renew(session, [placeOf(job)], T0 + 9 * SECOND);
    const expected = {
      alive: true,
      leaseMs: LEASE,
      drain: false,
      wasOver: false,
      lost: [],
      cancel: [],
      overspent: [],
      unheard: [],
    };
    expect(answer).toEqual(expected);
    const [row] = await bench.store.sessions.list();
    expect(row).toMatchObject({ renewedAt: T0 + 9 * SECOND, leaseEndsAt: T0 + 9 * SECOND + LEASE, running: 1 });
    await bench.awake(T0, T0 + 9 * SECOND + LEASE);
    expect((await bench.row(job.id)).state).toBe("running");
  });

  test("renews an expired lease if it was not reaped yet", async () => {
    const { job, session } = await bench.running();
    const late = T0 + 2 * LEASE;
    expect(await bench.renew(session, [placeOf(job)], late)).toMatchObject({ alive: true, wasOver: true, lost: [] });
    expect(await bench.settleOne(reaped(placeOf(job)), late)).toEqual({ status: "stale", recorded: null });
    expect(await bench.report(job, done(), late)).toMatchObject({ status: "accepted" });
  });

  test("returns attempts that the session no longer holds", async () => {
    const { job: settled, session } = await bench.running();
    await bench.report(settled);
    const { job: retried } = await bench.running({ retry: TWICE, kind: "b" });
    await bench.report(retried, broke());
    const { job: foreign } = await bench.running({ kind: "c" });
    const unknown = { jobId: jobId(), attempt: 1 };
    await bench.submit({ kind: "work" });
    const held = await bench.take(session);
    const old = { jobId: held.id, attempt: held.attempt + 1 };
    const list = [placeOf(settled), placeOf(retried), placeOf(foreign), unknown, old];
    expect((await bench.renew(session, list, T0 + 1)).lost).toEqual(list);
    expect((await bench.renew(session, [placeOf(held)], T0 + 2)).lost).toEqual([]);
  });

  test("returns attempts with a cancel request until they end", async () => {
    const { job, session } = await bench.running();
    await bench.amend(job.id, { kind: "cancel" }, T0 + 1);
    expect((await bench.renew(session, [placeOf(job)], T0 + 2)).cancel).toEqual([placeOf(job)]);
    expect((await bench.renew(session, [placeOf(job)], T0 + 3)).cancel).toEqual([placeOf(job)]);
    expect(await bench.store.sessions.cancelsFor([jobId(), session])).toEqual([placeOf(job)]);
    await bench.report(job, broke(), T0 + 4);
    expect(await bench.renew(session, [placeOf(job)], T0 + 5)).toMatchObject({ cancel: [], lost: [placeOf(job)] });
    expect(await bench.store.sessions.cancelsFor([session])).toEqual([]);
  });

  test("returns attempts that it holds but has not listed for a lease", async () => {
    const { job, session } = await bench.running();
    await bench.submit({ at: T0 + 5_000 });
    const later = await bench.take(session, T0 + 5_000);
    expect((await bench.renew(session, [], T0 + LEASE)).unheard).toEqual([]);
    expect((await bench.renew(session, [], T0 + LEASE + 1)).unheard).toEqual([placeOf(job)]);
    expect((await bench.renew(session, [placeOf(job)], T0 + LEASE + 2)).unheard).toEqual([]);
    const all = (await bench.renew(session, [], T0 + LEASE + 5_001)).unheard;
    expect(all).toHaveLength(2);
    expect(all).toEqual(expect.arrayContaining([placeOf(job), placeOf(later)]));
  });

  test("stores progress, usage and log of its own attempts", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    await bench.renew(session, [{ ...placeOf(job), progress: '{"done":1}', usage: usageOf(10), log: "one\n" }], T0 + 1);
    await bench.renew(session, [{ ...placeOf(job), usage: usageOf(25, 5, 0.5), log: "two\n" }], T0 + 2);
    const log = { attempt: 1, text: "one\ntwo\n", next: 2 };
    expect([await bench.store.log(job.id, null), await bench.store.log(job.id, 1)]).toEqual([log, log]);
    expect(await bench.store.log(job.id, 2)).toBeNull();
    expect(await bench.store.log(job.id, 1, 1)).toEqual({ ...log, text: "two\n" });
    expect([await bench.store.log(job.id, 1, 2), await bench.store.log(job.id, null, 2)]).toEqual([null, null]);
    await bench.renew(session, [placeOf(job)], T0 + 3);
    expect((await bench.row(job.id)).progress).toBe('{"done":1}');
    await bench.renew(session, [{ ...placeOf(job), progress: "2" }], T0 + 3);
    expect((await bench.row(job.id)).progress).toBe("2");
    await bench.settleOne(reaped(placeOf(job)), T0 + 3 + LEASE + 1);
    const [attempt] = await bench.store.attempts(job.id);
    expect(attempt).toMatchObject({ outcome: "lost", usage: usageOf(25, 5, 0.5), log: "one\ntwo\n", session });
    expect((await bench.row(job.id)).usage).toEqual(usageOf(25, 5, 0.5));
  });

  test("returns a long log in pages, each piece once", async () => {
    const { job, session } = await bench.running();
    const lines = Array.from({ length: LOG_PAGE + 3 }, (_, i) => `line ${i}\n`);
    for (const log of lines) await bench.renew(session, [{ ...placeOf(job), log }], T0 + 1);
    const first = await bench.store.log(job.id, 1);
    expect(first?.text).toBe(lines.slice(0, LOG_PAGE).join(""));
    const second = await bench.store.log(job.id, 1, first?.next);
    expect(second?.text).toBe(lines.slice(LOG_PAGE).join(""));
    expect(await bench.store.log(job.id, 1, second?.next)).toBeNull();
  });

  test("stores nothing of other attempts", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    const { session: stranger } = await bench.running({ kind: "b" });
    const report = { progress: '"mine"', usage: usageOf(99), log: "mine\n" };
    await bench.renew(stranger, [{ ...placeOf(job), ...report }], T0 + 1);
    await bench.renew(session, [{ jobId: job.id, attempt: 2, ...report }], T0 + 1);
    expect((await bench.row(job.id)).progress).toBeNull();
    await bench.report(job, broke(), T0 + 2);
    await bench.renew(session, [{ ...placeOf(job), ...report }], T0 + 3);
    expect(await bench.row(job.id)).toMatchObject({ progress: null, usage: null });
    expect(await bench.store.attempts(job.id)).toMatchObject([{ attempt: 1, log: null, usage: null }]);
  });

  test("changes no revision and writes no event", async () => {
    const { job, session } = await bench.running();
    const seq = await bench.store.events.lastSeq();
    await bench.renew(session, [{ ...placeOf(job), progress: "1", usage: usageOf(1), log: "x" }], T0 + 1);
    expect(await bench.store.events.lastSeq()).toBe(seq);
    expect((await bench.row(job.id)).revision).toBe(2);
  });

  test("reports that a session has ended, and all that it lists as lost", async () => {
    const { job, session } = await bench.running();
    await bench.endSession(session, T0 + 1);
    const gone = {
      alive: false,
      leaseMs: 0,
      drain: false,
      lost: [placeOf(job)],
      cancel: [],
      overspent: [],
      unheard: [],
    };
    expect(await bench.renew(session, [placeOf(job)], T0 + 2)).toEqual(gone);
    expect(await bench.renew(jobId(), [placeOf(job)], T0 + 2)).toEqual(gone);
  });

  test("answers several sessions in their order", async () => {
    const { job, session } = await bench.running();
    const { session: other } = await bench.running({ kind: "b" });
    const requests = [other, session, other].map((id) => ({
      session: id,
      held: [placeOf(job)],
    }));
    const answers = await bench.store.renew(requests, T0 + 1);
    expect(answers.map((answer) => answer.lost.length)).toEqual([1, 0, 1]);
  });
}
