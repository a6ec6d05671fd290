/** The check under the lock, the same in every adapter: is this reporter, now, the one who may close this attempt?
 *  And what is told to one who may not. */
import { type FailReason, JOB_STATES, type JobState } from "../core/job.ts";
import type { Report, SettleAnswer } from "../core/work.ts";
import { leaseToken, type StoredJob } from "./stored-job.ts";

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

export interface Settling {
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
