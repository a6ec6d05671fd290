/** What `submit` returns: a job's id and the chapter it was found in, with the calls on this job. */

import { checkFeed, type FeedOptions, JOB_FEED_KEYS } from "../core/api/events.ts";
import { checkResult, type JobHandle, type ResultOptions } from "../core/api/jobs.ts";
import { PerdureError } from "../core/errors.ts";
import type { Explanation } from "../core/explain/explain.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import { errorOfEnd, resultTimeout } from "../core/job/job-end.ts";
import type { AttemptRow, JobInfo } from "../core/job/views.ts";
import type { Engine } from "../engine/engine.ts";
import { toInfo } from "../engine/read-job.ts";
import type { AttemptsPage } from "../store/store.ts";

export class EmbeddedJobHandle<Output> implements JobHandle<Output> {
  readonly id: string;
  readonly chapter: number;
  readonly created: boolean;
  readonly #engine: Engine;
  readonly #by: string | null;

  constructor(
    { engine, by }: { readonly engine: Engine; readonly by: string | null },
    id: string,
    chapter: number,
    created: boolean,
  ) {
    this.#engine = engine;
    this.#by = by;
    this.id = id;
    this.chapter = chapter;
    this.created = created;
  }

  async result(options: ResultOptions = {}): Promise<Output> {
    const timeoutMs = checkResult(options);
    const { signal } = options;
    const job = await this.#engine.waitForEnd(this.id, this.chapter, { timeoutMs, ...(signal ? { signal } : {}) });
    if (job === null) {
      signal?.throwIfAborted();
      throw resultTimeout(this.id, timeoutMs);
    }
    const error = await errorOfEnd(job, this.chapter, this);
    if (error !== null) throw error;
    return (job.result === null ? undefined : JSON.parse(job.result)) as Output;
  }

  async get(): Promise<JobInfo> {
    const [row] = await this.#engine.store.jobs([this.id]);
    if (!row) throw new PerdureError("job_not_found", `job ${this.id} does not exist, or it was pruned`);
    return toInfo(row);
  }

  async cancel(): Promise<JobInfo> {
    return toInfo((await this.#engine.command(this.id, { kind: "cancel", by: this.#by })).job);
  }

  events(options: Omit<FeedOptions, "jobId"> = {}): AsyncGenerator<PerdureEvent, void, void> {
    return this.#engine.events({ ...checkFeed(options, JOB_FEED_KEYS), jobId: this.id });
  }

  async attempts(page?: AttemptsPage): Promise<AttemptRow[]> {
    const { store } = this.#engine;
    if (page !== undefined) return store.attempts(this.id, page);
    const all: AttemptRow[] = [];
    for (;;) {
      const found = await store.attempts(this.id, { after: all.at(-1)?.attempt ?? 0 });
      if (found.length === 0) return all;
      all.push(...found);
    }
  }

  explain(): Promise<Explanation> {
    return this.#engine.explain(this.id);
  }
}
