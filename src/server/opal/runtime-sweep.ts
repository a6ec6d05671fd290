/** Removes from the runtime folder what is of jobs that the store no longer has: a prune deletes jobs without an event for each. A few
 *  names at a time. What is not named like a job's file stays. */
import { artifactsFolder, attemptsFile, leaseFile } from "../../dialects/opal/runtime-files.ts";
import { isOpalId } from "../../dialects/opal/words.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Store } from "../../store/store.ts";
import { isRecorded, type RuntimeFiles } from "./runtime-job.ts";

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

  /** Begins the next one now, or anew. */
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

/** A folder that cannot be read does not stop the others: its error comes last. */
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
