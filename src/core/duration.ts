/** Durations (`"1500ms"`, `"30s"`, `"1.5h"`, or a number of milliseconds) and instants, in milliseconds. */
import { ConfigError } from "./errors.ts";

type Unit = "ms" | "s" | "m" | "h" | "d";

/** A number with a unit, or a number of milliseconds. `duration(text)` checks text that the compiler cannot, as from a file.
 *  @example
 *  const waits: Duration[] = ["30s", "1.5h", 250]; // "10min" does not compile */
export type Duration = number | `${number}${Unit}` | `${number} ${Unit}`;

/** The milliseconds of a duration from a file or the environment. Throws `ConfigError` if it is not a duration.
 *  @example
 *  await perdure.submit(report, input, { timeout: duration(process.env.TIMEOUT ?? "5m") }); */
export function duration(value: string | number): number {
  return toMs(value, "duration");
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Ten years: longer than any sensible wait, and short enough that `now + delay` stays exact. */
export const MAX_DURATION_MS = 3_650 * 86_400_000;

const FORMAT = /^(\d{1,15}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)$/;
const ALLOWED = 'a number of milliseconds, or text like "1500ms", "30s", "5m", "2h" or "1d", up to 3650d';

/** Milliseconds of a duration; `path` names the field in the error.
 *  @example
 *  toMs("1.5h", "timeout"); // 5400000 */
export function toMs(value: unknown, path: string): number {
  const ms = typeof value === "number" ? value : typeof value === "string" ? parse(value) : Number.NaN;
  if (!Number.isFinite(ms) || ms < 0 || ms > MAX_DURATION_MS) {
    throw new ConfigError({ path, given: value, allowed: ALLOWED });
  }
  return Math.round(ms);
}

/** A duration of at least 1 ms. */
export function asSpan(value: unknown, path: string): number {
  const ms = toMs(value, path);
  if (ms > 0) return ms;
  throw new ConfigError({ path, given: value, allowed: "a duration of at least 1 ms" });
}

function parse(text: string): number {
  const match = FORMAT.exec(text.trim());
  return match ? Number(match[1]) * (UNIT_MS[match[2] as string] as number) : Number.NaN;
}

/** A duration for people: `0 ms`, `850 ms`, `1.5 s`, `2 min`, `3 h`, `4 d`. */
export function showMs(ms: number): string {
  const rounded = Math.round(ms);
  if (rounded < 1_000) return `${rounded} ms`;
  if (rounded < 60_000) return `${trim(rounded / 1_000)} s`;
  if (rounded < 3_600_000) return `${trim(rounded / 60_000)} min`;
  if (rounded < 86_400_000) return `${trim(rounded / 3_600_000)} h`;
  return `${trim(rounded / 86_400_000)} d`;
}

function trim(value: number): string {
  return String(Number(value.toFixed(1)));
}

/** Milliseconds since 1970 (UTC) of a Date or a number; `path` names the field in the error. */
export function toInstant(value: unknown, path: string): number {
  const ms = value instanceof Date ? value.getTime() : value;
  if (typeof ms === "number" && Number.isFinite(ms) && ms >= 0 && ms <= 8.64e15) return Math.round(ms);
  throw new ConfigError({ path, given: value, allowed: "a Date, or milliseconds since 1970 (UTC)" });
}
