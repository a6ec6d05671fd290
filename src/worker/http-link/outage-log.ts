/** Reports an outage of the server: once that it is away, once when the cause changes, and once that it is back. */
import type { Clock } from "../../lib/clock.ts";
import { isDenied } from "../../wire/repeat.ts";

export type LinkLog = (level: "error" | "warn" | "info", message: string) => void;

/** Where two causes take turns, each is logged again at most this often. */
const LOG_EVERY_MS = 60_000;

/** Calls that fail in between are many: they are counted, and the last line has their number. */
export class OutageLog {
  readonly #clock: Clock;
  readonly #log: LinkLog;
  #since: number | null = null;
  #failures = 0;
  #code = "";
  readonly #loggedAt = new Map<string, number>();

  constructor(clock: Clock, log: LinkLog) {
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
    if (!isDenied(error)) this.#log("warn", `${message}; retrying`);
    else this.#log("error", `${message}; give this worker a valid token with the scope "work"; retrying`);
  }

  answered(): void {
    if (this.#since === null) return;
    const seconds = Math.round((this.#clock.monotonic() - this.#since) / 1_000);
    this.#log("info", `the server answers again after ${seconds} s; ${this.#failures} calls failed`);
    this.#since = null;
    this.#failures = 0;
    this.#loggedAt.clear();
  }
}
