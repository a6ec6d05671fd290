/** The pruner deletes ended jobs, with everything recorded about them, when their retention is over. */

import { BackgroundService } from "./background-service.ts";
import { DEFAULTS, type Retention } from "./limits.ts";
import type { EngineParts } from "./parts.ts";
import { UploadSweep } from "./upload.ts";

const BATCH = 500;

export class Pruner extends BackgroundService {
  readonly #parts: EngineParts;
  readonly #retention: Retention;
  readonly #keyWindowMs: number;
  readonly #uploads = new UploadSweep();
  #sweptAt = Number.NEGATIVE_INFINITY;

  constructor(parts: EngineParts, retention: Retention, keyWindowMs: number) {
    super(parts, DEFAULTS.pruneEvery, "pruner");
    this.#parts = parts;
    this.#retention = retention;
    this.#keyWindowMs = keyWindowMs;
  }

  override async runOnce(): Promise<void> {
    const isDue = this.#parts.clock.monotonic() - this.#sweptAt >= DEFAULTS.sweepNamesEvery;
    await this.prune({ sweepNames: isDue });
  }

  /** Deletes everything that is due, in short transactions. `by`: who requested it; the rounds in the background write no event. */
  async prune({ sweepNames = true, by }: { sweepNames?: boolean; by?: string } = {}): Promise<number> {
    const { store, clock, outputs } = this.#parts;
    const now = clock.now();
    if (sweepNames) this.#sweptAt = clock.monotonic();
    const names = sweepNames ? { namesUnusedBefore: now - DEFAULTS.nameRetention } : {};
    const endedBefore: Partial<Record<keyof Retention, number>> = {};
    for (const state of ["succeeded", "failed", "cancelled"] as const) {
      const kept = this.#retention[state];
      if (kept !== null) endedBefore[state] = now - kept;
    }
    const sessionsEndedBefore = now - DEFAULTS.sessionRetention;
    let pruned = 0;
    for (;;) {
      const query = { now, endedBefore, keyWindowMs: this.#keyWindowMs, sessionsEndedBefore, limit: BATCH };
      const answer = await store.prune({ ...query, ...names, ...(by === undefined ? {} : { by }) });
      await outputs?.delete(answer.ids);
      pruned += answer.jobs;
      if (!answer.more || this.stopped) break;
    }
    await this.#uploads.round(this.#parts);
    return pruned;
  }
}
