/** Instants as people give them: a Date, or milliseconds since 1970. */
import { ConfigError } from "./errors.ts";

/** Milliseconds since 1970 (UTC); `path` names the field in the error. */
export function toInstant(value: unknown, path: string): number {
  const ms = value instanceof Date ? value.getTime() : value;
  if (typeof ms === "number" && Number.isFinite(ms) && ms >= 0 && ms <= 8.64e15) return Math.round(ms);
  throw new ConfigError({ path, given: value, allowed: "a Date, or milliseconds since 1970 (UTC)" });
}
