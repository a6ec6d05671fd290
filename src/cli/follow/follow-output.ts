/** Follows a job, attempt after attempt, until it has ended, and reads what its attempts write: the output of a command, and
 *  what a task logs. It reads on about twice a second, and at once when an event of the job came. An attempt that has ended is
 *  read once more, so that its end is not missed: workers store what an attempt wrote before they report it.
 *
 *  The order of stdout and stderr among each other is not promised. An outage of the server is waited out. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { JobOutputs } from "../../core/api/outputs.ts";
import type { Perdure } from "../../core/api.ts";
import { isOutage } from "../../core/errors.ts";
import { exec } from "../../core/input/builtin.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { OutputChunk } from "../../core/task/work-options.ts";

/** Wakes up when an event of a job came. */
export class JobChanges implements Disposable {
  readonly #over = new AbortController();
  /** Aborted when the one who listens is. */
  readonly #signal: AbortSignal;
  #isChanged = false;
  #wake = () => {};
  #fault: unknown = null;

  /** Of the events after this one; without it, of all. */
  constructor(job: Pick<JobHandle<unknown>, "events">, signal: AbortSignal, after = 0) {
    this.#signal = AbortSignal.any([signal, this.#over.signal]);
    this.#signal.addEventListener("abort", () => this.#wake());
    void this.#follow(job, after);
  }

  /** True where an event came since the last call, or comes within `ms`. Throws what ended the events: no more will come. */
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
/** The job is read when an event of it came, and this often in any case. */
const ASK_EVERY_MS = 5_000;
const STREAMS = ["stdout", "stderr"] as const;

export interface FollowOutputOptions {
  readonly perdure: Perdure;
  readonly job: JobHandle<unknown>;
  /** The first attempt to follow; null: the latest, or else the first. */
  readonly from: number | null;
  /** Only that one. */
  readonly once?: boolean;
  readonly signal: AbortSignal;
  /** A promise while the reader is behind. Null: the output is not read, as our own worker shows it. */
  readonly show: ((chunk: OutputChunk) => Promise<void> | undefined) | null;
  /** What a task logged; left out, it is not read. */
  readonly showLog?: (attempt: number, text: string) => Promise<void> | undefined;
  readonly onBegin?: (attempt: number) => void;
  /** The attempt has ended, and all of its output was shown. */
  readonly onEnd?: (attempt: number) => Promise<void> | void;
}

/** Resolves when the job has ended and all was shown, or when aborted. */
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

  /** Shows what is new. Remarks on a command come at its end: they must not break a line of its output in two. */
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
