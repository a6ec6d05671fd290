/** Whether the store works, as seen by this process. Calls that fail because the store is full, unavailable or broken are
 *  counted here and not logged one by one: the log gets one line when that begins and one when it is over. */
import { type ErrorCode, PerdureError } from "../core/errors.ts";
import { type OngoingTrouble, TroubleLog, type TroubleOptions } from "../lib/log.ts";

const KINDS: Partial<Readonly<Record<ErrorCode, string>>> = {
  store_full: "full",
  store_unavailable: "unavailable",
  // Calls that were in progress when the connection was lost.
  store_unknown: "unavailable",
  store_io: "io",
};

export class StoreState {
  readonly #log: TroubleLog;

  constructor(options: Pick<TroubleOptions, "clock" | "log" | "quietMs">) {
    this.#log = new TroubleLog({ ...options, name: "store.trouble" });
  }

  /** Null while it works. */
  get trouble(): OngoingTrouble | null {
    return this.#log.trouble;
  }

  /** A request, or a round in the background, failed. True: the cause is the store and is reported here; the caller logs nothing. */
  failed(error: unknown, hit: "requests" | "rounds"): boolean {
    const kind = error instanceof PerdureError ? KINDS[error.code] : undefined;
    if (kind === undefined) return false;
    this.#log.failed(kind, (error as PerdureError).message, hit);
    return true;
  }

  /** Something was written. */
  works(): void {
    this.#log.works();
  }
}
