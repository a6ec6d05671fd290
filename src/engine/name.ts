/** Names that people read, search and type: of kinds, queues, tags, labels and keys. */
import { ConfigError } from "../core/errors.ts";
import { LIMITS } from "./limits.ts";

// Control characters and lone surrogates have no place in them.
const NAME = /^[^\p{Cc}\p{Cs}]+$/u;
/** Names that passed: a few come again and again, and the check is slower than all else that is done to a job at submit. */
const known = new Set<string>();

export function isName(value: unknown, limit: number = LIMITS.name): value is string {
  if (typeof value !== "string") return false;
  if (known.has(value)) return true;
  if (value.length > limit || !NAME.test(value)) return false;
  // The limit of a key is higher, and each is used once.
  if (limit === LIMITS.name) {
    if (known.size >= 1_000) known.clear();
    known.add(value);
  }
  return true;
}

export function checkedName(value: unknown, path: string, limit: number = LIMITS.name): string {
  if (isName(value, limit)) return value;
  const allowed = `text of 1 to ${limit} characters, none of them control characters`;
  throw new ConfigError({ path, given: value, allowed });
}
