/** Outputs of commands that run here, on a store that keeps files itself: an attempt writes into a directory of this machine,
 *  and what it leaves is copied into the store before its end is reported. Its output is copied while it runs, too, so that
 *  others can follow it. Files that only lie here, as of a program that keeps them in its directory, can be read as well.
 *  What it does not promise: that scratch files, or files of an attempt whose process was killed, reach the store. */
import { dirname, join } from "node:path";
import type { Clock } from "../lib/clock.ts";
import { INPUT_ATTEMPT, STDIN } from "../store/blob-name.ts";
import type { Blobs, AttemptPlaces as LocalPlaces } from "../store/blobs.ts";
import type { AttemptPlaces, PlacedAttempt } from "../worker/exec/exec-executor.ts";

const FOLLOW_MS = 1_000;
/** More than this of an earlier attempt is left where it is. */
const MAX_EARLIER_BYTES = 1_073_741_824;
const STREAMS = ["stdout.log", "stderr.log"] as const;

export interface CopiedOutputsOptions {
  readonly local: Blobs & LocalPlaces;
  readonly kept: Blobs;
  readonly clock: Clock;
  /** For all files of an attempt together. */
  readonly maxBytes: number;
}

export function copiedOutputs({ local, kept, clock, maxBytes }: CopiedOutputsOptions): Blobs & AttemptPlaces {
  const copies = new Map<string, AttemptCopy>();
  /** Jobs of which something may lie only here. */
  const unkept = new Set<string>();
  const nameOf = (jobId: string, attempt: number) => `${jobId}.${attempt}`;
  const copyOf = ({ job }: PlacedAttempt) => copies.get(nameOf(job.id, job.attempt));

  return {
    async attempts(jobId) {
      const all = [...(await kept.attempts(jobId)), ...(await local.attempts(jobId))];
      return [...new Set(all)].sort((a, b) => a - b);
    },

    list: async (jobId, attempt) => {
      const isKept = !copies.has(nameOf(jobId, attempt)) && (await kept.attempts(jobId)).includes(attempt);
      return (isKept ? kept : local).list(jobId, attempt);
    },

    get: async (jobId, attempt, name, offset) =>
      (await kept.get(jobId, attempt, name, offset)) ?? local.get(jobId, attempt, name, offset),

    write: (...args) => kept.write(...args),
    remove: (...args) => kept.remove(...args),
    inputs: (...args) => kept.inputs(...args),

    async openStdin(jobId) {
      const source = await kept.get(jobId, INPUT_ATTEMPT, STDIN);
      if (source === null) return null;
      await local.write(jobId, INPUT_ATTEMPT, STDIN, 0, source);
      try {
        return await local.openStdin(jobId);
      } finally {
        await local.remove(jobId, INPUT_ATTEMPT, STDIN);
      }
    },

    async begin(jobId, attempt, keep, placed) {
      const place = await local.begin(jobId, attempt, keep);
      if (keep) unkept.add(jobId);
      copies.set(nameOf(jobId, attempt), new AttemptCopy({ local, kept, clock, maxBytes }, placed));
      if (place.previous !== null || attempt === 1) return place;
      return { ...place, previous: await previousOf(placed, place.dir) };
    },

    follow: (placed) => copyOf(placed)?.follow(),

    async finish(placed) {
      const copy = copyOf(placed);
      if (copy === undefined) return;
      if (!(await copy.finish())) unkept.add(placed.job.id);
      copies.delete(nameOf(placed.job.id, placed.job.attempt));
    },

    tidy: (jobId) => (unkept.delete(jobId) ? local.tidy(jobId) : local.delete([jobId])),

    async delete(jobIds) {
      await kept.delete(jobIds);
      await local.delete(jobIds);
    },
  };

  /** Brings what the attempt before left elsewhere into the directory beside this one's. */
  async function previousOf({ job, log }: PlacedAttempt, dir: string): Promise<string | null> {
    try {
      const before = (await kept.attempts(job.id)).filter((attempt) => attempt < job.attempt).at(-1);
      if (before === undefined) return null;
      const { files } = await kept.list(job.id, before);
      if (files.reduce((sum, { size }) => sum + size, 0) > MAX_EARLIER_BYTES) {
        throw new Error(`they are over ${MAX_EARLIER_BYTES} bytes`);
      }
      for (const name of [...STREAMS, "result.json", ...files.map((file) => `artifacts/${file.name}`)]) {
        const source = await kept.get(job.id, before, name);
        if (source !== null) await local.write(job.id, before, name, 0, source);
      }
      return join(dirname(dir), `attempt_${before}`);
    } catch (error) {
      log(`the files of the attempt before could not be fetched: ${(error as Error).message}`);
      return null;
    }
  }
}

/** What one attempt leaves, on its way from the directory into the store. */
class AttemptCopy {
  readonly #options: CopiedOutputsOptions;
  readonly #placed: PlacedAttempt;
  /** How much of each stream is kept. */
  readonly #sizes = new Map<string, number>();
  #hasEnded = false;
  #isWhole = true;
  #cancelTimer = () => {};
  #following: Promise<void> = Promise.resolve();

  constructor(options: CopiedOutputsOptions, placed: PlacedAttempt) {
    this.#options = options;
    this.#placed = placed;
  }

  follow(): void {
    this.#cancelTimer = this.#options.clock.after(FOLLOW_MS, () => {
      this.#following = this.#copyNew().finally(() => {
        if (!this.#hasEnded) this.follow();
      });
    });
  }

  /** Whether all of it is kept. */
  async finish(): Promise<boolean> {
    this.#hasEnded = true;
    this.#cancelTimer();
    await this.#following;
    const { id, attempt } = this.#placed.job;
    const { files, more } = await this.#options.local.list(id, attempt);
    if (more > 0) this.#lack(`${more} of its artifacts were not kept: too many, or not plain files`);
    for (const name of [...STREAMS, "result.json", ...files.map((file) => `artifacts/${file.name}`)]) {
      await this.#copy(name).catch((error: unknown) => this.#lack(`${name} was not kept: ${(error as Error).message}`));
    }
    return this.#isWhole;
  }

  /** What cannot be copied now is copied a second later, or at the end. */
  async #copyNew(): Promise<void> {
    for (const name of STREAMS) await this.#copy(name).catch(() => {});
  }

  async #copy(name: string): Promise<void> {
    const { local, kept, maxBytes } = this.#options;
    const { id, attempt } = this.#placed.job;
    const from = this.#sizes.get(name) ?? 0;
    const source = await local.get(id, attempt, name, from);
    if (source === null) return;
    const { size } = await kept.write(id, attempt, name, from, source, { maxBytes });
    this.#sizes.set(name, size);
  }

  #lack(message: string): void {
    this.#isWhole = false;
    this.#placed.log(message);
  }
}
