/** How many wrong tokens came from an address within a minute. It slows down guessing; a right token is never held up.
 *  It forgets the oldest addresses when there are very many, and counts for this server only. */
import type { Clock } from "../lib/clock.ts";

const PER_MINUTE = 10;
const MINUTE_MS = 60_000;
const MAX_ADDRESSES = 10_000;

export class WrongTokens {
  readonly #clock: Clock;
  readonly #seen = new Map<string, { since: number; count: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts one more wrong token; true when there have been too many. */
  isOver(address: string): boolean {
    const key = networkOf(address);
    const now = this.#clock.monotonic();
    const entry = this.#seen.get(key);
    if (entry !== undefined && now - entry.since < MINUTE_MS) {
      entry.count += 1;
      return entry.count > PER_MINUTE;
    }
    this.#seen.delete(key); // set again at the end: the map's order is that of age
    this.#seen.set(key, { since: now, count: 1 });
    if (this.#seen.size > MAX_ADDRESSES) this.#seen.delete(this.#seen.keys().next().value as string);
    return false;
  }
}

/** One user of IPv6 has a whole network of addresses. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:/, "");
  if (!plain.includes(":")) return plain;
  const [head = "", tail] = plain.split("::");
  const groups = head.split(":");
  const filled = tail === undefined ? groups : [...groups, ...Array<string>(8).fill("0")];
  return filled.slice(0, 4).join(":");
}
