/** `logs/worker_pool/` of the runtime folder: a file for each worker. Lines that cannot be written wait, up to a number; the oldest
 *  go first, and are there again after the next start, which makes the files anew. Bounded in bytes and in files. */
import { workerLogFile } from "../../dialects/opal/runtime-files.ts";
import type { WorkerLogRecord } from "../../dialects/opal/worker-log.ts";
import { safeLine } from "../log.ts";
import type { RuntimeFiles } from "./runtime-job.ts";

const FOLDER = ["logs", "worker_pool"];
const MAX_WAITING = 20_000;
/** Of a file; when it is full, one older file is kept beside it. */
const MAX_BYTES = 4 * 1024 * 1024;
/** A worker that is started again has another name: files of those that wrote least lately are removed. */
const MAX_FILES = 500;

export class RuntimeLogs {
  readonly #files: RuntimeFiles;
  #waiting: WorkerLogRecord[] = [];
  /** Names of workers' files, the one that was written last at the end. */
  readonly #known = new Set<string>();

  constructor(files: RuntimeFiles) {
    this.#files = files;
  }

  /** Removes all that earlier servers wrote. */
  async clear(): Promise<void> {
    this.#waiting = [];
    this.#known.clear();
    for await (const name of this.#files.names(FOLDER)) {
      if (/^worker_.*\.log$/.test(name)) await this.#files.remove([...FOLDER, name]);
    }
  }

  add(records: readonly WorkerLogRecord[]): void {
    for (const record of records) this.#waiting.push(record);
    if (this.#waiting.length < 2 * MAX_WAITING) return; // to sort them for each line would take all the time
    this.#waiting = inOrder(this.#waiting).slice(-MAX_WAITING);
  }

  /** What cannot be written waits; the answer is the first error. */
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
