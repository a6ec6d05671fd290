/** What `result()` throws for a job that failed. */
import { PerdureError } from "./errors.ts";
import type { Failure } from "./failure.ts";
import { failureText } from "./failure-text.ts";
import type { FailReason } from "./job.ts";

/** The job ended as failed. `reason` says how, `failure` is that of its last attempt.
 *  @example
 *  await job.result().catch((error) => {
 *    if (error instanceof JobFailedError) console.error(error.reason, error.failure?.message);
 *  }); */
export class JobFailedError extends PerdureError {
  readonly jobId: string;
  readonly reason: FailReason;
  readonly failure: Failure | null;
  readonly attempt: number;

  constructor(jobId: string, reason: FailReason, failure: Failure | null, attempt: number) {
    const last = failure === null ? "" : `: ${failureText(failure)}`;
    super("job_failed", `${jobId} failed (${reason}) after ${attempt} ${attempt === 1 ? "run" : "runs"}${last}`);
    this.name = "JobFailedError";
    this.jobId = jobId;
    this.reason = reason;
    this.failure = failure;
    this.attempt = attempt;
  }
}
