/** What `run` returns: a run's id and the chapter it was found in, with the calls on this run. */

import { checkFeed, type FeedOptions, JOB_FEED_KEYS } from "../core/api/events.ts";
import { checkResult, type ResultOptions } from "../core/api/jobs.ts";
import type { RunHandle, RunInfo, RunRedriveOptions, StepInfo, StepsPage } from "../core/api/runs.ts";
import type { Explanation } from "../core/explain/explain.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import { resultTimeout } from "../core/job/job-end.ts";
import { errorOfRun } from "../core/run/run-end.ts";
import type { EmbeddedParts } from "./parts.ts";

export class EmbeddedRunHandle<Output> implements RunHandle<Output> {
  readonly id: string;
  readonly chapter: number;
  readonly created: boolean;
  readonly #parts: EmbeddedParts;

  constructor(parts: EmbeddedParts, id: string, chapter: number, created: boolean) {
    this.#parts = parts;
    this.id = id;
    this.chapter = chapter;
    this.created = created;
  }

  async result(options: ResultOptions = {}): Promise<Output> {
    const timeoutMs = checkResult(options);
    const { signal } = options;
    const { engine } = this.#parts;
    const job = await engine.waitForEnd(this.id, this.chapter, { timeoutMs, ...(signal ? { signal } : {}) });
    if (job === null) {
      signal?.throwIfAborted();
      throw resultTimeout(this.id, timeoutMs);
    }
    const info = await this.get();
    const error = await errorOfRun(info, this.chapter, this);
    if (error !== null) throw error;
    return info.result as Output;
  }

  get(): Promise<RunInfo> {
    const { engine, namespace } = this.#parts;
    return engine.runs.info(namespace, this.id);
  }

  steps(page?: StepsPage): Promise<StepInfo[]> {
    const { engine, namespace } = this.#parts;
    return engine.runs.steps(namespace, this.id, page);
  }

  async cancel(): Promise<RunInfo> {
    const { engine, by } = this.#parts;
    await engine.command(this.id, { kind: "cancel", by });
    return this.get();
  }

  redrive(options: RunRedriveOptions = {}): Promise<RunInfo> {
    const { engine, namespace, by } = this.#parts;
    return engine.runs.redrive(namespace, this.id, options, by);
  }

  events(options: Omit<FeedOptions, "jobId"> = {}): AsyncGenerator<PerdureEvent, void, void> {
    return this.#parts.engine.events({ ...checkFeed(options, JOB_FEED_KEYS), jobId: this.id });
  }

  explain(): Promise<Explanation> {
    return this.#parts.engine.explain(this.id);
  }
}
