/** Names that people read, search and type (namespaces, queues, kinds, tags, labels, keys), and the queue names of
 *  `perdure run`. */
import { ConfigError } from "./errors.ts";

// Names that people read, search and type: of namespaces, queues, kinds, tags, labels and keys.

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

// Queues of `perdure run`: a command that runs in the process that was started waits in a queue of its own, which no
// other `perdure run` takes. Such a queue goes with its job: it is listed while the job has not ended, and its lane
// is deleted with the last job that names it.

const RUN_QUEUE = /^run-[0-9a-f]{16}$/;

/** `hex` is 16 or more lower-case hexadecimal digits. */
export function runQueue(hex: string): string {
  return `run-${hex.slice(0, 16)}`;
}

export function isRunQueue(queue: string): boolean {
  return RUN_QUEUE.test(queue);
}
