/** Whether a call that failed is made again, and when. One place for the SDK and for workers. */
import { isLater } from "../contract/wire.ts";
import type { ErrorCode } from "../core/errors.ts";
import { WireError } from "./wire-error.ts";

const AWAY: ReadonlySet<unknown> = new Set<ErrorCode>([
  ...(["server_unreachable", "store_unavailable", "store_unknown", "store_full"] as const),
  ...(["overloaded", "too_many_requests", "signing_key_missing"] as const),
]);

/** An outage: the server is away, or cannot take it now, which passes by itself. */
export function isAway(error: unknown): boolean {
  if (error instanceof WireError && error.status !== null && isLater(error.status)) return true;
  return AWAY.has(codeOf(error));
}

/** May the call be made again? `isRepeatable`: made twice, it does what it does once. */
export function mayRepeat(error: unknown, isRepeatable: boolean): error is WireError {
  return error instanceof WireError && isAway(error) && (isRepeatable || !error.mayBeDone);
}

/** For work that must not be lost: trying again may help, now or when somebody has fixed something. */
export function mayPass(error: unknown): boolean {
  if (isAway(error) || isDenied(error) || codeOf(error) === "internal") return true;
  return error instanceof WireError && (error.isWrongAddress || (error.status ?? 0) >= 500);
}

/** The token is not, or no longer, good for this. Somebody may fix that while we wait. */
export function isDenied(error: unknown): boolean {
  return codeOf(error) === "unauthorized" || isForbidden(error);
}

/** The token is at fault, or the store is another one, and a key of a session means nothing to it. */
export function isForbidden(error: unknown): boolean {
  return codeOf(error) === "forbidden";
}

/** The server does not know this session, or the session does not hold this attempt. */
export function isGone(error: unknown): boolean {
  return error instanceof WireError && !error.isWrongAddress && (error.status === 404 || error.code === "lease_lost");
}

/** The server refused the request for what it holds, and not for who sends it. */
export function isRefused(error: unknown): boolean {
  return error instanceof WireError && (error.status === 400 || error.status === 413);
}

/** The reply does not fit into memory; asked for less, the server would send less. */
export function isReplyTooLarge(error: unknown): error is WireError {
  return error instanceof WireError && error.code === "body_too_large" && error.status === null;
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}

const FIRST_MS = 100;
const MAX_MS = 3_000;
/** Somebody has to replace a token: there is no hurry. */
const DENIED_MS = 5_000;
/** A server may ask for more time, but not for ever. */
const MAX_RETRY_AFTER_MS = 60_000;

/** Pauses before a call is made again. Those who lost the same server must not come back in step: each pause is drawn. */
export class CallBackoff {
  readonly #random: () => number;
  #nextMs = FIRST_MS;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Milliseconds to wait after this error: growing, and in addition to what the server asked for. */
  after(error: unknown): number {
    if (isDenied(error)) return DENIED_MS * (1 + this.#random() / 10);
    const longest = this.#nextMs;
    this.#nextMs = Math.min(MAX_MS, 2 * longest);
    const drawn = longest * (0.5 + this.#random() / 2);
    const asked = error instanceof WireError ? (error.retryAfterMs ?? 0) : 0;
    return Math.min(asked, MAX_RETRY_AFTER_MS) + drawn;
  }

  reset(): void {
    this.#nextMs = FIRST_MS;
  }
}
