/** `attempt_N/result.json` of an attempt whose engine wrote none: what is recorded of how it went. It is made to be read, and never put
 *  where attempts leave their files: a result.json there is the command's own verdict (docs/decisions/0042). */
import { isPlain } from "../../core/check.ts";
import type { Happened } from "../../core/fold.ts";
import type { Job } from "../../core/job.ts";
import type { AttemptRow } from "../../core/views.ts";
import { type OpalHistoryEntry, opalAttempts } from "./attempts.ts";
import type { EndedAttempt } from "./job.ts";

export interface OpalResult {
  readonly job_id: string;
  readonly attempt: number;
  readonly status: "running" | "succeeded" | "failed";
  /** As in the history of the attempt document; null while it runs. */
  readonly outcome: OpalHistoryEntry["outcome"];
  readonly error: string | null;
  /** Null while it runs, and where no engine was seen to end. */
  readonly exit_code: number | null;
  readonly started_at: string;
  readonly completed_at: string | null;
  readonly worker_id: string | null;
}

/** An attempt that has ended, with its result. */
export type AttemptWithResult = EndedAttempt & Pick<AttemptRow, "result">;

/** `attempts` are some that have ended, this one among them unless it runs; `events` are all of the job, in order. Null where there
 *  is no such attempt. */
export function opalResult(
  job: Job,
  attempts: readonly AttemptWithResult[],
  events: readonly Happened[],
  attempt: number,
): OpalResult | null {
  const { job_id, history } = opalAttempts(job, attempts, events);
  const entry = history.find((each) => each.attempt === attempt);
  if (entry === undefined) return null;
  const { outcome, started_at, ended_at, worker_id } = entry;
  const row = attempts.find((each) => each.attempt === attempt);
  return {
    ...{ job_id, attempt, status: statusOf(outcome), outcome, error: entry.error ?? endOf(outcome) },
    ...{ exit_code: exitCodeOf(row), started_at, completed_at: ended_at, worker_id },
  };
}

/** As a file: for people too. */
export function opalResultText(result: OpalResult): string {
  return `${JSON.stringify(result, null, 2)}\n`;
}

function statusOf(outcome: OpalHistoryEntry["outcome"]): OpalResult["status"] {
  if (outcome === null) return "running";
  return outcome === "succeeded" ? "succeeded" : "failed";
}

/** Of one that ended without success and without a failure of its own: it was handed back. */
function endOf(outcome: OpalHistoryEntry["outcome"]): string | null {
  return outcome === null || outcome === "succeeded" ? null : outcome;
}

function exitCodeOf(row: AttemptWithResult | undefined): number | null {
  if (row?.failure != null) return row.failure.exitCode ?? null;
  const result = row?.result == null ? null : (JSON.parse(row.result) as unknown);
  const code = isPlain(result) ? (result as { exitCode?: unknown }).exitCode : null;
  return typeof code === "number" ? code : null;
}
