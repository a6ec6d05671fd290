/** `job_leases/` of the runtime folder: a file for each job that a worker holds. Renewals write no event, so the ends of leases are
 *  read from the sessions from time to time. In memory is one entry for each running job of OPAL's. */
import { type HeldLease, leaseFile, leaseText } from "../../dialects/opal/runtime-files.ts";
import type { Store } from "../../store/store.ts";
import type { RecordedJob, RuntimeFiles } from "./runtime-job.ts";

interface Held extends HeldLease {
  readonly session: string;
}

export class RuntimeLeases {
  readonly #files: RuntimeFiles;
  readonly #store: Store;
  /** By Perdure's id of the job. */
  readonly #held = new Map<string, Held>();

  constructor(files: RuntimeFiles, store: Store) {
    this.#files = files;
    this.#store = store;
  }

  /** Writes the lease of a job that runs, and removes that of one that does not. */
  async set({ id, row, document }: RecordedJob): Promise<void> {
    if (row.state !== "running" || row.worker === null) {
      this.#held.delete(row.id);
      await this.#files.remove(leaseFile(id));
      return;
    }
    const session = await this.#store.session(row.worker);
    const held: Held = {
      ...{ id, session: row.worker, worker: session?.name ?? document.history.at(-1)?.worker_id ?? null },
      ...{ attempt: row.attempt, acquiredAt: row.startedAt ?? row.runAt, expiresAt: session?.leaseEndsAt ?? null },
    };
    await this.#files.write(leaseFile(id), leaseText(held));
    this.#held.set(row.id, held);
  }

  /** Writes those anew that were renewed. The answer is the first error. */
  async refresh(): Promise<unknown> {
    const ends = new Map<string, number | null>();
    let failure: unknown = null;
    for (const [jobId, held] of this.#held) {
      try {
        if (!ends.has(held.session)) {
          ends.set(held.session, (await this.#store.session(held.session))?.leaseEndsAt ?? null);
        }
        const now: Held = { ...held, expiresAt: ends.get(held.session) ?? held.expiresAt };
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
