/** Names that people read, search and type (namespaces, queues, kinds, tags, labels, keys), and the queue names of
 *  `perdure run`. */
import { ConfigError } from "./errors.ts";

export const MAX_NAME = 200;
export const MAX_KEY = 500;

// Control characters and half surrogate pairs cannot be typed or searched for.
const NAME = /^[^\p{Cc}\p{Cs}]+$/u;

export function isName(value: unknown, limit: number = MAX_NAME): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= limit && (isAscii(value) || NAME.test(value));
}

/** Printable ASCII, as nearly all names are: a tenth of a microsecond faster than the expression. */
function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x20 || code > 0x7e) return false;
  }
  return true;
}

export function checkedName(value: unknown, path: string, limit: number = MAX_NAME): string {
  if (isName(value, limit)) return value;
  const allowed = `text of 1 to ${limit} characters, without control characters`;
  throw new ConfigError({ path, given: value, allowed });
}

// A `perdure run` without a server puts its job into a queue of its own, which no other worker takes. The queue is listed
// until the job has ended.

const RUN_QUEUE = /^run-[0-9a-f]{16}$/;

/** `hex` is 16 or more lower-case hexadecimal digits. */
export function runQueue(hex: string): string {
  return `run-${hex.slice(0, 16)}`;
}

export function isRunQueue(queue: string): boolean {
  return RUN_QUEUE.test(queue);
}
