/** How long a retry waits. Cap first, then jitter, then the floor: a jittered delay may lie above `max`, as in the
 *  systems the presets come from, unless `clampAfterJitter` makes `max` a promise. Whole milliseconds throughout;
 *  whatever the numbers given, the answer is finite and not negative, because a `runAt` is made of it. */
import type { Backoff } from "../policy/policy.ts";

export interface BackoffDelay {
  /** The delay before jitter and floor. */
  readonly baseMs: number;
  /** The ratio drawn, from -jitter to +jitter; 0 without jitter. */
  readonly jitter: number;
  readonly delayMs: number;
}

const NO_DELAY: BackoffDelay = Object.freeze({ baseMs: 0, jitter: 0, delayMs: 0 });

/** The delay before retry `r` (1, 2, … within its class); `random` is a draw from [0, 1). No floor applies where
 *  there is no delay at all: type none, and the first `immediate` retries.
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
      // The power grows to Infinity, which the cap takes back; but 0 · Infinity would be NaN.
      return backoff.initialMs === 0 ? 0 : backoff.initialMs * backoff.factor ** (n - 1);
    case "schedule":
      return backoff.delaysMs[Math.min(n - 1 + backoff.offset, backoff.delaysMs.length - 1)] ?? 0;
    case "fixed":
      return backoff.delayMs;
  }
}

/** A count below 1, or none at all, is the first retry. Bounded, since 1 ** Infinity is NaN. */
function wholeFromOne(r: number): number {
  return r >= 1 ? Math.min(Math.floor(r), Number.MAX_SAFE_INTEGER) : 1;
}

/** [0, 1) onto [-1, +1), linearly; anything else counts as the middle. */
function spread(random: number): number {
  return random >= 0 && random <= 1 ? 2 * random - 1 : 0;
}
