/** The plan of a settle as a table: which reports close an attempt, the answer to each, and what is written. */
import { describe, expect, it } from "vitest";
import { type TestJobFields, testJob, waitingJob } from "../../core/job/testing-job.ts";
import type { Report, ReportedOutcome, Reporter } from "../../core/worker-protocol.ts";
import { broke, decideAt, done, LOST, MINUTE, overdue, RELEASED, SECOND, T0, waiting } from "../conformance/kit.ts";
import { Ledgers } from "../ledger.ts";
import { Losses, NO_LOSSES } from "../losses.ts";
import { leaseToken, type StoredJob } from "../stored-job.ts";
import { avoidedSession, type PauseSpan, planSettle, type SettleFacts, waitsOf } from "./settle.ts";

const NOW = T0 + MINUTE;
const STORED = { no: 7, lane: 1, session: 3, liveUsage: null, progress: null, budget: null, run: null };
const LEASE = { renewed_at: T0, lease_ends_at: NOW + SECOND, ended_at: null };
const MINE = { kind: "worker", token: leaseToken("g", "s1", 1), reportId: "r1" } as const;
const OTHER: Reporter = { ...MINE, reportId: "r2" };
const REAPER: Reporter = { kind: "reaper" };

const running = (parts: TestJobFields = {}): StoredJob => ({ ...testJob(parts), ...STORED });
const queued = (parts: TestJobFields = {}): StoredJob => ({ ...waitingJob(parts), ...STORED, session: null });
const queuedUntil = (expiresAt: number) => queued({ expiresAt, expireInMs: SECOND });
const JOB = running();

function report(from: Reporter, outcome: ReportedOutcome = done(), attempt = 1): Report {
  return { jobId: JOB.id, attempt, from, outcome, usage: null, log: null };
}

function plan(job: StoredJob, reports: readonly Report[], facts: Partial<SettleFacts> = {}) {
  const decide = decideAt(NOW);
  return planSettle(
    reports.map((each) => ({ report: each, now: NOW, decide })),
    {
      generation: "g",
      jobs: new Map([[job.id, job]]),
      lease: () => LEASE,
      closed: () => null,
      pauses: () => [],
      ledgersOf: () => new Ledgers(),
      losses: new Losses(NO_LOSSES),
      ...facts,
    },
  );
}

const CLOSED = { report_id: "r1", outcome: "failed", after_state: 0, after_reason: null, after_run_at: NOW + 1 };
const accepted = (state: string, more = {}) => ({ status: "accepted", repeated: false, state, ...more });
const stale = (recorded: string | null = null) => ({ status: "stale", recorded });

describe("a report", () => {
  const cases: [string, StoredJob, Report, Partial<SettleFacts>, object][] = [
    ["of the session that holds the attempt", JOB, report(MINE), {}, accepted("succeeded", { runAt: null })],
    ["of another token", JOB, report({ ...MINE, token: leaseToken("g", "s2", 1) }), {}, stale()],
    ["of another database", JOB, report({ ...MINE, token: leaseToken("h", "s1", 1) }), {}, stale()],
    ["of another attempt", JOB, report(MINE, done(), 2), {}, stale()],
    ["of an attempt that ended", queued({ attempt: 1 }), report(OTHER), { closed: () => CLOSED }, stale("failed")],
    ["of the reaper, before the lease ends", JOB, report(REAPER, LOST), {}, stale()],
    ["of the reaper, without a session", JOB, report(REAPER, LOST), { lease: () => null }, accepted("queued")],
    [
      "of the session that releases it",
      JOB,
      report({ kind: "release", session: "s1" }, RELEASED),
      {},
      accepted("queued"),
    ],
    ["of a session that does not hold it", JOB, report({ kind: "release", session: "s2" }, RELEASED), {}, stale()],
    ["of a wait that expired", queuedUntil(NOW - 1), overdue({ jobId: JOB.id, attempt: 0 }), {}, accepted("failed")],
    ["of a wait in its last millisecond", queuedUntil(NOW), overdue({ jobId: JOB.id, attempt: 0 }), {}, stale()],
    ["of a wait whose job runs", JOB, overdue({ jobId: JOB.id, attempt: 1 }), {}, stale()],
  ];
  it.each(cases)("%s", (_name, job, given, facts, answer) => {
    expect(plan(job, [given], facts).answers).toMatchObject([answer]);
  });

  it("of an unknown job changes nothing", () => {
    const { answers, moves } = plan(JOB, [{ ...report(MINE), jobId: "job_x" }]);
    expect([answers, moves]).toEqual([[{ status: "unknown_job" }], []]);
  });

  it("that is sent again gets the same answer, in one list and later", () => {
    const { answers, moves, late } = plan(JOB, [report(MINE), report(MINE)]);
    expect(answers).toMatchObject([
      accepted("succeeded", { runAt: null }),
      { ...(answers[0] as object), repeated: true },
    ]);
    expect([moves.length, late]).toEqual([1, []]);
    const again = plan(queued({ attempt: 1 }), [report(MINE)], { closed: () => CLOSED });
    expect(again.answers).toMatchObject([{ ...accepted("queued"), repeated: true, runAt: NOW + 1 }]);
  });

  it("that is late is stored once for its attempt", () => {
    const other = report({ ...MINE, reportId: "r2" } as Reporter, broke());
    const { late } = plan(queued({ attempt: 1 }), [other], { closed: () => CLOSED });
    expect(late).toEqual([{ job: 7, attempt: 1, at: NOW, session: "s1", outcome: "failed" }]);
  });
});

describe("a plan", () => {
  it("decides a second report of a job on the result of the first", () => {
    const back = report({ kind: "release", session: "s1" }, RELEASED);
    const { moves, oncePerJob } = plan(JOB, [back, report(REAPER, LOST)]);
    expect([moves.length, oncePerJob]).toEqual([1, false]);
    expect(moves.map(avoidedSession)).toEqual([3]);
  });

  it("lists the children that a parent waits for", () => {
    const { moves } = plan(JOB, [report(MINE, waiting(["job_a"]))]);
    expect(moves.map(waitsOf)).toEqual(['["job_a"]']);
  });

  it("checks a job again when it may have expired", () => {
    const job = queuedUntil(T0 + 10 * SECOND);
    const during: PauseSpan = { from_at: T0 + 5 * SECOND, to_at: NOW };
    const given = [overdue({ jobId: job.id, attempt: 0 })];
    expect([...plan(job, given, { pauses: () => [during] }).nextChecks]).toEqual([[7, NOW + 5 * SECOND]]);
    const now = { ...during, to_at: null };
    expect([...plan(job, given, { pauses: () => [now] }).nextChecks]).toEqual([[7, NOW + 5 * SECOND]]);
  });
});
