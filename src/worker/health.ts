/** The health of a worker: counts of its attempts, sent with each renewal and shown to operators, and failures of its engine or
 *  link, logged once instead of at each retry. No decision depends on it. */
import { availableParallelism, loadavg } from "node:os";
import type { ReportedOutcome, WorkerHealth } from "../core/worker-protocol.ts";
import type { Clock } from "../lib/clock.ts";
import { type FieldLog, TroubleLog } from "../lib/log.ts";

/** Weight of one attempt in the moving average: the last twenty or so make up most of it. */
const WEIGHT = 0.1;
const PROCESSORS = availableParallelism();

export class HealthCounts {
  #total = 0;
  #failed = 0;
  #consecutiveFailures = 0;
  #averageMs = 0;

  /** A failure after a cancel (`wasCancelled`) is not counted as a failure of this worker. */
  ended(outcome: ReportedOutcome["kind"], ms: number, wasCancelled = false): void {
    if (outcome === "released") return; // it was never started
    this.#averageMs = this.#total === 0 ? ms : this.#averageMs + WEIGHT * (ms - this.#averageMs);
    this.#total += 1;
    if (outcome === "completed") this.#consecutiveFailures = 0;
    else if (!wasCancelled && (outcome === "failed" || outcome === "timeout")) {
      this.#failed += 1;
      this.#consecutiveFailures += 1;
    }
  }

  /** As sent with a renewal; `inHand` is the number of attempts that the worker holds. */
  snapshot(inHand: number, slots: number): WorkerHealth {
    return {
      consecutiveFailures: this.#consecutiveFailures,
      total: this.#total,
      failed: this.#failed,
      averageMs: Math.round(this.#averageMs * 1_000) / 1_000,
      inHand,
      slots,
      load: Math.round(((loadavg()[0] ?? 0) / PROCESSORS) * 100) / 100,
    };
  }
}

/** Claims, renewals and reports that fail are retried until they succeed; their failures are logged once, not each time. */
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
