/** How long to wait before a call is repeated, and what people are told meanwhile. Workers that lost the same server must
 *  not come back in step: every wait is drawn. */
import type { Clock } from "../../lib/clock.ts";
import { isDenied, WireError } from "./wire-error.ts";

const FIRST_MS = 100;
const MOST_MS = 3_000;
/** A token has to be mended by somebody: there is no hurry. */
const DENIED_MS = 5_000;
/** A server may ask for more time, but not for ever. */
const MOST_ASKED_MS = 60_000;

export class CallBackoff {
  readonly #random: () => number;
  #nextMs = FIRST_MS;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Milliseconds to wait after this error: growing, and at least what the server asked for. */
  after(error: unknown): number {
    if (isDenied(error)) return DENIED_MS * (1 + this.#random() / 10);
    const longest = this.#nextMs;
    this.#nextMs = Math.min(MOST_MS, 2 * longest);
    const drawn = longest * (0.5 + this.#random() / 2);
    const asked = error instanceof WireError ? error.retryAfterMs : null;
    return asked === null ? drawn : Math.min(asked, MOST_ASKED_MS) + drawn;
  }

  again(): void {
    this.#nextMs = FIRST_MS;
  }
}

export type LinkLog = (level: "error" | "warn" | "info", message: string) => void;

/** The same trouble is reported anew at most this often, where two kinds take turns. */
const TELL_EVERY_MS = 60_000;

/** Reports once that the server is away, once when the cause changes, and once that it is back, with how long that was and how
 *  many calls failed: those in between are many. */
export class OutageLog {
  readonly #clock: Clock;
  readonly #log: LinkLog;
  #since: number | null = null;
  #failed = 0;
  #code = "";
  readonly #toldAt = new Map<string, number>();

  constructor(clock: Clock, log: LinkLog) {
    this.#clock = clock;
    this.#log = log;
  }

  trouble(error: unknown): void {
    const { code = "", message } = error as { code?: string; message: string };
    const now = this.#clock.monotonic();
    this.#since ??= now;
    this.#failed += 1;
    const isSame = this.#failed > 1 && this.#code === code;
    this.#code = code;
    if (isSame || now - (this.#toldAt.get(code) ?? Number.NEGATIVE_INFINITY) < TELL_EVERY_MS) return;
    this.#toldAt.set(code, now);
    if (!isDenied(error)) this.#log("warn", `${message}; retrying`);
    else this.#log("error", `${message}; give this worker a token with the scope "work" that is valid; retrying`);
  }

  well(): void {
    if (this.#since === null) return;
    const seconds = Math.round((this.#clock.monotonic() - this.#since) / 1_000);
    this.#log("info", `the server answers again after ${seconds} s; ${this.#failed} calls failed`);
    this.#since = null;
    this.#failed = 0;
    this.#toldAt.clear();
  }
}
