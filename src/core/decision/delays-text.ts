/** The delays of a backoff as text for people: its first delays, its cap and its jitter. */
import { showMs } from "../duration.ts";
import type { Backoff } from "../policy/policy.ts";
import { backoffMs } from "./backoff.ts";

/** Delays that are shown one by one. */
const SHOWN = 3;
/** The middle of the random range: no jitter. */
const MIDDLE = 0.5;

/** `30 s, 1 min, 2 min, … capped at 5 min, ±25 %`, for that many retries. */
export function delaysText(backoff: Backoff, retries: number): string {
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
