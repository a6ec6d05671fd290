/** The end of a job as `result()` returns or throws it, in this process and over the wire. */

import type { JobHandle } from "../api/jobs.ts";
import { type Failure, failureText } from "../decision/failure.ts";
import { PerdureError } from "../errors.ts";
import type { JobEvent, PerdureEvent } from "./event.ts";
import type { FailReason, Job } from "./job.ts";
import type { AttemptRow } from "./views.ts";

/** The job failed for `reason`; `failure` is that of its last attempt.
 *  @example
 *  await job.result().catch((error) => {
 *    if (error instanceof JobFailedError) console.error(error.reason, error.failure?.message);
 *  }); */
export class JobFailedError extends PerdureError {
  readonly jobId: string;
  readonly reason: FailReason;
  readonly failure: Failure | null;
  readonly attempt: number;

  /** `message`: of a run, which has no attempts. */
  constructor(jobId: string, reason: FailReason, failure: Failure | null, attempt: number, message?: string) {
    const last = failure === null ? "" : `: ${failureText(failure)}`;
    const usual = `${jobId} failed (${reason}) after ${attempt} ${attempt === 1 ? "attempt" : "attempts"}${last}`;
    super("job_failed", message ?? usual);
    this.name = "JobFailedError";
    this.jobId = jobId;
    this.reason = reason;
    this.failure = failure;
    this.attempt = attempt;
  }
}

/** The fields of a job that its end depends on. */
export type JobEndFields = Pick<Job, "id" | "chapter" | "state" | "reason" | "attempt">;

/** The error that `result()` throws for a chapter; null where it succeeded. Reads attempts and events only where needed. */
export async function errorOfEnd(
  job: JobEndFields,
  chapter: number,
  handle: Pick<JobHandle<unknown>, "attempts" | "events">,
): Promise<PerdureError | null> {
  if (job.chapter > chapter) {
    const { reason, attempt } = await earlierChapterEnd(handle.events(), chapter);
    if (reason !== null) return failed(job.id, reason, await lastOf(handle, attempt), chapter, attempt);
    const message = `${job.id} was cancelled and has been redriven since`;
    return new PerdureError("job_cancelled", message);
  }
  switch (job.state) {
    case "succeeded":
      return null;
    case "failed":
      return failed(job.id, job.reason as FailReason, await lastOf(handle, job.attempt), job.chapter, job.attempt);
    default:
      return new PerdureError("job_cancelled", `${job.id} was cancelled`);
  }
}

/** Only that attempt, as there may be very many before it. */
async function lastOf(handle: Pick<JobHandle<unknown>, "attempts">, attempt: number): Promise<AttemptRow[]> {
  if (attempt === 0) return [];
  try {
    return await handle.attempts({ after: attempt - 1, limit: 1 });
  } catch (error) {
    // Servers of earlier versions have no pages.
    if ((error as { readonly code?: unknown }).code !== "invalid_request") throw error;
    return handle.attempts();
  }
}

/** A chapter before a redrive either failed or was cancelled: the reason is that of its last decision, null for a cancel. */
export async function earlierChapterEnd(
  events: AsyncIterable<PerdureEvent>,
  chapter: number,
): Promise<{ readonly reason: FailReason | null; readonly attempt: number }> {
  let current = 1;
  let attempt = 0;
  let reason: FailReason | null = null;
  for await (const event of events) {
    const { name, data } = event as JobEvent;
    if (name === "job.redriven") current += 1;
    if (current > chapter) break;
    if (name === "attempt.started") attempt = data.attempt;
    if (current === chapter && "decision" in data) reason = data.decision.reason ?? null;
  }
  return { reason, attempt };
}

/** The failure of the last attempt of a chapter, if it had one. */
export function lastFailure(attempts: readonly AttemptRow[], chapter: number): Failure | null {
  return attempts.findLast((attempt) => attempt.chapter === chapter)?.failure ?? null;
}

function failed(id: string, reason: FailReason, attempts: readonly AttemptRow[], chapter: number, attempt: number) {
  return new JobFailedError(id, reason, lastFailure(attempts, chapter), attempt);
}

export function resultTimeout(id: string, timeoutMs: number | null): PerdureError {
  return new PerdureError("result_timeout", `${id} did not end within ${timeoutMs} ms; it continues`);
}
