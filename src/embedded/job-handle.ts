/** What `submit` gives back: a job's id and the chapter it was met in, with the verbs of that one job. */

import type { Duration } from "../core/duration.ts";
import { PerdureError } from "../core/errors.ts";
import type { JobEvent, PerdureEvent } from "../core/event.ts";
import type { Explanation } from "../core/explain.ts";
import type { Failure } from "../core/failure.ts";
import type { FailReason } from "../core/job.ts";
import type { Engine } from "../engine/engine.ts";
import type { AttemptRow, JobRow } from "../store/store.ts";
import { type JobInfo, toInfo } from "./job-info.ts";
import { checkFeed, checkResult, JOB_FEED_KEYS } from "./options.ts";

/** The job ended as failed. `reason` says how, `failure` is that of its last attempt. */
export class JobFailedError extends PerdureError {
  readonly jobId: string;
  readonly reason: FailReason;
  readonly failure: Failure | null;
  readonly attempt: number;

  constructor(jobId: string, reason: FailReason, failure: Failure | null, attempt: number) {
    const last = failure === null ? "" : `: ${failure.message}`;
    super("job_failed", `${jobId} failed (${reason}) after ${attempt} ${attempt === 1 ? "run" : "runs"}${last}`);
    this.name = "JobFailedError";
    this.jobId = jobId;
    this.reason = reason;
    this.failure = failure;
    this.attempt = attempt;
  }
}

export interface ResultOptions {
  /** Give up waiting after this long; the job goes on. Default: wait for as long as it takes. */
  timeout?: Duration;
  signal?: AbortSignal;
}

export class JobHandle<Output> {
  readonly id: string;
  /** `result()` belongs to this chapter, also when the job is redriven later. */
  readonly chapter: number;
  /** False when `submit` found the job by its key. */
  readonly created: boolean;
  readonly #engine: Engine;

  constructor(engine: Engine, id: string, chapter: number, created: boolean) {
    this.#engine = engine;
    this.id = id;
    this.chapter = chapter;
    this.created = created;
  }

  /** Waits for the end of the job's chapter. Throws `JobFailedError`, or an error with the code `job_cancelled` or
   *  `result_timeout`. */
  async result(options: ResultOptions = {}): Promise<Output> {
    const timeoutMs = checkResult(options);
    const { signal } = options;
    const job = await this.#engine.waitForEnd(this.id, this.chapter, { timeoutMs, ...(signal ? { signal } : {}) });
    if (job === null) {
      signal?.throwIfAborted();
      throw new PerdureError("result_timeout", `${this.id} did not end within ${timeoutMs} ms; it goes on`);
    }
    if (job.chapter > this.chapter) return this.#earlierChapter(job);
    switch (job.state) {
      case "succeeded":
        return (job.result === null ? undefined : JSON.parse(job.result)) as Output;
      case "failed":
        throw new JobFailedError(this.id, job.reason as FailReason, await this.#lastFailure(job.chapter), job.attempt);
      default:
        throw new PerdureError("job_cancelled", `${this.id} was cancelled`);
    }
  }

  async get(): Promise<JobInfo> {
    const [row] = await this.#engine.store.jobs([this.id]);
    if (!row) throw new PerdureError("job_not_found", `no job has the id ${this.id}, or it was pruned`);
    return toInfo(row);
  }

  /** Asks for the job's end. A running handler is told by its signal; the record decides who was first. */
  async cancel(): Promise<JobInfo> {
    return toInfo((await this.#engine.command(this.id, { kind: "cancel" })).job);
  }

  /** This job's events so far, and with `follow` those to come. */
  events(
    options: { after?: number; follow?: boolean; signal?: AbortSignal } = {},
  ): AsyncGenerator<PerdureEvent, void, void> {
    return this.#engine.events({ ...checkFeed(options, JOB_FEED_KEYS), jobId: this.id });
  }

  attempts(): Promise<AttemptRow[]> {
    return this.#engine.store.attempts(this.id);
  }

  explain(): Promise<Explanation> {
    return this.#engine.explain(this.id);
  }

  /** A chapter that was followed by another can only have failed or been cancelled; its last decision says which. It
   *  need not be that of an attempt: a wait that ran out decides too. */
  async #earlierChapter(job: JobRow): Promise<never> {
    let chapter = 1;
    let attempt = 0;
    let reason: FailReason | null = null;
    for await (const event of this.events()) {
      const { name, data } = event as JobEvent;
      if (name === "job.redriven") chapter += 1;
      if (chapter > this.chapter) break;
      if (name === "attempt.started") attempt = data.attempt;
      if (chapter === this.chapter && "decision" in data) reason = data.decision.reason ?? null;
    }
    if (reason !== null) throw new JobFailedError(this.id, reason, await this.#lastFailure(this.chapter), attempt);
    const message = `chapter ${this.chapter} of ${this.id} was cancelled; the job is now in chapter ${job.chapter}`;
    throw new PerdureError("job_cancelled", message);
  }

  async #lastFailure(chapter: number): Promise<Failure | null> {
    const attempts = await this.attempts();
    return attempts.findLast((attempt) => attempt.chapter === chapter)?.failure ?? null;
  }
}
