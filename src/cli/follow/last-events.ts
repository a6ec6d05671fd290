/** The last events that there are. A feed is read forwards only, from a number on, and numbers have gaps; so where it ends
 *  is searched for, and millions of events need not be read for the sake of twenty. */
import type { PerdureEvent } from "../../core/event.ts";

/** All events after this number that are there now. */
export type ReadAfter = (after: number) => AsyncIterable<PerdureEvent>;

/** Where so few numbers are left to search, reading is as quick. */
const NEAR = 500;

export async function lastEvents(read: ReadAfter, count: number): Promise<PerdureEvent[]> {
  const near = await nearEnd(read);
  // Where there are too few behind it, from further and further before it.
  for (let back = count; ; back *= 4) {
    const from = Math.max(0, near - back);
    const found = await tail(read(from), count);
    if (found.length === count || from === 0) return found;
  }
}

/** A number after which there are events, and not many; 0 if there are none. */
async function nearEnd(read: ReadAfter): Promise<number> {
  let low = 0;
  let high = 1;
  while (await hasAfter(read, high)) {
    low = high;
    high *= 8;
  }
  while (high - low > NEAR) {
    const middle = Math.floor((low + high) / 2);
    if (await hasAfter(read, middle)) low = middle;
    else high = middle;
  }
  return low;
}

async function hasAfter(read: ReadAfter, after: number): Promise<boolean> {
  for await (const _ of read(after)) return true;
  return false;
}

async function tail(events: AsyncIterable<PerdureEvent>, count: number): Promise<PerdureEvent[]> {
  let kept: PerdureEvent[] = [];
  for await (const event of events) {
    kept.push(event);
    if (kept.length >= 2 * count) kept = kept.slice(-count);
  }
  return kept.slice(-count);
}
