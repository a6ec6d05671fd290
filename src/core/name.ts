/** Names that people read, search and type: of namespaces, queues, kinds, tags, labels and keys. */
import { ConfigError } from "./errors.ts";

export const MAX_NAME = 200;
export const MAX_KEY = 500;

// Control characters and half surrogate pairs cannot be typed or searched for.
const NAME = /^[^\p{Cc}\p{Cs}]+$/u;
/** Names that passed: a few come again and again, and the check is slower than all else that is done to a job at submit. */
const known = new Set<string>();

export function isName(value: unknown, limit: number = MAX_NAME): value is string {
  if (typeof value !== "string" || value.length > limit) return false;
  if (known.has(value)) return true;
  if (!NAME.test(value)) return false;
  // A key has another limit, and is used once as a rule.
  if (limit === MAX_NAME) {
    if (known.size >= 1_000) known.clear();
    known.add(value);
  }
  return true;
}

export function checkedName(value: unknown, path: string, limit: number = MAX_NAME): string {
  if (isName(value, limit)) return value;
  const allowed = `text of 1 to ${limit} characters, none of them control characters`;
  throw new ConfigError({ path, given: value, allowed });
}
