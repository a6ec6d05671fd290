/** Whether and when a failed call is repeated, for the SDK and for workers. */
import { isLater } from "../contract/wire.ts";
import type { ErrorCode } from "../core/errors.ts";
import { WireError } from "./wire-error.ts";

const AWAY: ReadonlySet<unknown> = new Set<ErrorCode>([
  ...(["server_unreachable", "store_unavailable", "store_unknown", "store_full"] as const),
  ...(["overloaded", "too_many_requests", "signing_key_missing"] as const),
]);

/** An outage: the server cannot be reached, or cannot take the call now, which ends by itself. */
export function isAway(error: unknown): boolean {
  if (error instanceof WireError && error.status !== null && isLater(error.status)) return true;
  return AWAY.has(codeOf(error));
}

/** Whether the call may be repeated. `isRepeatable`: a second call has no further effect. */
export function mayRepeat(error: unknown, isRepeatable: boolean): error is WireError {
  return error instanceof WireError && isAway(error) && (isRepeatable || !error.mayBeDone);
}

/** For work that must not be lost: a retry may succeed, now or after somebody has fixed something. */
export function mayPass(error: unknown): boolean {
  if (isAway(error) || isDenied(error) || codeOf(error) === "internal") return true;
  return error instanceof WireError && (error.isWrongAddress || (error.status ?? 0) >= 500);
}

/** The token is not, or no longer, valid for this call. It may be replaced while we wait. */
export function isDenied(error: unknown): boolean {
  return codeOf(error) === "unauthorized" || isForbidden(error);
}

/** The token is not valid, or the store is a different one and does not accept the session key. */
export function isForbidden(error: unknown): boolean {
  return codeOf(error) === "forbidden";
}

/** The session does not exist, or does not hold this attempt. */
export function isGone(error: unknown): boolean {
  return error instanceof WireError && !error.isWrongAddress && (error.status === 404 || error.code === "lease_lost");
}

/** The server refused the request for its content, not for its sender. */
export function isRefused(error: unknown): boolean {
  return error instanceof WireError && (error.status === 400 || error.status === 413);
}

/** The reply is too large; a smaller request would get a smaller reply. */
export function isReplyTooLarge(error: unknown): error is WireError {
  return error instanceof WireError && error.code === "body_too_large" && error.status === null;
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}

const FIRST_MS = 100;
const MAX_MS = 3_000;
/** Somebody has to replace a token, which takes time. */
const DENIED_MS = 5_000;
/** The longest pause that a server may request. */
const MAX_RETRY_AFTER_MS = 60_000;

/** Pauses before a call is repeated. Each is random: clients that lost the same server must not return at the same time. */
export class CallBackoff {
  readonly #random: () => number;
  #nextMs = FIRST_MS;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Milliseconds to wait after this error: growing, and in addition to what the server requested. */
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
