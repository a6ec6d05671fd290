/** Jobs in the library's API: submitting, finding and explaining them, and the handle on one job. */

import { checkKeys, checkOptions } from "../check.ts";
import { type Duration, toMs } from "../duration.ts";
import { ConfigError, type PerdureError } from "../errors.ts";
import type { Explanation } from "../explain/explain.ts";
import type { PerdureEvent } from "../job/event.ts";
import type { JobsFilter } from "../job/jobs-filter.ts";
import type { AttemptRow, JobInfo } from "../job/views.ts";
import {
  type AnyTask,
  isTask,
  type ResultOf,
  type SubmitEntry,
  type SubmitOptions,
  type SubmitRest,
  type TransactionClient,
} from "../task/task.ts";
import { checkSignal, type FeedOptions } from "./events.ts";

export interface JobsApi {
  /** Stores a job; it is durable when the promise resolves. One signature for tasks and names: of two the compiler would report
   *  each mistake twice, and at the wrong place. */
  submit<T extends AnyTask | string>(task: T, ...rest: SubmitRest<T, SubmitOptions>): Promise<JobHandle<ResultOf<T>>>;
  /** Stores many jobs, each with its own answer, in the given order. With `client`, all within its transaction. */
  submitMany(
    entries: readonly SubmitEntry[],
    options?: { readonly client?: TransactionClient },
  ): Promise<SubmitManyAnswer[]>;
  /** A handle on a job by its id. Throws `job_not_found`. */
  job<Output = unknown>(id: string): Promise<JobHandle<Output>>;
  /** Matching jobs of this namespace, newest first, a page at a time: pass `next` as `cursor` for the page after. A call
   *  checks 100,000 jobs at most, and with a pattern or a reason 5,000, and a page holds about 8 MB, so that it may be short, or
   *  empty: there are more while `next` is not null. */
  jobs(filter?: JobsFilter): Promise<{ jobs: JobInfo[]; next: string | null }>;
  explain(id: string): Promise<Explanation>;
}

/** A job that was submitted or found: its id, and the calls on this job alone.
 *  @example
 *  const job: JobHandle<{ width: number }> = await perdure.submit(resize, { url });
 *  console.log(job.id, (await job.result()).width); */
export interface JobHandle<Output> {
  readonly id: string;
  /** `result()` belongs to this chapter, also when the job is redriven later. */
  readonly chapter: number;
  /** False when `submit` found the job by its key. */
  readonly created: boolean;
  /** Waits for the end of the job's chapter. Throws `JobFailedError`, or an error with the code `job_cancelled` or
   *  `result_timeout`. */
  result(options?: ResultOptions): Promise<Output>;
  get(): Promise<JobInfo>;
  /** Requests the end of the job. A running handler receives it by its signal; if it completes first, the job has succeeded. */
  cancel(): Promise<JobInfo>;
  /** This job's events so far, and with `follow` those to come. */
  events(options?: Omit<FeedOptions, "jobId">): AsyncGenerator<PerdureEvent, void, void>;
  /** Attempts that have ended, oldest first, each with up to 64 KiB of its log. Reads all of them, a page at a time. For a job
   *  with very many, pass a page: it holds up to 100 attempts after the one named, or fewer where they are large. */
  attempts(page?: { readonly after?: number; readonly limit?: number }): Promise<AttemptRow[]>;
  explain(): Promise<Explanation>;
}

/** How long `result()` waits.
 *  @example
 *  const options: ResultOptions = { timeout: "5m" };
 *  await job.result(options); */
export interface ResultOptions {
  /** Stop waiting after this long; the job continues. Default: no limit. */
  timeout?: Duration;
  signal?: AbortSignal;
}

/** The answer to one entry of `submitMany`.
 *  @example
 *  const answers: SubmitManyAnswer[] = await perdure.submitMany([{ task: resize, input: { url } }]);
 *  for (const answer of answers) if (!answer.ok) console.error(answer.error.message); */
export type SubmitManyAnswer =
  | { readonly ok: true; readonly job: JobHandle<unknown> }
  | { readonly ok: false; readonly error: PerdureError };

const ENTRY_KEYS = ["task", "input", "options"];

export function checkEntry(entry: SubmitEntry): SubmitEntry {
  const task = entry?.task;
  if (typeof task === "string" || isTask(task)) {
    checkKeys(entry, ENTRY_KEYS, "submitMany");
    return entry;
  }
  throw new ConfigError({
    path: "submit.task",
    given: task,
    allowed: "a task made with task(), or the name of a kind",
  });
}

export function checkEntries(entries: readonly SubmitEntry[]): readonly SubmitEntry[] {
  if (Array.isArray(entries)) return Array.from(entries as readonly SubmitEntry[]);
  throw new ConfigError({ path: "submitMany", given: entries, allowed: "a list of { task, input, options }" });
}

/** How long to wait for a result; null: without limit. */
export function checkResult(options: ResultOptions): number | null {
  checkOptions(options, ["timeout", "signal"], "result");
  checkSignal(options.signal, "result.signal");
  return options.timeout === undefined ? null : toMs(options.timeout, "result.timeout");
}
