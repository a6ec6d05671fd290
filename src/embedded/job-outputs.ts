/** Outputs of jobs outside the database: where they are kept, how they are read, and how the output of commands that
 *  run here is copied into a store that keeps files itself. */
import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import type { JobOutputs } from "../core/api/outputs.ts";
import { asInteger, asText } from "../core/check.ts";
import type { Clock } from "../lib/clock.ts";
import { type Blobs, INPUT_ATTEMPT, type AttemptPlaces as LocalPlaces, STDIN } from "../store/blobs.ts";
import { isPostgres } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import type { AttemptDirectories, RunningAttempt } from "../worker/exec/exec-executor.ts";
import type { OpenOptions } from "./options.ts";

export async function jobOutputs(blobs: Blobs, store: Pick<Store, "log">, jobId: string): Promise<JobOutputs> {
  return {
    attempts: await blobs.attempts(jobId),
    files: (attempt) => blobs.list(jobId, attempt),
    read: async (attempt, name, offset = 0) =>
      blobs.get(jobId, attempt, name, asInteger(offset, "read.offset", { min: 0 })),
    async log(attempt, after = 0) {
      asInteger(after, "log.after", { min: 0 });
      const page = await store.log(jobId, asInteger(attempt, "log.attempt", { min: 1 }), after);
      return { text: page?.text ?? "", next: page?.next ?? after };
    },
  };
}

const DEFAULT_NAME = "perdure.db";

/** Beside the database: `artifacts` for `perdure.db`, `jobs.db-artifacts` for `jobs.db`. Databases may share one, as ids of
 *  jobs are unique. The directory of a database in memory is deleted with it, and has an unguessable name. */
export function artifactsDir({ artifacts, url }: OpenOptions): { readonly dir: string; remove(): Promise<void> } {
  const isShort = artifacts === undefined && /^(sqlite:(\/\/)?)?:memory:$/.test(url ?? "");
  const dir = isShort ? join(tmpdir(), `perdure-${randomBytes(12).toString("hex")}`) : lastingDir(artifacts, url);
  return { dir, remove: async () => (isShort ? rm(dir, { recursive: true, force: true }) : undefined) };
}

function lastingDir(artifacts: string | undefined, url: string | undefined): string {
  if (artifacts !== undefined) return resolve(asText(artifacts, "open.artifacts", 4_096));
  if (url === undefined || isPostgres(url)) return resolve(".perdure", "artifacts");
  const path = String(url).replace(/^sqlite:(\/\/)?/, "");
  const name = basename(path);
  return join(dirname(resolve(path)), name === DEFAULT_NAME ? "artifacts" : `${name}-artifacts`);
}

// Outputs of commands that run here, on a store that keeps files itself: an attempt writes into a directory of this
// machine, and its files are copied into the store before its end is reported. Its output is also copied while it
// runs, so that others can follow it. Files that exist only here, as of a program that keeps them in its
// directory, can be read as well. Files of an attempt whose process was killed are copied by the process that settles
// the attempt by its verdict, or that cleans up after its job in the same directory; nothing is removed here before the
// store has it. Not promised: that scratch files reach the store.

const FOLLOW_MS = 1_000;
/** Larger outputs of an earlier attempt are not fetched. */
const MAX_EARLIER_BYTES = 1_073_741_824;
const STREAMS = ["stdout.log", "stderr.log"] as const;

interface CopiedOutputsOptions {
  readonly local: Blobs & LocalPlaces;
  readonly kept: Blobs;
  readonly clock: Clock;
  /** The limit for all files of an attempt together. */
  readonly maxBytes: number;
}

interface CopiedOutputs extends Blobs, AttemptDirectories {
  tidy(jobId: string): Promise<void>;
  list: Blobs["list"];
  /** Copies the files that the store lacks of an attempt that does not run here; true if the store then has all of them. */
  keepAttempt(jobId: string, attempt: number): Promise<boolean>;
}

export function copiedOutputs(options: CopiedOutputsOptions): CopiedOutputs {
  const { local, kept } = options;
  const copies = new Map<string, AttemptCopy>();
  /** Attempts whose files, except scratch files, are all known to be in the store. */
  const whole = new Set<string>();
  /** Jobs whose scratch files are kept. */
  const keeping = new Set<string>();
  const nameOf = (jobId: string, attempt: number) => `${jobId}.${attempt}`;
  const copyOf = ({ job }: RunningAttempt) => copies.get(nameOf(job.id, job.attempt));

  return {
    async attempts(jobId) {
      const all = [...(await kept.attempts(jobId)), ...(await local.attempts(jobId))];
      return [...new Set(all)].sort((a, b) => a - b);
    },

    list: async (jobId, attempt) => {
      const here = await local.list(jobId, attempt);
      if (copies.has(nameOf(jobId, attempt))) return here;
      const there = await kept.list(jobId, attempt);
      const names = new Set(there.files.map(({ name }) => name));
      const files = [...there.files, ...here.files.filter(({ name }) => !names.has(name))];
      return { files: files.sort((a, b) => (a.name < b.name ? -1 : 1)), more: Math.max(there.more, here.more) };
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

    async begin(jobId, attempt, keep, running) {
      const place = await local.begin(jobId, attempt, keep);
      if (keep) keeping.add(jobId);
      copies.set(nameOf(jobId, attempt), new AttemptCopy(options, running));
      if (place.previous !== null || attempt === 1) return place;
      return { ...place, previous: await previousOf(running, place.dir) };
    },

    follow: (running) => copyOf(running)?.follow(),

    async finish(running) {
      const copy = copyOf(running);
      if (copy === undefined) return;
      const name = nameOf(running.job.id, running.job.attempt);
      if (await copy.finish()) whole.add(name);
      copies.delete(name);
    },

    keepAttempt,

    /** Removes everything only where this process has copied all of it to the store; it does not know what others keep. */
    async tidy(jobId) {
      const attempts = await local.attempts(jobId);
      const isWhole = attempts.every((attempt) => whole.has(nameOf(jobId, attempt)));
      for (const attempt of attempts) await keepAttempt(jobId, attempt);
      if (!isWhole || keeping.has(jobId)) return local.tidy(jobId);
      await local.delete([jobId]);
      for (const attempt of attempts) whole.delete(nameOf(jobId, attempt));
    },

    async delete(jobIds) {
      await kept.delete(jobIds);
      await local.delete(jobIds);
      for (const jobId of jobIds) keeping.delete(jobId);
    },
  };

  async function keepAttempt(jobId: string, attempt: number): Promise<boolean> {
    const name = nameOf(jobId, attempt);
    if (whole.has(name)) return true;
    return !copies.has(name) && (await copyMissing(options, jobId, attempt)); // one that runs is copied at its end
  }

  /** Fetches the files of the previous attempt, which ran elsewhere, into the directory beside this one's. */
  async function previousOf({ job, log }: RunningAttempt, dir: string): Promise<string | null> {
    try {
      const before = (await kept.attempts(job.id)).filter((attempt) => attempt < job.attempt).at(-1);
      if (before === undefined) return null;
      const { files } = await kept.list(job.id, before);
      if (files.reduce((sum, { size }) => sum + size, 0) > MAX_EARLIER_BYTES) {
        throw new Error(`more than ${MAX_EARLIER_BYTES} bytes`);
      }
      for (const name of [...STREAMS, "result.json", ...files.map((file) => `artifacts/${file.name}`)]) {
        const source = await kept.get(job.id, before, name);
        if (source !== null) await local.write(job.id, before, name, 0, source);
      }
      whole.add(nameOf(job.id, before));
      return join(dirname(dir), `attempt_${before}`);
    } catch (error) {
      log(`the files of the previous attempt could not be fetched: ${(error as Error).message}`);
      return null;
    }
  }
}

/** Copies the files of one attempt from its directory into the store. */
class AttemptCopy {
  readonly #options: CopiedOutputsOptions;
  readonly #running: RunningAttempt;
  /** How much of each stream the store has. */
  readonly #sizes = new Map<string, number>();
  #hasEnded = false;
  #isWhole = true;
  #cancelTimer = () => {};
  #following: Promise<void> = Promise.resolve();

  constructor(options: CopiedOutputsOptions, running: RunningAttempt) {
    this.#options = options;
    this.#running = running;
  }

  follow(): void {
    this.#cancelTimer = this.#options.clock.after(FOLLOW_MS, () => {
      this.#following = this.#copyNew().finally(() => {
        if (!this.#hasEnded) this.follow();
      });
    });
  }

  /** Whether the store has all of it. */
  async finish(): Promise<boolean> {
    this.#hasEnded = true;
    this.#cancelTimer();
    await this.#following;
    const { id, attempt } = this.#running.job;
    const { files, more } = await this.#options.local.list(id, attempt);
    if (more > 0) this.#lack(`${more} artifacts were not kept: too many, or not plain files`);
    const lack = (name: string) => (error: unknown) => this.#lack(`${name} was not kept: ${(error as Error).message}`);
    for (const name of STREAMS) await this.#copy(name).catch(lack(name));
    for (const name of [...files.map((file) => `artifacts/${file.name}`), "result.json"]) {
      await copyWhole(this.#options, id, attempt, name).catch(lack(name));
    }
    return this.#isWhole;
  }

  /** A file that cannot be copied now is copied a second later, or at the end. */
  async #copyNew(): Promise<void> {
    for (const name of STREAMS) await this.#copy(name).catch(() => {});
  }

  async #copy(name: string): Promise<void> {
    const { local, kept, maxBytes } = this.#options;
    const { id, attempt } = this.#running.job;
    const from = this.#sizes.get(name) ?? 0;
    const source = await local.get(id, attempt, name, from);
    if (source === null) return;
    const { size } = await kept.write(id, attempt, name, from, source, { maxBytes });
    this.#sizes.set(name, size);
  }

  #lack(message: string): void {
    this.#isWhole = false;
    this.#running.log(message);
  }
}

/** Stores a file in one step: a file in the store is complete. The verdict comes last, so that a lost attempt that is settled by
 *  it has its artifacts. */
async function copyWhole(
  { local, kept, maxBytes }: CopiedOutputsOptions,
  jobId: string,
  attempt: number,
  name: string,
) {
  const source = await local.get(jobId, attempt, name);
  if (source === null) return;
  // Others on this host may copy the same file at the same time.
  await kept.write(jobId, attempt, name, 0, source, { maxBytes, upload: process.pid, last: true });
}

/** Whether the store has the complete file at the end. The file here may be shorter than that of the store, as after an
 *  interrupted fetch: nothing in the store is replaced, except output that is longer here. */
async function copyMissing(options: CopiedOutputsOptions, jobId: string, attempt: number): Promise<boolean> {
  const { local, kept, maxBytes } = options;
  const { files, more } = await local.list(jobId, attempt);
  const there = new Set((await kept.list(jobId, attempt)).files.map(({ name }) => name));
  let isWhole = more === 0;
  const lack = () => {
    isWhole = false;
  };
  for (const name of STREAMS) {
    const length = await sizeOf(await local.get(jobId, attempt, name));
    const source = length === 0 ? null : await local.get(jobId, attempt, name);
    if (source !== null) await kept.write(jobId, attempt, name, 0, source, { maxBytes, length }).catch(lack);
    source?.destroy(); // it is not read where the store has as many bytes
  }
  for (const { name } of files) {
    if (!there.has(name)) await copyWhole(options, jobId, attempt, `artifacts/${name}`).catch(lack);
  }
  const verdict = await kept.get(jobId, attempt, "result.json");
  verdict?.destroy();
  if (verdict === null) await copyWhole(options, jobId, attempt, "result.json").catch(lack);
  return isWhole;
}

async function sizeOf(source: AsyncIterable<Uint8Array> | null): Promise<number> {
  let size = 0;
  for await (const piece of source ?? []) size += piece.length;
  return size;
}
