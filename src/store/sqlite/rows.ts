/** Rows to jobs and back, in the order of `JOB_COLUMNS`. */
import type { JobProgressFields } from "../../core/job.ts";
import { JOB_COLUMN_NAMES, toJob as jobOf } from "../job-row.ts";
import { checkAt, jsonOrNull, STATE_CODES, type StoredJob } from "../stored-job.ts";
import type { SqlValue } from "./driver.ts";
import type { Interned } from "./interned.ts";

export const JOB_COLUMNS = JOB_COLUMN_NAMES.join(", ");

/** The driver does not say that rows are arrays: statements are told to return them. */
export const toJob = jobOf as (row: unknown, interned: Interned) => StoredJob;

/** Sets every field that a settle or an amend may move; the order is that of `progressValues`. */
export const UPDATE_PROGRESS = `update job set
  state = ?, reason = ?, chapter = ?, revision = ?, failures = ?, losses = ?, defers = ?, handbacks = ?, streak = ?,
  streak_session = ?, evidence = ?, rule_counts = ?, run_at = ?, expires_at = ?, check_at = ?, cancel_requested_at = ?,
  first_started_at = ?, finished_at = ?, discarded_at = ?, usage = ?, live_usage = null, avoid_session = ?
  where no = ?`;

export function progressValues(job: StoredJob, next: JobProgressFields, avoidSession: number | null): SqlValue[] {
  return [
    STATE_CODES[next.state],
    next.reason,
    next.chapter,
    next.revision,
    next.failures,
    next.losses,
    next.defers,
    next.handbacks,
    next.streak,
    next.streakSession,
    next.evidence,
    jsonOrNull(next.ruleCounts),
    next.runAt,
    next.expiresAt,
    checkAt(next.expiresAt, job.deadlineAt),
    next.cancelRequestedAt,
    next.firstStartedAt,
    next.finishedAt,
    next.discardedAt,
    jsonOrNull(next.usage),
    avoidSession,
    job.no,
  ];
}
