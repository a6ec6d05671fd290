/** One attempt that a worker holds. It ends once: when its handler ends, or when the worker abandons it because the handler
 *  did not stop within the grace time after a timeout, a cancel, a shutdown or a lost lease. */

import type { Failure } from "../core/decision/failure.ts";
import { addUsage, MAX_USAGE, type Usage } from "../core/job/job.ts";
import type { Family, TaskContext } from "../core/task/task.ts";
import type { ClaimedJob, HeldAttempt, ReportedOutcome } from "../core/worker-protocol.ts";
import { RunChildren } from "./children.ts";

/** unreachable: no renewal has succeeded for a whole lease, so another worker may have the job; this worker cannot know. */
export type StopCause = "cancel" | "timeout" | "budget" | "shutdown" | "lost" | "unreachable";

/** Log text kept between two renewals; anything beyond is counted and dropped. */
const MAX_LOG = 60_000;

/** The worker, as its attempts see it. One object for all attempts: closures per attempt would cost more than a short handler. */
export interface AttemptHolder {
  /** The child jobs API of its link. */
  family?(): Family | undefined;
  now(): number;
  /** An attempt has new progress, usage or log text: renew soon. */
  touch(): void;
  /** Called at once when an attempt ends. */
  ended(run: AttemptRun, outcome: ReportedOutcome): void;
}

export class AttemptRun implements TaskContext {
  readonly job: ClaimedJob;
  /** Job and attempt: a worker that lost a job may claim it again while the handler of the first attempt is still running. */
  readonly name: string;
  /** The session that claimed it, and in whose name it is reported. */
  readonly session: string;
  /** By the monotonic clock. */
  readonly startedAt: number;
  /** The grace time after a stop request, if its executor sets one. */
  stopGraceMs: number | null = null;
  readonly #holder: AttemptHolder;
  #hasEnded = false;
  #isWorkDone = false;
  /** Cancel its timers. */
  #timers: (() => void)[] | null = null;
  #stopCause: StopCause | null = null;
  #controller: AbortController | null = null;
  #usage: Usage | null = null;
  #progress: string | null = null;
  #sentProgress: string | null = null;
  #log = "";
  #dropped = 0;
  #children: RunChildren | null = null;

  constructor(job: ClaimedJob, session: string, startedAt: number, holder: AttemptHolder) {
    this.job = job;
    this.session = session;
    this.startedAt = startedAt;
    this.name = runName(job.id, job.attempt);
    this.#holder = holder;
  }

  // For the worker.

  get hasEnded(): boolean {
    return this.#hasEnded;
  }
  get stopCause(): StopCause | null {
    return this.#stopCause;
  }
  /** The last progress value, as JSON. */
  get latestProgress(): string | null {
    return this.#progress;
  }
  get spent(): Usage | null {
    return this.#usage;
  }
  /** The children it waits for. If not null, the attempt ends as waiting, whatever its handler returns or throws. */
  get waitsFor(): readonly string[] | null {
    return this.#children === null ? null : this.#children.waitsFor;
  }

  /** The first end counts. */
  finish(outcome: ReportedOutcome): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (this.#timers !== null) for (const cancel of this.#timers) cancel();
    this.#holder.ended(this, outcome);
  }

  /** The work is done and only its output files remain to be stored. A timeout or a stop request no longer changes the
   *  outcome; a lost lease does. */
  workDone(): void {
    this.#isWorkDone = true;
    if (this.#timers !== null) for (const cancel of this.#timers) cancel();
    this.#timers = null;
  }

  /** `cancel` is called when the attempt ends, before `holder.ended`. */
  cancelAtEnd(cancel: () => void): void {
    this.#timers ??= [];
    this.#timers.push(cancel);
  }

  /** Whether this stop cause takes effect. The first cause counts, except that any other replaces "unreachable". */
  mayStop(cause: StopCause): boolean {
    const isFirst = this.#stopCause === null || (this.#stopCause === "unreachable" && cause !== "unreachable");
    return isFirst && !this.#hasEnded && (!this.#isWorkDone || cause === "lost");
  }

  /** Asks the handler to stop. */
  stop(cause: StopCause): void {
    if (!this.mayStop(cause)) return;
    this.#stopCause = cause;
    this.#controller?.abort(stopError(cause));
  }

  /** Sets the total usage of the attempt so far. */
  usageSoFar(total: Usage): void {
    const { tokensIn, tokensOut, costUsd } = this.#usage ?? { tokensIn: 0, tokensOut: 0, costUsd: 0 };
    if (total.tokensIn === tokensIn && total.tokensOut === tokensOut && total.costUsd === costUsd) return;
    this.#usage = within(total);
    this.#holder.touch();
  }

  /** Its part of a renewal. Progress is included if it has changed, log text is moved out; without `withLog` the text waits for
   *  the next renewal. */
  held(withLog: boolean): HeldAttempt {
    const progress = this.#progress === this.#sentProgress ? null : this.#progress;
    this.#sentProgress = this.#progress;
    return {
      jobId: this.job.id,
      attempt: this.job.attempt,
      usage: this.#usage,
      progress,
      log: withLog ? this.takeLog() : null,
    };
  }

  /** A renewal failed: its progress and log text are sent again. */
  renewalFailed({ log }: HeldAttempt): void {
    this.#sentProgress = null;
    if (log) this.restoreLog(log);
  }

  get hasLog(): boolean {
    return this.#log !== "" || this.#dropped > 0;
  }

  takeLog(): string | null {
    if (this.#log === "" && this.#dropped === 0) return null;
    const note = this.#dropped > 0 ? `[${this.#dropped} characters of log dropped]\n` : "";
    const text = this.#log + note;
    this.#log = "";
    this.#dropped = 0;
    return text;
  }

  /** Puts back log text that could not be sent, up to the limit. */
  restoreLog(text: string): void {
    const log = text + this.#log;
    const end = log.length <= MAX_LOG ? log.length : log.lastIndexOf("\n", MAX_LOG) + 1;
    this.#log = log.slice(0, end);
    this.#dropped += log.length - end;
  }

  // For the handler.

  get jobId(): string {
    return this.job.id;
  }
  get attempt(): number {
    return this.job.attempt;
  }
  get kind(): string {
    return this.job.kind;
  }
  get queue(): string {
    return this.job.queue;
  }
  get tags(): readonly string[] {
    return this.job.tags;
  }
  get previous(): Failure | null {
    const { previous } = this.job;
    return previous === null ? null : (JSON.parse(previous) as Failure);
  }

  /** Created on first use: most handlers never read it, and a controller is a large part of the cost of a short attempt. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#stopCause !== null) this.#controller.abort(stopError(this.#stopCause));
    }
    return this.#controller.signal;
  }

  // Methods are returned bound, so that handlers can destructure their context.

  get log(): TaskContext["log"] {
    return (message, fields) => this.#addLine(message, fields);
  }
  get progress(): TaskContext["progress"] {
    return (value) => this.#setProgress(value);
  }
  get usage(): TaskContext["usage"] {
    return (spent) => this.#addUsage(spent);
  }
  get submit(): TaskContext["submit"] {
    const family = this.#family();
    return ((...call: Parameters<RunChildren["submit"]>) => family.submit(...call)) as TaskContext["submit"];
  }
  get waitFor(): TaskContext["waitFor"] {
    const family = this.#family();
    return ((children) => family.waitFor(children)) as TaskContext["waitFor"];
  }
  get children(): TaskContext["children"] {
    const family = this.#family();
    return () => family.children();
  }

  #family(): RunChildren {
    if (this.#children !== null) return this.#children;
    const { id: jobId, attempt, namespace, token } = this.job;
    const parent = { jobId, attempt, namespace, session: this.session, token };
    this.#children = new RunChildren({ parent, family: this.#holder.family?.(), signal: this.signal });
    return this.#children;
  }

  #addLine(message: string, fields?: Readonly<Record<string, unknown>>): void {
    const shownFields = fields === undefined ? "" : ` ${orPlaceholder(() => JSON.stringify(fields))}`;
    const text = orPlaceholder(() => String(message)) + shownFields;
    const line = `${new Date(this.#holder.now()).toISOString()} ${text.replaceAll("\n", "\\n")}\n`;
    if (this.#log.length + line.length > MAX_LOG) this.#dropped += line.length;
    else this.#log += line;
    this.#holder.touch(); // clients that follow the log read it from the engine
  }

  #setProgress(value: unknown): void {
    const text = JSON.stringify(value);
    if (text === undefined || text.length > 4_096) {
      throw new TypeError("progress: must be a JSON value of at most 4096 characters");
    }
    this.#progress = text;
    this.#holder.touch();
  }

  #addUsage(spent: Partial<Usage>): void {
    const { tokensIn = 0, tokensOut = 0, costUsd = 0 } = spent;
    for (const [name, value] of Object.entries({ tokensIn, tokensOut, costUsd })) {
      if (!Number.isFinite(value) || value < 0) throw new TypeError(`usage: ${name} must be a number, 0 or more`);
    }
    this.#usage = within(addUsage(this.#usage, { tokensIn, tokensOut, costUsd }));
    this.#holder.touch();
  }
}

/** Caps sums at the largest value that can be stored. */
function within(usage: Usage | null): Usage | null {
  if (usage === null) return null;
  const { tokensIn, tokensOut, costUsd } = usage;
  const most = (value: number) => Math.min(MAX_USAGE, value);
  return { tokensIn: most(tokensIn), tokensOut: most(tokensOut), costUsd: most(costUsd) };
}

export function runName(jobId: string, attempt: number): string {
  return `${jobId}.${attempt}`;
}

/** A log line must not make its attempt fail. */
function orPlaceholder(text: () => string): string {
  try {
    return text();
  } catch {
    return "[cannot be shown]";
  }
}

function stopError(cause: StopCause): Error {
  const why = {
    cancel: "the job was cancelled",
    timeout: "the attempt ran longer than its timeout",
    budget: "the job has spent its budget of tokens or money",
    shutdown: "the worker is shutting down",
    lost: "the attempt was lost: its lease expired and another worker may hold the job",
    unreachable: "the engine cannot be reached and the lease has expired: another worker may hold the job",
  };
  const error = new Error(why[cause]);
  error.name = "AbortError";
  return error;
}
