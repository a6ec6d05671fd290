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
      for (const path of [leaseFile(id), attemptsFile(id), artifactsFolder(id)]) await this.#files.remove(path);
    }
  }
}

async function* idsIn(files: RuntimeFiles): AsyncGenerator<string, void, void> {
  for (const pathOf of [attemptsFile, leaseFile, artifactsFolder]) {
    const [folder = ""] = pathOf("");
    for await (const name of files.names([folder])) {
      const id = pathOf === artifactsFolder ? name : name.replace(/\.json$/, "");
      if (isOpalId(id) && pathOf(id)[1] === name) yield id;
    }
  }
}
