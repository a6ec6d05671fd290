/** Commands on jobs in the library's API: cancel, retry, reschedule, redrive and discard, and the usage of an attempt. */

import { asBoolean, asInteger, checkOptions } from "../check.ts";
import { ConfigError } from "../errors.ts";
import type { Usage } from "../job/job.ts";
import { type JobsFilter, REDRIVE_FIELDS } from "../job/jobs-filter.ts";
import type { RedriveChanges } from "../job/redrive.ts";
import type { JobInfo } from "../job/views.ts";

export interface CommandsApi {
  /** Ends a job: at once if it waits, by its signal if it runs. */
  cancel(id: string): Promise<JobInfo>;
  /** Runs a waiting job now; redrives a failed or cancelled one. */
  retry(id: string): Promise<JobInfo>;
  /** Moves a waiting job to another time. */
  reschedule(id: string, runAt: Date | number): Promise<JobInfo>;
  /** Queues a failed or cancelled job again, as its next chapter, with fresh budgets; with `changes`, under other terms. */
  redrive(id: string, changes?: RedriveChanges): Promise<JobInfo>;
  /** Redrives the matching dead letters, oldest first. The answer names them and those it skipped, such as jobs with nothing
   *  left in their budget; `more` when there were more than `limit`. */
  redriveMany(filter: JobsFilter, options?: RedriveManyOptions): Promise<RedriveManyAnswer>;
  /** Takes a failed job out of the dead letters. */
  discard(id: string): Promise<JobInfo>;
  /** Records what a running attempt has used so far, in total; of two reports the larger numbers count. For usage that its own
   *  worker cannot see. Throws `lease_lost` if it is no longer running. A server takes it only from a client with the job's
   *  own token, as a command finds it in its environment, and else throws `forbidden`. */
  setUsage(id: string, attempt: number, total: Usage): Promise<void>;
}

/** What `redriveMany` does with the jobs it finds.
 *  @example
 *  const options: RedriveManyOptions = { dryRun: true, limit: 100 };
 *  await perdure.redriveMany({ kind: "resize" }, options); */
export interface RedriveManyOptions {
  /** Only names the jobs. */
  dryRun?: boolean;
  /** At most this many in one call; default 1000. */
  limit?: number;
  /** As for `redrive`, for each of them. */
  changes?: RedriveChanges;
}

/** The jobs that were redriven, or would be.
 *  @example
 *  const { jobs, skipped, more }: RedriveManyAnswer = await perdure.redriveMany({ kind: "resize" }); */
export interface RedriveManyAnswer {
  /** Their ids, oldest first. */
  readonly jobs: readonly string[];
  /** Matching jobs that were not redriven, or would not be. They stay dead letters, and count towards `limit`. */
  readonly skipped: readonly SkippedJob[];
  readonly more: boolean;
}

/** A job that `redriveMany` did not redrive, and why.
 *  @example
 *  const { skipped } = await perdure.redriveMany({ kind: "resize" });
 *  const spent: SkippedJob[] = skipped.filter(({ code }) => code === "budget_spent"); */
export interface SkippedJob {
  readonly id: string;
  /** `budget_spent`: its budget, or one above it, has nothing left. `wrong_state`: it cannot be redriven, or not with these
   *  changes. `job_not_found`: it was deleted meanwhile. */
  readonly code: "budget_spent" | "wrong_state" | "job_not_found";
  readonly message: string;
}

const MAX_REDRIVEN = 1_000;

/** Which dead letters to redrive, and how many at most: one page of a search, from the oldest. */
export function checkRedriveMany(
  filter: JobsFilter,
  options: RedriveManyOptions,
): { readonly filter: JobsFilter; readonly dryRun: boolean } {
  checkOptions(filter, REDRIVE_FIELDS, "redriveMany");
  checkOptions(options, ["dryRun", "limit", "changes"], "redriveMany");
  const { dryRun = false, limit = MAX_REDRIVEN } = options;
  if (filter.deadLetter === false) {
    throw new ConfigError({ path: "redriveMany.deadLetter", given: false, allowed: "true: it redrives dead letters" });
  }
  asInteger(limit, "redriveMany.limit", { min: 1, max: MAX_REDRIVEN });
  return {
    filter: { ...filter, deadLetter: true, order: "oldest", limit },
    dryRun: asBoolean(dryRun, "redriveMany.dryRun"),
  };
}
