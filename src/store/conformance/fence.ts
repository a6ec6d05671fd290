/** The fence: a report that its attempt does not expect changes nothing and is answered as stale (F05 to F08). */
import { expect, test } from "vitest";
import type { ClaimedJob, Report } from "../../core/worker-protocol.ts";
import { LATE_REPORTS } from "../pages.ts";
import type { Bench } from "./bench.ts";
import {
  broke,
  done,
  LEASE,
  newJob,
  newSession,
  overdue,
  placeOf,
  reaped,
  reportOf,
  SECOND,
  T0,
  TWICE,
} from "./kit.ts";

export function fenceTests(bench: Bench): void {
  /** Settles a report that must change nothing except possibly the list of late reports. */
  async function changesNothing(report: Report, now: number) {
    const before = await bench.store.history(report.jobId);
    const answer = await bench.settleOne(report, now);
    const after = await bench.store.history(report.jobId);
    expect({ ...after, lateReports: [] }).toEqual({ ...before, lateReports: [] });
    return answer;
  }
  const late = async (job: ClaimedJob) => (await bench.store.history(job.id))?.lateReports ?? [];

  test("refuses a token of another session", async () => {
    const { job } = await bench.running();
    const { job: other } = await bench.running({ kind: "b" });
    const answer = await changesNothing(reportOf(job, done(), { token: other.token }), T0);
    expect(answer).toEqual({ status: "stale", recorded: null });
    expect(await bench.report(job)).toMatchObject({ status: "accepted" });
  });

  test("refuses a token of another attempt, and another attempt with the right token", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    await bench.report(job, broke());
    const second = await bench.take(session, T0 + SECOND);
    const old = await changesNothing(reportOf(second, done(), { token: job.token }), T0 + SECOND);
    expect(old).toEqual({ status: "stale", recorded: null });
    const future = await changesNothing(reportOf(second, done(), { attempt: 3 }), T0 + SECOND);
    expect(future).toEqual({ status: "stale", recorded: null });
    const past = await changesNothing(reportOf(job, done()), T0 + SECOND);
    expect(past).toEqual({ status: "stale", recorded: "failed" });
  });

  test("refuses a token of another store, though session and attempt are the same", async () => {
    const session = newSession();
    const job = newJob();
    const elsewhere = await bench.another();
    const tokens: string[] = [];
    for (const store of [elsewhere, bench.store]) {
      await store.insert([job], T0);
      await store.sessions.open(session, T0);
      const [answer] = await store.claim([{ session: session.id, limit: 1, claimId: null }], T0);
      tokens.push(answer?.jobs[0]?.token as string);
    }
    const [foreign, own] = tokens as [string, string];
    const held = { id: job.id, attempt: 1, token: own } as ClaimedJob;
    const answer = await changesNothing(reportOf(held, done(), { token: foreign }), T0);
    expect(answer).toEqual({ status: "stale", recorded: null });
    expect(await bench.report(held)).toMatchObject({ status: "accepted" });
  });

  test("refuses forged tokens", async () => {
    const { job } = await bench.running();
    for (const token of ["", "x", `${job.token}1`, job.token.slice(1), job.token.toUpperCase(), ".".repeat(2_000)]) {
      expect(await changesNothing(reportOf(job, done(), { token }), T0)).toEqual({ status: "stale", recorded: null });
    }
  });

  test("refuses a report on a job that was never started, and on one that waits again", async () => {
    const id = await bench.submit({ retry: TWICE });
    const never = { id, attempt: 0, token: "x" } as ClaimedJob;
    expect(await changesNothing(reportOf(never), T0)).toEqual({ status: "stale", recorded: null });
    const job = await bench.take(await bench.open());
    await bench.report(job, broke());
    expect(await changesNothing(reportOf(job, broke()), T0)).toEqual({ status: "stale", recorded: "failed" });
  });

  test("returns the same answer to a repeated report", async () => {
    const { job } = await bench.running({ retry: TWICE });
    const report = reportOf(job, broke());
    const first = await bench.settleOne(report, T0);
    expect(first).toMatchObject({ status: "accepted", repeated: false, state: "queued", runAt: T0 + SECOND });
    expect(await changesNothing(report, T0 + 500)).toEqual({ ...first, repeated: true });
    expect(await late(job)).toEqual([]);
  });

  test("returns the same answer later, after more attempts and the end of the job", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    const report = reportOf(job, broke());
    const first = await bench.settleOne(report, T0);
    const second = await bench.take(session, T0 + SECOND);
    expect(await changesNothing(report, T0 + SECOND)).toEqual({ ...first, repeated: true });
    const last = reportOf(second, broke());
    const end = await bench.settleOne(last, T0 + 2 * SECOND);
    await bench.amend(job.id, { kind: "redrive" }, T0 + 3 * SECOND);
    expect(await changesNothing(report, T0 + 4 * SECOND)).toEqual({ ...first, repeated: true });
    const repeated = await changesNothing(last, T0 + 4 * SECOND);
    expect(repeated).toEqual({ ...end, repeated: true });
    expect(repeated).toMatchObject({ state: "failed", reason: "exhausted" });
  });

  test("answers another report on a closed attempt with what was recorded, and stores it once", async () => {
    const { job, session } = await bench.running();
    await bench.report(job, done());
    const second = await changesNothing(reportOf(job, broke()), T0 + 5);
    expect(second).toEqual({ status: "stale", recorded: "completed" });
    await changesNothing(reportOf(job, done()), T0 + 9);
    expect(await late(job)).toEqual([{ attempt: 1, at: T0 + 5, session, outcome: "failed" }]);
  });

  test("keeps the late reports of a job with very many readable: the latest are shown, oldest first", async () => {
    const retry = { maxAttempts: LATE_REPORTS + 9, backoff: { type: "none" } } as const;
    const { job, session } = await bench.running({ retry });
    const most = LATE_REPORTS + 3;
    for (let [attempt, claimed] = [1, job]; attempt <= most; attempt++) {
      await bench.report(claimed, broke());
      expect(await bench.settleOne(reportOf(claimed, done()), T0)).toMatchObject({ status: "stale" });
      if (attempt < most) claimed = await bench.take(session, T0);
    }
    const shown = (await late(job)).map(({ attempt }) => attempt);
    expect(shown).toEqual(Array.from({ length: LATE_REPORTS }, (_, i) => i + 4));
  });

  test("an attempt closed as lost stays lost", async () => {
    const { job, session } = await bench.running();
    await bench.settleOne(reaped(placeOf(job)), T0 + LEASE + 1);
    const answer = await changesNothing(reportOf(job, done()), T0 + LEASE + 2);
    expect(answer).toEqual({ status: "stale", recorded: "lost" });
    expect(await late(job)).toEqual([{ attempt: 1, at: T0 + LEASE + 2, session, outcome: "completed" }]);
    expect(await bench.store.attempts(job.id)).toMatchObject([{ outcome: "lost", result: null }]);
  });

  test("accepts the first of two contradictory reports in one list, and of two concurrent calls", async () => {
    const { job } = await bench.running();
    const answers = await bench.settle([reportOf(job, done()), reportOf(job, broke())], T0);
    expect(answers).toMatchObject([{ status: "accepted" }, { status: "stale", recorded: "completed" }]);
    const { job: next } = await bench.running({ kind: "b" });
    const calls = [reportOf(next, broke()), reportOf(next, done())].map((report) => bench.settleOne(report, T0));
    const both = await Promise.all(calls);
    expect(both).toMatchObject([{ status: "accepted" }, { status: "stale", recorded: "failed" }]);
    expect(await late(job)).toHaveLength(1);
  });

  test("recognizes a repeated report within one list", async () => {
    const { job } = await bench.running({ retry: TWICE });
    const report = reportOf(job, broke());
    const [first, second] = await bench.settle([report, report], T0);
    expect(second).toEqual({ ...first, repeated: true });
  });

  test("recognizes a repeated report that arrives with the end of the wait", async () => {
    const { job } = await bench.running({ retry: TWICE, expireInMs: SECOND });
    const report = reportOf(job, broke());
    const first = await bench.settleOne(report, T0);
    const after = T0 + 3 * SECOND;
    const [ended, repeated] = await bench.settle([overdue(placeOf(job)), report], after);
    expect(ended).toMatchObject({ status: "accepted", state: "failed", reason: "exhausted" });
    expect(repeated).toEqual({ ...first, repeated: true });
  });

  test("settles several jobs and several reports on each in one list", async () => {
    const { job: a } = await bench.running({ kind: "a", retry: TWICE });
    const { job: b } = await bench.running({ kind: "b" });
    const reports = [reportOf(a, broke()), reportOf(b), reportOf(a), reaped(placeOf(b)), reportOf(b, broke())];
    const answers = await bench.settle(reports, T0);
    expect(answers.map((answer) => answer.status)).toEqual(["accepted", "accepted", "stale", "stale", "stale"]);
    expect(await bench.row(a.id)).toMatchObject({ state: "queued", revision: 3 });
    expect(await bench.row(b.id)).toMatchObject({ state: "succeeded", revision: 3 });
  });
}
