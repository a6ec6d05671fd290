/** Plans a settle: which reports close their attempts, the answer to each one, and what is written. Pure: an adapter
 *  reads the facts under its locks, calls `planSettle`, and writes the plan. */

import { NO_BUDGETS } from "../../core/decision/budget.ts";
import { type FailReason, JOB_STATES, type JobState } from "../../core/job/job.ts";
import { type Settlement, storedFailure, usageIn } from "../../core/job/lifecycle.ts";
import type { Report, SettleAnswer } from "../../core/worker-protocol.ts";
import { budgetsAtEnd, type Ledgers } from "../ledger.ts";
import type { Losses } from "../losses.ts";
import type { DecideReport } from "../store.ts";
import { jsonOrNull, leaseToken, parseOrNull, STATE_CODES, type StoredJob, sessionIn } from "../stored-job.ts";

export interface SettleItem {
  readonly report: Report;
  readonly now: number;
  readonly decide: DecideReport;
}

/** The lease of the session that holds an attempt. */
export interface SessionLease {
  readonly renewed_at: number;
  readonly lease_ends_at: number;
  readonly ended_at: number | null;
}

/** A closed attempt as stored. */
export interface ClosedAttempt {
  readonly report_id: string | null;
  readonly outcome: string;
  readonly after_state: number;
  readonly after_reason: string | null;
  readonly after_run_at: number | null;
}

/** A pause of a job's queue; a current one has no end. */
export interface PauseSpan {
  readonly from_at: number;
  readonly to_at: number | null;
}

/** What the reports are checked against, read under the locks of the jobs. */
export interface SettleFacts {
  readonly generation: string;
  /** By id. When a job has several reports, the plan replaces it after each one. */
  readonly jobs: Map<string, StoredJob>;
  lease(session: number): SessionLease | null;
  closed(job: StoredJob, attempt: number): ClosedAttempt | null;
  /** Pauses of the job's queue that ended after its `runAt`, and a current one. */
  pauses(job: StoredJob): readonly PauseSpan[];
  /** Called only for jobs with a budget. The plan changes the ledgers. */
  ledgersOf(job: StoredJob): Ledgers;
  readonly losses: Losses;
}

/** One attempt, or wait, that ends. */
export interface SettleMove {
  readonly item: SettleItem;
  readonly job: StoredJob;
  readonly settlement: Settlement;
}

/** A report of an attempt that was closed before. */
export interface LateAttemptReport {
  readonly job: number;
  readonly attempt: number;
  readonly at: number;
  readonly session: string | null;
  readonly outcome: string;
}

export interface SettlePlan {
  readonly answers: SettleAnswer[];
  /** In the order of the reports. */
  readonly moves: SettleMove[];
  /** False: a job may be in `moves` more than once. */
  readonly oncePerJob: boolean;
  /** Written after the moves: when jobs that have not expired yet are checked again, by number. */
  readonly nextChecks: Map<number, number>;
  readonly late: LateAttemptReport[];
}

export function planSettle(items: readonly SettleItem[], facts: SettleFacts): SettlePlan {
  const { jobs, generation, losses } = facts;
  // Nearly always each report is for a different job. Then no state is needed for later reports.
  const oncePerJob = jobs.size === items.length;
  const closedNow = new Map<string, ClosedAttempt>();
  const moves: SettleMove[] = [];
  const nextChecks = new Map<number, number>();
  const late: LateAttemptReport[] = [];

  function isOverdue(job: StoredJob, { attempt }: Report, now: number): boolean {
    if (job.attempt !== attempt || job.state !== "queued") return false;
    const next = nextCheck(job, now, () => facts.pauses(job));
    if (typeof next === "number") nextChecks.set(job.no, next);
    return next === null;
  }

  function refuse(job: StoredJob, { report, now }: SettleItem): SettleAnswer {
    const { from, attempt, outcome } = report;
    const before = closedNow.get(`${job.no}.${attempt}`) ?? facts.closed(job, attempt);
    const repeated = repeatedAnswer(report, before);
    if (repeated !== null) return repeated;
    // Stored once per attempt, to show who reported too late, and what.
    if (from.kind === "worker" && before !== null) {
      late.push({ job: job.no, attempt, at: now, session: sessionIn(from.token), outcome: outcome.kind });
    }
    return { status: "stale", recorded: before?.outcome ?? null };
  }

  /** For later reports of this list about the same job. */
  function remember({ item: { report }, job, settlement: { next } }: SettleMove): void {
    jobs.set(job.id, { ...job, ...next, liveUsage: null });
    nextChecks.delete(job.no);
    // An expired wait closes no attempt: the last one was closed by another report, which may be repeated.
    if (job.state !== "running") return;
    closedNow.set(`${job.no}.${report.attempt}`, {
      report_id: reportIdOf(report),
      outcome: report.outcome.kind,
      after_state: STATE_CODES[next.state],
      after_reason: next.reason,
      after_run_at: next.state === "queued" ? next.runAt : null,
    });
  }

  const answers = items.map((item): SettleAnswer => {
    const { report, now } = item;
    const job = jobs.get(report.jobId);
    if (job === undefined) return { status: "unknown_job" };
    const lease = job.session === null ? null : facts.lease(job.session);
    const isOver =
      report.from.kind === "expiry" ? isOverdue(job, report, now) : mayClose(job, report, { now, generation, lease });
    if (!isOver) return refuse(job, item);
    const ledgers = job.budget === null ? null : facts.ledgersOf(job);
    const settlement = item.decide(job, report, {
      session: job.worker,
      renewedAt: lease?.renewed_at ?? null,
      ended: lease === null || lease.ended_at !== null,
      usage: parseOrNull(job.liveUsage),
      budgets: ledgers === null ? NO_BUDGETS : budgetsAtEnd(ledgers, job),
      crash: losses.crash(job, report),
    });
    losses.took(job, report);
    ledgers?.spend(job.budget, usageIn(settlement));
    const move = { item, job, settlement };
    moves.push(move);
    if (!oncePerJob) remember(move);
    return acceptedAnswer(settlement);
  });
  return { answers, moves, oncePerJob, nextChecks, late };
}

interface ReporterFacts {
  readonly now: number;
  readonly generation: string;
  readonly lease: SessionLease | null;
}

/** Whether this reporter may close the running attempt of the job. */
export function mayClose(job: StoredJob, report: Report, facts: ReporterFacts): boolean {
  const { attempt, from } = report;
  if (job.attempt !== attempt || job.state !== "running") return false;
  switch (from.kind) {
    case "worker":
      return job.worker !== null && from.token === leaseToken(facts.generation, job.worker, attempt);
    case "reaper":
      // Without a session no worker can report the attempt or renew its lease.
      return facts.lease === null || facts.lease.lease_ends_at < facts.now;
    case "release":
      return job.worker === from.session;
    case "expiry":
      return false;
  }
}

export function acceptedAnswer({ next: { state, reason, runAt } }: Settlement): SettleAnswer {
  return { status: "accepted", repeated: false, state, reason, runAt: state === "queued" ? runAt : null };
}

/** The answer to a report that is sent again, or null if it is another report. */
function repeatedAnswer(report: Report, before: ClosedAttempt | null): SettleAnswer | null {
  const reportId = reportIdOf(report);
  if (before === null || reportId === null || before.report_id !== reportId) return null;
  return {
    status: "accepted",
    repeated: true,
    state: JOB_STATES[before.after_state] as JobState,
    reason: before.after_reason as FailReason | null,
    runAt: before.after_run_at,
  };
}

// Whether a queued job has waited too long. Its time starts at `runAt` and stops while its queue is paused, so pauses
// during the wait are added to its expiry. In its last millisecond a job may still be started.

/** While a queue is paused the end of the pause is unknown: check again after this long. */
const PAUSED_CHECK_MS = 5_000;

/** Null: it is overdue. Otherwise the time of the next check, or undefined if none is needed. */
export function nextCheck(job: StoredJob, now: number, pauses: () => readonly PauseSpan[]): number | undefined | null {
  if (job.deadlineAt !== null && job.deadlineAt < now) return null;
  if (job.expiresAt === null) return undefined;
  let expiresAt = job.expiresAt;
  let paused = false;
  for (const { from_at, to_at } of [...pauses()].sort((a, b) => a.from_at - b.from_at)) {
    if (from_at > expiresAt) break; // it had expired before this pause
    paused ||= to_at === null;
    expiresAt += Math.max(0, (to_at ?? now) - Math.max(from_at, job.runAt));
  }
  if (expiresAt < now) return null;
  const next = paused ? Math.max(expiresAt, now + PAUSED_CHECK_MS) : expiresAt;
  return job.deadlineAt === null ? next : Math.min(next, job.deadlineAt);
}

// What a move writes beside the job's row.

export const ATTEMPT_COLUMNS: readonly string[] = [
  ...["job", "attempt", "chapter", "session", "started_at", "ended_at", "outcome", "failure", "usage", "result"],
  ...["report_id", "after_state", "after_reason", "after_run_at"],
];

/** Adds the values of the closed attempt, in the order of `ATTEMPT_COLUMNS`. Nothing for an expired wait. */
export function addAttempt(values: (string | number | null)[], { item, job, settlement }: SettleMove): void {
  if (job.state !== "running") return;
  const { report, now } = item;
  const { next, event } = settlement;
  const failure = jsonOrNull(storedFailure(report.outcome, event));
  const usage = jsonOrNull(usageIn(settlement));
  values.push(job.no, job.attempt, job.chapter, job.session, job.startedAt, now, report.outcome.kind, failure, usage);
  values.push(resultOf(report), reportIdOf(report), STATE_CODES[next.state], next.reason);
  values.push(next.state === "queued" ? next.runAt : null);
}

/** The children that a job now waits for, as JSON; null if it does not wait. */
export function waitsOf({ settlement: { event, next } }: SettleMove): string | null {
  return event.name === "attempt.waiting" && next.state === "blocked" ? JSON.stringify(event.data.waitsFor) : null;
}

/** The session that released the job, and gets it again only as a last resort; null if none did. */
export function avoidedSession({ item: { report }, job }: SettleMove): number | null {
  const { from, outcome } = report;
  return outcome.kind === "released" && !(from.kind === "release" && from.undelivered === true) ? job.session : null;
}

export function reportIdOf(report: Report): string | null {
  return report.from.kind === "worker" ? report.from.reportId : null;
}

export function resultOf({ outcome }: Report): string | null {
  return outcome.kind === "completed" ? outcome.result : null;
}
