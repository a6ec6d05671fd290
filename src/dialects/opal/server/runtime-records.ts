/** Leases and worker logs in the runtime directory, and the removal of files that are no longer needed. */

import type { Clock } from "../../../lib/clock.ts";
import { safeLine } from "../../../server/log.ts";
import type { Store } from "../../../store/store.ts";
import { isOpalId } from "../format.ts";
import type { WorkerLogRecord } from "../worker-log.ts";
import {
  artifactsFolder,
  attemptsFile,
  type HeldLease,
  isRecorded,
  leaseFile,
  leaseText,
  type RecordedJob,
  type RuntimeFiles,
  workerLogFile,
} from "./runtime-files.ts";

// `job_leases/` of the runtime folder: a file for each running job. Renewals write no event, so the ends of leases are
// read from the sessions at intervals. Memory holds one entry per running OPAL job.

interface HeldOpalLease extends HeldLease {
  readonly session: string;
}

export class RuntimeLeases {
  readonly #files: RuntimeFiles;
  readonly #store: Store;
  /** By Perdure's job id. */
  readonly #held = new Map<string, HeldOpalLease>();

  constructor(files: RuntimeFiles, store: Store) {
    this.#files = files;
    this.#store = store;
  }

  /** Writes the lease of a running job, and removes that of any other. */
  async set({ id, row, document }: RecordedJob): Promise<void> {
    if (row.state !== "running" || row.worker === null) {
      this.#held.delete(row.id);
      await this.#files.remove(leaseFile(id));
      return;
    }
    const session = await this.#store.sessions.get(row.worker);
    const held: HeldOpalLease = {
      ...{ id, session: row.worker, worker: session?.name ?? document.history.at(-1)?.worker_id ?? null },
      ...{ attempt: row.attempt, acquiredAt: row.startedAt ?? row.runAt, expiresAt: session?.leaseEndsAt ?? null },
    };
    await this.#files.write(leaseFile(id), leaseText(held));
    this.#held.set(row.id, held);
  }

  /** Writes renewed leases again. Returns the first error. */
  async refresh(): Promise<unknown> {
    const ends = new Map<string, number | null>();
    let failure: unknown = null;
    for (const [jobId, held] of this.#held) {
      try {
        if (!ends.has(held.session)) {
          ends.set(held.session, (await this.#store.sessions.get(held.session))?.leaseEndsAt ?? null);
        }
        const now: HeldOpalLease = { ...held, expiresAt: ends.get(held.session) ?? held.expiresAt };
        if (now.expiresAt === held.expiresAt) continue;
        await this.#files.write(leaseFile(held.id), leaseText(now));
        this.#held.set(jobId, now);
      } catch (error) {
        failure ??= error;
      }
    }
    return failure;
  }
}

// `logs/worker_pool/` of the runtime folder: a file for each worker. Lines that cannot be written wait, up to a limit;
// the oldest are dropped first and are written again by the next start, which rebuilds the files. Size and number of
// files are limited.

const FOLDER = ["logs", "worker_pool"];
const MAX_WAITING = 20_000;
/** The limit of a file; when it is full, one older file is kept. */
const MAX_BYTES = 4 * 1024 * 1024;
/** A restarted worker has another name: the files written least recently are removed. */
const MAX_FILES = 500;

export class RuntimeLogs {
  readonly #files: RuntimeFiles;
  #waiting: WorkerLogRecord[] = [];
  /** Names of workers' files, the one written last at the end. */
  readonly #known = new Set<string>();

  constructor(files: RuntimeFiles) {
    this.#files = files;
  }

  /** Removes everything that earlier servers wrote. */
  async clear(): Promise<void> {
    this.#waiting = [];
    this.#known.clear();
    for await (const name of this.#files.names(FOLDER)) {
      if (/^worker_.*\.log$/.test(name)) await this.#files.remove([...FOLDER, name]);
    }
  }

  add(records: readonly WorkerLogRecord[]): void {
    for (const record of records) this.#waiting.push(record);
    if (this.#waiting.length < 2 * MAX_WAITING) return; // sorting for each line would be too slow
    this.#waiting = inOrder(this.#waiting).slice(-MAX_WAITING);
  }

  /** Lines that cannot be written wait. Returns the first error. */
  async write(): Promise<unknown> {
    const byFile = new Map<string, WorkerLogRecord[]>();
    for (const record of inOrder(this.#waiting)) {
      const name = workerLogFile(record.line.worker);
      const records = byFile.get(name);
      if (records === undefined) byFile.set(name, [record]);
      else records.push(record);
    }
    this.#waiting = [];
    let failure: unknown = null;
    for (const [name, records] of byFile) {
      const text = records.map(({ line }) => `${safeLine(JSON.stringify(line))}\n`).join("");
      try {
        await this.#files.append([...FOLDER, `${name}.log`], text, MAX_BYTES, [...FOLDER, `${name}~older.log`]);
      } catch (error) {
        failure ??= error;
        this.add(records);
        continue;
      }
      this.#known.delete(name);
      this.#known.add(name);
      try {
        await this.#removeOldest();
      } catch (error) {
        failure ??= error; // the lines are written
      }
    }
    return failure;
  }

  async #removeOldest(): Promise<void> {
    const [oldest] = this.#known;
    if (oldest === undefined || this.#known.size <= MAX_FILES) return;
    for (const suffix of [".log", "~older.log"]) await this.#files.remove([...FOLDER, oldest + suffix]);
    this.#known.delete(oldest);
  }
}

function inOrder(records: readonly WorkerLogRecord[]): WorkerLogRecord[] {
  return records.toSorted((a, b) => a.at - b.at || a.seq - b.seq);
}

// Removes files of jobs that the store no longer has: a prune writes no event per job. A few names at a time. Files that
// are not named like a job's stay.

const NAMES_AT_ONCE = 20;

export class RuntimeSweep {
  readonly #files: RuntimeFiles;
  readonly #store: Store;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #everyMs: number;
  #ids: AsyncGenerator<string, void, void> | null = null;
  #nextAt = 0;

  constructor(files: RuntimeFiles, store: Store, clock: Pick<Clock, "monotonic">, everyMs: number) {
    this.#files = files;
    this.#store = store;
    this.#clock = clock;
    this.#everyMs = everyMs;
  }

  get isUnderWay(): boolean {
    return this.#ids !== null || this.#clock.monotonic() >= this.#nextAt;
  }

  /** Starts the next search now, or restarts it. */
  request(): void {
    void this.#ids?.return();
    this.#ids = null;
    this.#nextAt = 0;
  }

  async step(): Promise<void> {
    if (!this.isUnderWay) return;
    this.#nextAt = this.#clock.monotonic() + this.#everyMs;
    this.#ids ??= idsIn(this.#files);
    const ids = this.#ids;
    for (let i = 0; i < NAMES_AT_ONCE; i++) {
      const next = await ids.next().catch((error: unknown) => {
        this.#ids = null;
        throw error;
      });
      if (next.done) {
        if (this.#ids === ids) this.#ids = null;
        return;
      }
      const id = next.value;
      if (await isRecorded(this.#store, id)) continue;
      const paths = [leaseFile(id), attemptsFile(id), artifactsFolder(id)];
      const removed = await Promise.allSettled(paths.map((path) => this.#files.remove(path)));
      for (const each of removed) if (each.status === "rejected") throw each.reason;
    }
  }
}

/** A folder that cannot be read does not stop the others; its error is returned last. */
async function* idsIn(files: RuntimeFiles): AsyncGenerator<string, void, void> {
  const failures: unknown[] = [];
  for (const pathOf of [attemptsFile, leaseFile, artifactsFolder]) {
    const [folder = ""] = pathOf("");
    try {
      for await (const name of files.names([folder])) {
        const id = pathOf === artifactsFolder ? name : name.replace(/\.json$/, "");
        if (isOpalId(id) && pathOf(id)[1] === name) yield id;
      }
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}
