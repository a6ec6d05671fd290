/** Follows what a job writes, run after run, until the job has ended: the output of a command, and what a task logs. It is
 *  read from where the last look ended: about twice a second, and at once when something happened to the job. A run that is known to have ended is read once more,
 *  and so nothing of its end is missed: workers store what a run wrote before they report it.
 *
 *  What it does not promise: the order of stdout and stderr among each other. An outage of the server is waited out. */

import type { JobHandle, JobOutputs, Perdure } from "../../core/api.ts";
import { isOutage } from "../../core/errors.ts";
import { exec } from "../../core/input/builtin.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { OutputChunk } from "../../core/task/work-options.ts";
import { JobChanges } from "./job-changes.ts";

const LOOK_EVERY_MS = 500;
/** The state of the job is asked for when an event tells of a change, and so often in any case. */
const ASK_EVERY_MS = 5_000;
const STREAMS = ["stdout", "stderr"] as const;

export interface FollowOutputOptions {
  readonly perdure: Perdure;
  readonly job: JobHandle<unknown>;
  /** The first run to be followed; null: the latest that there is, or else the first. */
  readonly from: number | null;
  /** Only that one. */
  readonly once?: boolean;
  readonly signal: AbortSignal;
  /** A promise while the reader is behind. */
  readonly show: (chunk: OutputChunk) => Promise<void> | undefined;
  /** What a task logged; where it is not asked for it is not read. */
  readonly showLog?: (attempt: number, text: string) => Promise<void> | undefined;
  readonly onBegin?: (attempt: number) => void;
  /** All of its output has been shown. */
  readonly onEnd?: (attempt: number) => Promise<void> | void;
}

/** Resolves when the job has ended and all was shown, or when aborted. */
export async function followOutput(parts: FollowOutputOptions): Promise<void> {
  const { job, signal } = parts;
  using bell = new JobChanges(job, signal);
  const outputs = await parts.perdure.outputs(job.id);
  let info = await job.get();
  let askedAt = performance.now();
  let attempt = parts.from ?? Math.max(1, info.attempt);
  let run: FollowedAttempt | null = null;
  while (!signal.aborted) {
    try {
      if (run === null && attempt <= info.attempt) {
        run = new FollowedAttempt(parts, outputs, attempt, info.kind);
        parts.onBegin?.(attempt);
      }
      if (run !== null) {
        const isOver = hasEnded(info, attempt);
        await run.read(isOver);
        if (isOver && !signal.aborted) {
          await parts.onEnd?.(attempt);
          run = null;
          attempt += 1;
          if (parts.once) return;
        }
      }
      if (run === null && attempt > info.attempt && isTerminal(info.state)) return;
      if (run === null && attempt <= info.attempt) continue;
      const isRung = await bell.rings(run === null ? ASK_EVERY_MS : LOOK_EVERY_MS);
      if (!isRung && performance.now() - askedAt < ASK_EVERY_MS) continue;
      info = await job.get();
      askedAt = performance.now();
    } catch (error) {
      if (!isOutage(error)) throw error;
      await bell.rings(LOOK_EVERY_MS);
    }
  }
}

function hasEnded({ state, attempt }: JobInfo, run: number): boolean {
  return attempt > run || state !== "running";
}

/** One run, and how far its output has been shown. */
class FollowedAttempt {
  readonly #parts: FollowOutputOptions;
  readonly #outputs: JobOutputs;
  readonly #attempt: number;
  /** Only commands have any. */
  readonly #streams: readonly OutputChunk["stream"][];
  readonly #offsets = { stdout: 0, stderr: 0 };
  #logged = 0;

  constructor(parts: FollowOutputOptions, outputs: JobOutputs, attempt: number, kind: string) {
    this.#parts = parts;
    this.#outputs = outputs;
    this.#attempt = attempt;
    this.#streams = kind === exec.kind ? STREAMS : [];
  }

  /** Shows what is new. Remarks on a command come at its end: they must not break a line of its output in two. */
  async read(isOver: boolean): Promise<void> {
    const { signal, show, job } = this.#parts;
    for (const stream of this.#streams) {
      const bytes = await this.#outputs.read(this.#attempt, `${stream}.log`, this.#offsets[stream]);
      for await (const chunk of bytes ?? []) {
        if (signal.aborted) return;
        this.#offsets[stream] += chunk.byteLength;
        await show({ jobId: job.id, attempt: this.#attempt, stream, bytes: chunk });
      }
    }
    if (isOver || this.#streams.length === 0) await this.#readLog();
  }

  async #readLog(): Promise<void> {
    const { signal, showLog } = this.#parts;
    while (showLog !== undefined && !signal.aborted) {
      const { text, next } = await this.#outputs.log(this.#attempt, this.#logged);
      if (text === "") return;
      this.#logged = next;
      await showLog(this.#attempt, text);
    }
  }
}
