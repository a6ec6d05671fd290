/** One attempt in a worker's hands. It ends once: when its handler does, or when the worker gives it up (timeout,
 *  cancel, shutdown, lost) and the handler does not stop within the grace time. */

import type { Failure } from "../core/decision/failure.ts";
import { addUsage, MAX_USAGE, type Usage } from "../core/job/job.ts";
import type { Family, TaskContext } from "../core/task/task.ts";
import type { ClaimedJob, HeldAttempt, ReportedOutcome } from "../core/worker-protocol.ts";
import { RunChildren } from "./children.ts";

/** silence: no renewal has come through for a whole lease, so that others may have it; nobody knows. */
export type StopCause = "cancel" | "timeout" | "budget" | "shutdown" | "lost" | "silence";

/** Log text kept between two renewals; what comes beyond it is counted and dropped. */
const MAX_LOG = 60_000;

/** Who holds the attempt. One for all of them: a short run would consist of little else than its callbacks. */
export interface AttemptHolder {
  /** Of its link. */
  family?(): Family | undefined;
  now(): number;
  /** There is news of a run that should not wait for the next renewal. */
  touch(): void;
  /** Called at once when a run ends. */
  ended(run: AttemptRun, outcome: ReportedOutcome): void;
}

export class AttemptRun implements TaskContext {
  readonly job: ClaimedJob;
  /** Of a job and its attempt: a worker that lost a job may be given it again while the first run still goes on. */
  readonly name: string;
  /** The session that claimed it: its report is made in that one's name. */
  readonly session: string;
  /** On the clock that never jumps. */
  readonly startedAt: number;
  /** How long it may go on after it was asked to stop, where its executor says so. */
  stopGraceMs: number | null = null;
  readonly #holder: AttemptHolder;
  #hasEnded = false;
  #isWorkDone = false;
  /** Stop the timers that wait for its end. */
  #timers: (() => void)[] | null = null;
  #stopCause: StopCause | null = null;
  #controller: AbortController | null = null;
  #usage: Usage | null = null;
  #progress: string | null = null;
  #toldProgress: string | null = null;
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
  /** What it last said of its progress. */
  get told(): string | null {
    return this.#progress;
  }
  get spent(): Usage | null {
    return this.#usage;
  }
  /** The children it has begun to wait for: then that is its end, whatever its handler says. */
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

  /** The work is done, and only what it left is still on its way: neither a timeout nor a request to stop changes how it
   *  ended. A loss does: then nobody waits for it any more. */
  workDone(): void {
    this.#isWorkDone = true;
    if (this.#timers !== null) for (const cancel of this.#timers) cancel();
    this.#timers = null;
  }

  /** Called when it ends, before its holder is told. */
  cancelAtEnd(cancel: () => void): void {
    this.#timers ??= [];
    this.#timers.push(cancel);
  }

  /** What it is asked to stop for; the first cause counts, but for silence, which tells nothing for certain. */
  mayStop(cause: StopCause): boolean {
    const isFirst = this.#stopCause === null || (this.#stopCause === "silence" && cause !== "silence");
    return isFirst && !this.#hasEnded && (!this.#isWorkDone || cause === "lost");
  }

  /** Asks the handler to stop. */
  stop(cause: StopCause): void {
    if (!this.mayStop(cause)) return;
    this.#stopCause = cause;
    this.#controller?.abort(stopError(cause));
  }

  /** What it has used in all, as far as is known: takes the place of what was said before. */
  usageSoFar(total: Usage): void {
    const { tokensIn, tokensOut, costUsd } = this.#usage ?? { tokensIn: 0, tokensOut: 0, costUsd: 0 };
    if (total.tokensIn === tokensIn && total.tokensOut === tokensOut && total.costUsd === costUsd) return;
    this.#usage = within(total);
    this.#holder.touch();
  }

  /** What a renewal tells of it: log text is handed over once, progress where it is news. With no room for a log it waits
   *  for the next. */
  held(hasRoom: boolean): HeldAttempt {
    const progress = this.#progress === this.#toldProgress ? null : this.#progress;
    this.#toldProgress = this.#progress;
    return {
      jobId: this.job.id,
      attempt: this.job.attempt,
      usage: this.#usage,
      progress,
      log: hasRoom ? this.takeLog() : null,
    };
  }

  /** A renewal did not come through. */
  notTold({ log }: HeldAttempt): void {
    this.#toldProgress = null;
    if (log) this.giveBackLog(log);
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

  /** Log text that did not arrive. While nothing arrives it does not grow beyond its room either. */
  giveBackLog(text: string): void {
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

  /** Made when first asked for: most handlers never look, and a controller is a large part of a short run. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#stopCause !== null) this.#controller.abort(stopError(this.#stopCause));
    }
    return this.#controller.signal;
  }

  // The verbs are given out bound: handlers take their context apart.

  get log(): TaskContext["log"] {
    return (message, fields) => this.#addLine(message, fields);
  }
  get progress(): TaskContext["progress"] {
    return (value) => this.#tell(value);
  }
  get usage(): TaskContext["usage"] {
    return (spent) => this.#spend(spent);
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
    const text = shown(() => String(message)) + (fields === undefined ? "" : ` ${shown(() => JSON.stringify(fields))}`);
    const line = `${new Date(this.#holder.now()).toISOString()} ${text.replaceAll("\n", "\\n")}\n`;
    if (this.#log.length + line.length > MAX_LOG) this.#dropped += line.length;
    else this.#log += line;
    this.#holder.touch(); // whoever follows it reads what the engine has
  }

  #tell(value: unknown): void {
    const text = JSON.stringify(value);
    if (text === undefined || text.length > 4_096) {
      throw new TypeError("progress: give a JSON value of at most 4096 characters");
    }
    this.#progress = text;
    this.#holder.touch();
  }

  #spend(spent: Partial<Usage>): void {
    const { tokensIn = 0, tokensOut = 0, costUsd = 0 } = spent;
    for (const [name, value] of Object.entries({ tokensIn, tokensOut, costUsd })) {
      if (!Number.isFinite(value) || value < 0) throw new TypeError(`usage: ${name} must be a number from 0 on`);
    }
    this.#usage = within(addUsage(this.#usage, { tokensIn, tokensOut, costUsd }));
    this.#holder.touch();
  }
}

/** Sums that no number can hold are none: they could not be told to anybody. */
function within(usage: Usage | null): Usage | null {
  if (usage === null) return null;
  const { tokensIn, tokensOut, costUsd } = usage;
  const most = (value: number) => Math.min(MAX_USAGE, value);
  return { tokensIn: most(tokensIn), tokensOut: most(tokensOut), costUsd: most(costUsd) };
}

export function runName(jobId: string, attempt: number): string {
  return `${jobId}.${attempt}`;
}

/** A line in a log must not fail the run it tells of. */
function shown(text: () => string): string {
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
    lost: "the attempt was lost: its lease ended and the job belongs to another worker",
    silence: "the engine cannot be reached, and the lease is over: the job may have been given to another worker",
  };
  const error = new Error(why[cause]);
  error.name = "AbortError";
  return error;
}
