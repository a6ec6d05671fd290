/** What a worker cannot do because its engine, or the way to it, does not work: claims, renewals and reports that fail are tried
 *  again for as long as it takes, and reported once, not each time. */
import type { Clock } from "../lib/clock.ts";
import type { FieldLog } from "../lib/field-log.ts";
import { TroubleLog } from "../lib/trouble-log.ts";

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
