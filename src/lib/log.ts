/** Logs with fields, and a log that reports an ongoing problem once until it is over. */
import type { Clock } from "./clock.ts";

// A log function with fields beside the message.

export type FieldLog = (
  level: "error" | "warn" | "info",
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** Appends the fields to the message, for loggers without fields. */
export function withFields(message: string, fields: Readonly<Record<string, unknown>> = {}): string {
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${JSON.stringify(value) ?? "null"}`);
  return message + pairs.join("");
}

// Reports an ongoing problem without repeating it: when it starts, when its kind changes, and when it is over, with
// counts and duration. It is over when something succeeds after a while without failures: something that works only now
// and then is one problem, not many.

export interface OngoingTrouble {
  readonly kind: string;
  readonly cause: string;
  /** On the monotonic clock. */
  readonly since: number;
  /** Number of failures by what they affected. */
  readonly counts: Readonly<Record<string, number>>;
}

export interface TroubleOptions {
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: FieldLog;
  /** Prefix of its log lines: NAME, NAME_changed, NAME_over. */
  readonly name: string;
  /** Default: error. */
  readonly level?: "error" | "warn";
  /** How long nothing may fail before it is over. */
  readonly quietMs?: number;
}

const QUIET_MS = 5_000;
/** Alternating kinds are reported again at most this often. */
const CHANGE_EVERY_MS = 60_000;
const MAX_CAUSE = 500;

export class TroubleLog {
  readonly #options: TroubleOptions;
  #now: { kind: string; cause: string; since: number; counts: Record<string, number> } | null = null;
  #lastAt = 0;
  readonly #reportedAt = new Map<string, number>();

  constructor(options: TroubleOptions) {
    this.#options = options;
  }

  get trouble(): OngoingTrouble | null {
    return this.#now;
  }

  /** `hit` is what the failure affected, as it is counted. */
  failed(kind: string, cause: string, hit: string): void {
    const { clock, log, name, level = "error" } = this.#options;
    const at = clock.monotonic();
    const short = cause.slice(0, MAX_CAUSE);
    this.#lastAt = at;
    if (this.#now === null) {
      this.#now = { kind, cause: short, since: at, counts: {} };
      this.#reportedAt.clear();
      this.#reportedAt.set(kind, at);
      log(level, name, { kind, cause: short });
    } else if (this.#now.kind !== kind) {
      const was = this.#now.kind;
      Object.assign(this.#now, { kind, cause: short });
      if (at - (this.#reportedAt.get(kind) ?? Number.NEGATIVE_INFINITY) >= CHANGE_EVERY_MS) {
        this.#reportedAt.set(kind, at);
        log(level, `${name}_changed`, { kind, was, cause: short });
      }
    }
    this.#now.counts[hit] = (this.#now.counts[hit] ?? 0) + 1;
  }

  works(): void {
    if (this.#now === null) return;
    const { clock, log, name, quietMs = QUIET_MS } = this.#options;
    const at = clock.monotonic();
    if (at - this.#lastAt < quietMs) return;
    const { kind, since, counts } = this.#now;
    this.#now = null;
    log("warn", `${name}_over`, { kind, ms: Math.round(this.#lastAt - since), ...counts });
  }
}
