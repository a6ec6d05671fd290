/** The health of a worker: counts of its attempts, sent with each renewal, and outages of its engine or link, logged
 *  once instead of at each retry. Nothing is decided on it. */
import { availableParallelism, loadavg } from "node:os";
import type { ReportedOutcome, WorkerHealth } from "../core/worker-protocol.ts";
import type { Clock } from "../lib/clock.ts";
import { type FieldLog, TroubleLog } from "../lib/log.ts";

// How a worker fares: counted as its attempts end, told with each renewal. Shown to people; nothing is decided on it.

/** How much a run counts in the moving average: the last twenty or so make up most of it. */
const WEIGHT = 0.1;
const PROCESSORS = availableParallelism();

export class HealthCounts {
  #total = 0;
  #failed = 0;
  #inARow = 0;
  #averageMs = 0;

  /** `wasCancelled`: somebody asked for its end, so how it ended says nothing of this worker. */
  ended(outcome: ReportedOutcome["kind"], ms: number, wasCancelled = false): void {
    if (outcome === "released") return; // it never ran
    this.#averageMs = this.#total === 0 ? ms : this.#averageMs + WEIGHT * (ms - this.#averageMs);
    this.#total += 1;
    if (outcome === "completed") this.#inARow = 0;
    else if (!wasCancelled && (outcome === "failed" || outcome === "timeout")) {
      this.#failed += 1;
      this.#inARow += 1;
    }
  }

  told(inHand: number, slots: number): WorkerHealth {
    return {
      consecutiveFailures: this.#inARow,
      total: this.#total,
      failed: this.#failed,
      averageMs: Math.round(this.#averageMs * 1_000) / 1_000,
      inHand,
      slots,
      load: Math.round(((loadavg()[0] ?? 0) / PROCESSORS) * 100) / 100,
    };
  }
}

// What a worker cannot do because its engine, or the way to it, does not work: claims, renewals and reports that fail
// are tried again for as long as it takes, and reported once, not each time.

export class WorkerTrouble {
  readonly #log: TroubleLog;

  constructor(clock: Clock, log: FieldLog) {
    this.#log = new TroubleLog({ clock, log, name: "worker.trouble", level: "warn" });
  }

  failed(hit: "claims" | "renewals" | "reports", what: string, error: unknown): void {
    const { code } = (error ?? {}) as { readonly code?: unknown };
    this.#log.failed(typeof code === "string" ? code : "failed", `${what}: ${String(error)}`, hit);
  }

  works(): void {
    this.#log.works();
  }
}
