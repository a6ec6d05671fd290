/** How a job's end becomes the end of `perdure run`: the command's own exit code where there is one. */

import type { JobInfo } from "../../core/views.ts";
import type { AttemptRow } from "../../store/store.ts";

/** What shells and `timeout` use. */
export const CODES = { timeout: 124, ours: 125, notRunnable: 126, notFound: 127, interrupted: 130 } as const;

export function exitCodeOfJob(job: JobInfo, attempts: readonly AttemptRow[]): number {
  // Also where the command's verdict was "completed" and its exit code another.
  if (job.state === "succeeded") return 0;
  if (job.state === "cancelled") return CODES.interrupted;
  const last = attempts.findLast((attempt) => attempt.failure !== null);
  if (job.reason === "timeout" || last?.outcome === "timeout") return CODES.timeout;
  const failure = last?.failure ?? null;
  if (failure === null || job.reason === "lost" || job.reason === "poison") return CODES.ours;
  if (failure.name === "WorkingDirectoryError") return CODES.notRunnable;
  if (failure.name === "SpawnError") return failure.code === "ENOENT" ? CODES.notFound : CODES.notRunnable;
  // A verdict "failed" beside exit code 0 is a failure all the same.
  return failure.exitCode === null || failure.exitCode === 0 ? 1 : failure.exitCode;
}
