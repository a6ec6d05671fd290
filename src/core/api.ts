/** The public API of Perdure as types, the same for an embedded engine and for the client of a server, and the checks
 *  of its options. */

import { asBoolean, asInteger, asOneOf, asText, checkKeys, checkOptions } from "./check.ts";
import { type Duration, toMs } from "./duration.ts";
import { ConfigError, type PerdureError } from "./errors.ts";
import type { Explanation } from "./explain/explain.ts";
import type { StdinFile } from "./input/exec-input.ts";
import type { PerdureEvent } from "./job/event.ts";
import type { Usage } from "./job/job.ts";
import { type JobsFilter, REDRIVE_FIELDS } from "./job/jobs-filter.ts";
import type { RedriveChanges } from "./job/redrive.ts";
import type { AttemptRow, BlobFile, JobInfo, QueueCounts, SessionRow } from "./job/views.ts";
import {
  type AnyTask,
  isTask,
  type ResultOf,
  type SubmitEntry,
  type SubmitOptions,
  type SubmitRest,
  type TransactionClient,
} from "./task/task.ts";
import type { StopOptions, WorkerHandle, WorkOptions } from "./task/work-options.ts";

// The library's face: the words by which programs speak to an engine. An engine in this process and a client of a
// server both answer to them, so that code moves from a file to a server by changing one address. Types only.

export interface Perdure extends AsyncDisposable {
  /** Stores a job; it is durable when the promise resolves. One signature for tasks and names: of two the compiler would report
   *  each mistake twice, and at the wrong place. */
  submit<T extends AnyTask | string>(task: T, ...rest: SubmitRest<T, SubmitOptions>): Promise<JobHandle<ResultOf<T>>>;
  /** Stores many jobs, each answered for itself, in the order given. With `client`, all within its transaction. */
  submitMany(
    entries: readonly SubmitEntry[],
    options?: { readonly client?: TransactionClient },
  ): Promise<SubmitManyAnswer[]>;

  /** Stores up to 64 MiB for a command to read as its standard input, durably. It belongs to the job that is submitted with its
   *  id as `upload`, within half an hour; without one it is removed after an hour. */
  upload(source: AsyncIterable<Uint8Array>): Promise<Uploaded>;
  /** A handle on a job by its id. Throws `job_not_found`. */
  job<Output = unknown>(id: string): Promise<JobHandle<Output>>;
  /** Jobs of this namespace that fit, newest first, a page at a time: pass `next` as `cursor` for the page after. A call
   *  checks 100,000 jobs at most, and with a pattern or a reason 5,000, so that a page may be short, or empty: there are more
   *  while `next` is not null. */
  jobs(filter?: JobsFilter): Promise<{ jobs: JobInfo[]; next: string | null }>;
  explain(id: string): Promise<Explanation>;
  /** What the attempts of a job left: their logs and files. */
  outputs(id: string): Promise<JobOutputs>;
  /** Events of all jobs and of the engine, from `after` (an event's `seq`) on; with `follow`, those to come too. With `order:
   *  "newest"`, the last of them first. */
  events(options?: number | FeedOptions): AsyncGenerator<PerdureEvent, void, void>;

  /** Ends a job: at once if it waits, by its signal if it runs. */
  cancel(id: string): Promise<JobInfo>;
  /** Runs a waiting job now; redrives a failed or cancelled one. */
  retry(id: string): Promise<JobInfo>;
  /** Moves a waiting job to another time. */
  reschedule(id: string, runAt: Date | number): Promise<JobInfo>;
  /** Opens the next chapter of a failed or cancelled job, with fresh budgets; with `changes`, under other terms. */
  redrive(id: string, changes?: RedriveChanges): Promise<JobInfo>;
  /** Redrives the dead letters that fit, oldest first, and names them and those it skipped, such as jobs with nothing left in
   *  their budget; `more` when there were more than `limit`. */
  redriveMany(filter: JobsFilter, options?: RedriveManyOptions): Promise<RedriveManyAnswer>;
  /** Takes a failed job out of the dead letters. */
  discard(id: string): Promise<JobInfo>;

  /** The queues of this namespace with their counts, by name. Where there are very many, pass a page: it holds up to 1,000 after
   *  the queue named. */
  queues(page?: { readonly after?: string; readonly limit?: number }): Promise<QueueCounts[]>;
  /** Jobs of a paused queue are not started; running ones go on. */
  pause(queue: string): Promise<void>;
  resume(queue: string): Promise<void>;

  /** Workers that are alive or ended lately, read a page at a time. Where there are very many, pass a page: it holds up to 200
   *  after the session named. */
  workers(page?: { readonly after?: string; readonly limit?: number }): Promise<SessionRow[]>;
  /** Asks a worker, by its session, to claim no more. What it runs goes on. */
  drain(session: string): Promise<void>;
  /** Starts a worker in this process for these tasks. */
  work(tasks: readonly AnyTask[], options?: WorkOptions): Promise<WorkerHandle>;

  /** What holds for files of other systems that say nothing else: as the server has it, or as this was opened with. Their
   *  content is known to `dialectSettingsFrom` of `perdure/dialects`. */
  dialectSettings(): Promise<object>;

  /** Tells what a running attempt has used so far, in all; of two reports the larger numbers count. For what its own worker
   *  cannot see. Throws `lease_lost` if it does not run any more. A server takes it only from a client that shows the job's
   *  own token, as a command finds it in its environment, and else throws `forbidden`. */
  setUsage(id: string, attempt: number, total: Usage): Promise<void>;

  /** Deletes now what the pruner would delete within a minute; the answer is how many jobs went. */
  prune(): Promise<number>;
  /** Stops the workers that were started here, then lets go of the engine or the server. */
  close(options?: { grace?: Duration }): Promise<void>;
}

/** A job that was submitted or found: its id, and the calls that concern it alone.
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
  /** Asks for the job's end. A running handler is told by its signal; the record decides who was first. */
  cancel(): Promise<JobInfo>;
  /** This job's events so far, and with `follow` those to come. */
  events(options?: Omit<FeedOptions, "jobId">): AsyncGenerator<PerdureEvent, void, void>;
  /** Those that have ended, oldest first; what they logged is in `log` up to 64 KiB. All of them, read a page at a time. Of a
   *  job with very many, pass a page: it holds up to 100 attempts after the one named, or fewer where they are large. */
  attempts(page?: { readonly after?: number; readonly limit?: number }): Promise<AttemptRow[]>;
  explain(): Promise<Explanation>;
}

/** What the attempts of a job left outside the database.
 *  @example
 *  const outputs: JobOutputs = await perdure.outputs(job.id);
 *  for (const attempt of outputs.attempts) console.log(await outputs.files(attempt)); */
export interface JobOutputs {
  /** The attempts that left something, in order. */
  readonly attempts: readonly number[];
  /** The files an attempt left in `artifacts/`; `more` are not listed: too many, or unreadable. */
  files(attempt: number): Promise<{ readonly files: readonly BlobFile[]; readonly more: number }>;
  /** `stdout.log`, `stderr.log`, `result.json`, or `artifacts/NAME`, from the byte `offset` on; null if it is not there. */
  read(attempt: number, name: string, offset?: number): Promise<AsyncIterable<Uint8Array> | null>;
  /** What an attempt has logged (`ctx.log`), also while it runs, a page at a time: pass `next` as `after` to read on. The text
   *  is empty where nothing more has come yet. */
  log(attempt: number, after?: number): Promise<LogPage>;
}

/** A part of what an attempt has logged with `ctx.log`.
 *  @example
 *  const page: LogPage | null = await (await perdure.outputs(job.id)).log(1); */
export interface LogPage {
  readonly text: string;
  readonly next: number;
}

/** How long `result()` waits.
 *  @example
 *  const options: ResultOptions = { timeout: "5m" };
 *  await job.result(options); */
export interface ResultOptions {
  /** Give up waiting after this long; the job goes on. Default: wait for as long as it takes. */
  timeout?: Duration;
  signal?: AbortSignal;
}

/** What became of one entry of `submitMany`.
 *  @example
 *  const answers: SubmitManyAnswer[] = await perdure.submitMany([{ task: resize, input: { url } }]);
 *  for (const answer of answers) if (!answer.ok) console.error(answer.error.message); */
export type SubmitManyAnswer =
  | { readonly ok: true; readonly job: JobHandle<unknown> }
  | { readonly ok: false; readonly error: PerdureError };

/** An input that is stored, for a job to be submitted with.
 *  @example
 *  const { id, bytes, sha256 }: Uploaded = await perdure.upload(createReadStream("dump.sql"));
 *  await perdure.submit(exec, { argv: ["psql"], stdinFile: { bytes, sha256 } }, { upload: id }); */
export interface Uploaded extends StdinFile {
  readonly id: string;
}

/** What `redriveMany` does with the jobs it finds.
 *  @example
 *  const options: RedriveManyOptions = { dryRun: true, limit: 100 };
 *  await perdure.redriveMany({ kind: "resize" }, options); */
export interface RedriveManyOptions {
  /** Only names them. */
  dryRun?: boolean;
  /** At most so many in one call; default 1000. */
  limit?: number;
  /** As of `redrive`, for each of them. */
  changes?: RedriveChanges;
}

/** The jobs that were redriven, or would be.
 *  @example
 *  const { jobs, skipped, more }: RedriveManyAnswer = await perdure.redriveMany({ kind: "resize" }); */
export interface RedriveManyAnswer {
  /** Their ids, oldest first. */
  readonly jobs: readonly string[];
  /** Those that fit and were not redriven, or would not be. They stay dead letters, and count towards `limit`. */
  readonly skipped: readonly SkippedJob[];
  readonly more: boolean;
}

/** A job that `redriveMany` left as it is, and why.
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

/** Which events, from where on, and whether to wait for more.
 *  @example
 *  const options: FeedOptions = { after: 1_200, follow: true, signal: AbortSignal.timeout(60_000) };
 *  for await (const event of perdure.events(options)) console.log(event.name); */
export interface FeedOptions {
  /** The `seq` of the last event already seen; 0 for all. */
  readonly after?: number;
  /** Only events before this `seq`. */
  readonly before?: number;
  /** Default: oldest first. A server of version 0.1.0 refuses `newest`. */
  readonly order?: "oldest" | "newest";
  /** At most this many. */
  readonly limit?: number;
  readonly jobId?: string;
  /** Wait for more when all have been read. Not with `before`, `order` or `limit`. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
}

// The small options of the library's face, checked the same way whoever answers. Those of a submit and of a search
// are checked by the engine, those of a worker by the worker.

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

/** How long to wait for a result; null for as long as it takes. */
export function checkResult(options: ResultOptions): number | null {
  checkOptions(options, ["timeout", "signal"], "result");
  checkSignal(options.signal, "result.signal");
  return options.timeout === undefined ? null : toMs(options.timeout, "result.timeout");
}

/** Of one job's events; of all events, also `jobId`. */
export const JOB_FEED_KEYS = ["after", "before", "order", "limit", "follow", "signal"];
const FEED_KEYS = [...JOB_FEED_KEYS, "jobId"];

export function checkFeed(options: FeedOptions, known: readonly string[] = FEED_KEYS): FeedOptions {
  checkOptions(options, known, "events");
  if (options.after !== undefined) asInteger(options.after, "events.after", { min: 0 });
  if (options.before !== undefined) asInteger(options.before, "events.before", { min: 0 });
  if (options.order !== undefined) asOneOf(options.order, ["oldest", "newest"], "events.order");
  if (options.limit !== undefined) asInteger(options.limit, "events.limit", { min: 1 });
  if (options.follow !== undefined) asBoolean(options.follow, "events.follow");
  const unbounded = (["before", "order", "limit"] as const).find((name) => options[name] !== undefined);
  if (options.follow === true && unbounded !== undefined) {
    throw new ConfigError({ path: `events.${unbounded}`, given: options[unbounded], allowed: "nothing with follow" });
  }
  if (options.jobId !== undefined) asText(options.jobId, "events.jobId", 200);
  checkSignal(options.signal, "events.signal");
  return options;
}

function checkSignal(signal: unknown, path: string): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw new ConfigError({ path, given: signal, allowed: "an AbortSignal" });
}

const DEFAULT_GRACE = "30s";

/** Of a worker: `force` ends what runs without any grace time. */
export function checkStop(options: StopOptions): { readonly graceMs: number; readonly force: boolean } {
  checkOptions(options, ["grace", "force"], "stop");
  const force = asBoolean(options.force ?? false, "stop.force");
  return { graceMs: toMs(options.grace ?? DEFAULT_GRACE, "stop.grace"), force };
}

export function checkGrace(options: { grace?: Duration }, path: string): number {
  checkOptions(options, ["grace"], path);
  return toMs(options.grace ?? DEFAULT_GRACE, `${path}.grace`);
}

const MAX_REDRIVEN = 1_000;

/** Which dead letters are meant, and how many of them at most: one page of a search, from the oldest. */
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
