/** Checks under the lock before an attempt is closed, the same in every adapter: may this reporter close it, is it a
 *  repeated report, has a waiting job expired? */
import { type FailReason, JOB_STATES, type JobState } from "../core/job/job.ts";
import type { Report, SettleAnswer } from "../core/worker-protocol.ts";
import { leaseToken, type StoredJob } from "./stored-job.ts";

// The check under the lock, the same in every adapter: is this reporter, now, the one who may close this attempt? And
// what is told to one who may not.

/** The session that holds an attempt, as far as settling asks. */
export interface SessionLease {
  readonly renewed_at: number;
  readonly lease_ends_at: number;
  readonly ended_at: number | null;
}

/** An attempt as it was closed. */
export interface ClosedAttempt {
  readonly report_id: string | null;
  readonly outcome: string;
  readonly after_state: number;
  readonly after_reason: string | null;
  readonly after_run_at: number | null;
}

interface Settling {
  readonly report: Report;
  readonly now: number;
  readonly generation: string;
  readonly held: SessionLease | null;
  /** Asked only for a wait that is said to have run out. */
  readonly isOverdue: () => boolean;
}

export function mayClose(job: StoredJob, { report, now, generation, held, isOverdue }: Settling): boolean {
  const { from } = report;
  if (job.attempt !== report.attempt) return false;
  if (from.kind === "expiry") return job.state === "queued" && isOverdue();
  if (job.state !== "running") return false;
  switch (from.kind) {
    case "worker":
      return job.worker !== null && from.token === leaseToken(generation, job.worker, job.attempt);
    case "reaper":
      // Without its session nobody can report it, nor renew for it.
      return held === null || held.lease_ends_at < now;
    case "release":
      return job.worker === from.session;
  }
}

/** The answer to the same report once more, or null if it is another one. */
export function repeatedAnswer(report: Report, before: ClosedAttempt | null): SettleAnswer | null {
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

/** It was released by a session that would not have it: then that session gets it last. */
export function isUnwanted({ from, outcome }: Report): boolean {
  return outcome.kind === "released" && !(from.kind === "release" && from.undelivered === true);
}

export function reportIdOf(report: Report): string | null {
  return report.from.kind === "worker" ? report.from.reportId : null;
}

// Has a waiting job waited too long? Its clock starts at `runAt` and stands still while its queue is paused, so the
// pauses that fell into the wait are added to its expiry. Where it turns out not to be overdue yet, the sweep's next
// look is set to the time when it may be. At exactly its last instant a job may still be started: it is overdue after
// it.

/** While a queue is paused the end of the pause is unknown: look again after this long. */
const PAUSED_CHECK_MS = 5_000;

/** A pause of a job's queue; it still lasts where it has no end. */
export interface PauseSpan {
  readonly from_at: number;
  readonly to_at: number | null;
}

/** Null: it is overdue. Else the instant of the next look, or undefined where none is needed. */
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
