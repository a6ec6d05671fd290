/** A retry policy in short, before anything has been tried: how many attempts, and how long it waits between them. */
import { backoffMs } from "../core/backoff.ts";
import { limitText } from "../core/budget.ts";
import { showMs } from "../core/duration.ts";
import type { Backoff, Policy } from "../core/policy.ts";
import { counted } from "../core/show.ts";

/** Delays that are shown one by one. */
const SHOWN = 3;
/** The middle of a draw: no jitter. */
const MIDDLE = 0.5;

export function attemptsText({ maxAttempts, workerLost }: Policy): string {
  const own = `${maxAttempts} in all`;
  const hasOwnLosses = workerLost.charge === "own" && workerLost.maxRetries > 0;
  if (!hasOwnLosses) return maxAttempts === 1 ? `${own}, no retry` : own;
  const lost = `${counted(workerLost.maxRetries, "retry", "retries")} after lost workers`;
  return maxAttempts === 1 ? `${own}, no retry of failures; ${lost}` : `${own}; ${lost}`;
}

/** `30 s, 1 min, 2 min, … capped at 5 min, ±25 %`; null where there is no retry. */
export function backoffText({ maxAttempts, backoff, workerLost }: Policy): string | null {
  const retries = maxAttempts - 1;
  if (retries > 0) return delaysText(backoff, retries);
  return workerLost.charge === "own" && workerLost.maxRetries > 0
    ? `after lost workers: ${delaysText(workerLost.backoff, workerLost.maxRetries)}`
    : null;
}

function delaysText(backoff: Backoff, retries: number): string {
  if (backoff.type === "none") return "none, at once";
  const delay = (r: number) => backoffMs(backoff, r, MIDDLE).delayMs;
  const count = Math.min(retries, SHOWN);
  const delays = Array.from({ length: count }, (_, i) => delay(i + 1));
  const last = delay(retries);
  const isSteady = delays.every((each) => each === last);
  const listed = isSteady ? `${showMs(last)}${retries > 1 ? " each" : ""}` : delays.map(showMs).join(", ");
  const most = `${last === backoff.maxMs ? "capped at" : "up to"} ${showMs(last)}`;
  const rest = isSteady || retries <= count ? "" : `, … ${most}`;
  const jitter = backoff.jitter === 0 ? "" : `, ±${Number((backoff.jitter * 100).toFixed(1))} %`;
  return `${listed}${rest}${jitter}`;
}

/** Null where nothing is limited. */
export function policyBudgetText({ budget: { tokens, costUsd } }: Policy): string | null {
  return tokens === null && costUsd === null ? null : limitText({ tokens, costUsd });
}
