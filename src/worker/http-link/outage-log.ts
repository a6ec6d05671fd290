/** Logs an outage of the server once: when it begins, when its cause changes, and when it is over, with the number of calls that
 *  failed. */
import type { Clock } from "../../lib/clock.ts";
import type { FieldLog } from "../../lib/log.ts";
import { isDenied } from "../../wire/repeat.ts";

/** If two causes alternate, each is logged at most this often. */
const LOG_EVERY_MS = 60_000;
const TOKEN_FIX = "start this worker with a valid token of the scope work";

export class OutageLog {
  readonly #clock: Clock;
  readonly #log: FieldLog;
  #since: number | null = null;
  #failures = 0;
  #code = "";
  readonly #loggedAt = new Map<string, number>();

  constructor(clock: Clock, log: FieldLog) {
    this.#clock = clock;
    this.#log = log;
  }

  failed(error: unknown): void {
    const { code = "", message } = error as { code?: string; message: string };
    const now = this.#clock.monotonic();
    this.#since ??= now;
    this.#failures += 1;
    const isSame = this.#failures > 1 && this.#code === code;
    this.#code = code;
    if (isSame || now - (this.#loggedAt.get(code) ?? Number.NEGATIVE_INFINITY) < LOG_EVERY_MS) return;
    this.#loggedAt.set(code, now);
    const fields = { ...(code === "" ? {} : { code }), error: message };
    if (!isDenied(error)) this.#log("warn", "server call failed, retrying", fields);
    else this.#log("error", "server refused the token, retrying", { ...fields, fix: TOKEN_FIX });
  }

  answered(): void {
    if (this.#since === null) return;
    const seconds = Math.round((this.#clock.monotonic() - this.#since) / 1_000);
    this.#log("info", "server answers again", { seconds, failedCalls: this.#failures });
    this.#since = null;
    this.#failures = 0;
    this.#loggedAt.clear();
  }
}
