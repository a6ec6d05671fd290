/** Follows a job across its attempts until it has ended, and reads their output: of a command, and what a task logs. It
 *  reads about twice a second and when an event of the job arrives; an attempt that has ended is read one last time, as
 *  workers store output before they report. The order between stdout and stderr is not promised. Retries while the server is
 *  unreachable. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { JobOutputs } from "../../core/api/outputs.ts";
import type { Perdure } from "../../core/api.ts";
import { isOutage } from "../../core/errors.ts";
import { exec } from "../../core/input/builtin.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { OutputChunk } from "../../core/task/work-options.ts";

/** Reports new events of a job. */
export class JobChanges implements Disposable {
  readonly #over = new AbortController();
  /** Aborted when the listener is. */
  readonly #signal: AbortSignal;
  #isChanged = false;
  #wake = () => {};
  #fault: unknown = null;

  /** Events after this one; if it is missing, all events. */
  constructor(job: Pick<JobHandle<unknown>, "events">, signal: AbortSignal, after = 0) {
    this.#signal = AbortSignal.any([signal, this.#over.signal]);
    this.#signal.addEventListener("abort", () => this.#wake());
    void this.#follow(job, after);
  }

  /** True if an event arrived since the last call, or arrives within `ms`. Throws the error that ended the feed: no more
   *  events will arrive. */
  async within(ms: number): Promise<boolean> {
    if (!this.#isChanged && !this.#signal.aborted && this.#fault === null) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    if (this.#fault !== null && !this.#signal.aborted) throw this.#fault;
    const isChanged = this.#isChanged;
    this.#isChanged = false;
    return isChanged;
  }

  [Symbol.dispose](): void {
    this.#over.abort();
  }

  async #follow(job: Pick<JobHandle<unknown>, "events">, after: number): Promise<void> {
    try {
      for await (const _ of job.events({ after, follow: true, signal: this.#signal })) {
        this.#isChanged = true;
        this.#wake();
      }
    } catch (error) {
      this.#fault = error ?? new Error("the events ended");
      this.#wake();
    }
  }
}

const READ_EVERY_MS = 500;
/** The job is read when one of its events arrives, and at least this often. */
const ASK_EVERY_MS = 5_000;
const STREAMS = ["stdout", "stderr"] as const;

export interface FollowOutputOptions {
  readonly perdure: Perdure;
  readonly job: JobHandle<unknown>;
  /** The first attempt to follow; null: the latest, or else the first. */
  readonly from: number | null;
  /** Follow only the first attempt. */
  readonly once?: boolean;
  readonly signal: AbortSignal;
  /** Returns a promise while the reader is behind. Null: the output is not read, because the worker in this process shows it. */
  readonly show: ((chunk: OutputChunk) => Promise<void> | undefined) | null;
  /** Receives what a task logged; if it is missing, logs are not read. */
  readonly showLog?: (attempt: number, text: string) => Promise<void> | undefined;
  readonly onBegin?: (attempt: number) => void;
  /** The attempt has ended, and all of its output was shown. */
  readonly onEnd?: (attempt: number) => Promise<void> | void;
}

/** Resolves when the job has ended and all its output was shown, or when aborted. */
export async function followOutput(parts: FollowOutputOptions): Promise<void> {
  const { job, signal } = parts;
  using changes = new JobChanges(job, signal);
  const outputs = parts.show === null ? null : await parts.perdure.outputs(job.id);
  let info = await job.get();
  let askedAt = performance.now();
  let attempt = parts.from ?? Math.max(1, info.attempt);
  let followed: FollowedAttempt | null = null;
  while (!signal.aborted) {
    try {
      if (followed === null && attempt <= info.attempt) {
        followed = new FollowedAttempt(parts, outputs, attempt, info.kind);
        parts.onBegin?.(attempt);
      }
      if (followed !== null) {
        const isOver = info.attempt > attempt || info.state !== "running";
        await followed.read(isOver);
        if (isOver && !signal.aborted) {
          await parts.onEnd?.(attempt);
          followed = null;
          attempt += 1;
          if (parts.once) return;
        }
      }
      if (followed === null && attempt > info.attempt && isTerminal(info.state)) return;
      if (followed === null && attempt <= info.attempt) continue;
      const isChanged = await changes.within(followed === null || outputs === null ? ASK_EVERY_MS : READ_EVERY_MS);
      if (!isChanged && performance.now() - askedAt < ASK_EVERY_MS) continue;
      info = await job.get();
      askedAt = performance.now();
    } catch (error) {
      if (!isOutage(error)) throw error;
      await changes.within(READ_EVERY_MS);
    }
  }
}

/** One attempt, and how far its output has been shown. */
class FollowedAttempt {
  readonly #parts: FollowOutputOptions;
  readonly #outputs: JobOutputs | null;
  readonly #attempt: number;
  /** Only commands have any. */
  readonly #streams: readonly OutputChunk["stream"][];
  readonly #offsets = { stdout: 0, stderr: 0 };
  #logged = 0;

  constructor(parts: FollowOutputOptions, outputs: JobOutputs | null, attempt: number, kind: string) {
    this.#parts = parts;
    this.#outputs = outputs;
    this.#attempt = attempt;
    this.#streams = kind === exec.kind ? STREAMS : [];
  }

  /** Shows new output. Notes about a command follow at its end, so that they do not split a line of its output. */
  async read(isOver: boolean): Promise<void> {
    const { signal, show, job } = this.#parts;
    if (show === null || this.#outputs === null) return;
    for (const stream of this.#streams) {
      const bytes = await this.#outputs.read(this.#attempt, `${stream}.log`, this.#offsets[stream]);
      for await (const chunk of bytes ?? []) {
        if (signal.aborted) return;
        this.#offsets[stream] += chunk.byteLength;
        await show({ jobId: job.id, attempt: this.#attempt, stream, bytes: chunk });
      }
    }
    if (isOver || this.#streams.length === 0) await this.#readLog(this.#outputs);
  }

  async #readLog(outputs: JobOutputs): Promise<void> {
    const { signal, showLog } = this.#parts;
    while (showLog !== undefined && !signal.aborted) {
      const { text, next } = await outputs.log(this.#attempt, this.#logged);
      if (text === "") return;
      this.#logged = next;
      await showLog(this.#attempt, text);
    }
  }
}
