/** The delay of a retry: cap, then jitter, then floor. A jittered delay may exceed `max`, as in the systems that the presets come
 *  from, unless `clampAfterJitter` is set. The result is a finite number of whole milliseconds, not negative, for any input. */
import { showMs } from "../duration.ts";
import { showText } from "../format.ts";
import type { Backoff } from "../policy/policy.ts";

export interface BackoffDelay {
  /** The delay before jitter and floor. */
  readonly baseMs: number;
  /** The ratio drawn, from -jitter to +jitter; 0 without jitter. */
  readonly jitter: number;
  readonly delayMs: number;
}

const NO_DELAY: BackoffDelay = Object.freeze({ baseMs: 0, jitter: 0, delayMs: 0 });

/** The delay before retry `r` (1, 2, … within its class); `random` is from [0, 1). Type none and the first `immediate` retries
 *  have no delay and no floor.
 *  @example
 *  const { backoff } = resolvePolicy({ maxAttempts: 3, backoff: { initial: "1s", jitter: 0 } });
 *  backoffMs(backoff, 2, 0.5).delayMs; // 2000 */
export function backoffMs(backoff: Backoff, r: number, random: number): BackoffDelay {
  if (backoff.type === "none") return NO_DELAY;
  const n = wholeFromOne(r) - backoff.immediate;
  if (n < 1) return NO_DELAY;

  const baseMs = Math.round(Math.min(backoff.maxMs, uncappedMs(backoff, n)));
  const jitter = backoff.jitter === 0 ? 0 : backoff.jitter * spread(random);
  const jittered = Math.max(backoff.minMs, Math.round(baseMs * (1 + jitter)));
  return { baseMs, jitter, delayMs: backoff.clampAfterJitter ? Math.min(jittered, backoff.maxMs) : jittered };
}

type DelayedBackoff = Exclude<Backoff, { type: "none" }>;

function uncappedMs(backoff: DelayedBackoff, n: number): number {
  switch (backoff.type) {
    case "exponential":
      // The power may be Infinity, which the cap limits; but 0 · Infinity would be NaN.
      return backoff.initialMs === 0 ? 0 : backoff.initialMs * backoff.factor ** (n - 1);
    case "schedule":
      return backoff.delaysMs[Math.min(n - 1 + backoff.offset, backoff.delaysMs.length - 1)] ?? 0;
    case "fixed":
      return backoff.delayMs;
  }
}

/** Anything below 1 is the first retry. Bounded, since 1 ** Infinity is NaN. */
function wholeFromOne(r: number): number {
  return r >= 1 ? Math.min(Math.floor(r), Number.MAX_SAFE_INTEGER) : 1;
}

/** Maps [0, 1) to [-1, +1); anything else to 0. */
function spread(random: number): number {
  return random >= 0 && random <= 1 ? 2 * random - 1 : 0;
}

/** `exponential 1 s to 5 min, factor 2`; without jitter and floor. */
export function showBackoff(backoff: Backoff): string {
  switch (backoff.type) {
    case "none":
      return "none";
    case "fixed":
      return `fixed ${showMs(backoff.delayMs)}`;
    case "exponential":
      return `exponential ${showMs(backoff.initialMs)} to ${showMs(backoff.maxMs)}, factor ${backoff.factor}`;
    case "schedule":
      return `schedule ${showText(backoff.delaysMs.map(showMs).join(", "), 100)}`;
  }
}
