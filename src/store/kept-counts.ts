/** What is in the queues, counted once for all who ask. Counting goes through an entry of an index for each job: with many
 *  jobs the counts are kept for a while, and a count under way is shared, so that counting never takes more than about a
 *  tenth of the time however many ask. With few jobs each call counts, and its numbers are exact. */
import type { QueueCounts } from "./store.ts";

/** Entries that are counted in one go: two to four milliseconds of work. Counts of no more than these are not kept. */
export const COUNT_AT_ONCE = 10_000;
/** A million take about 200 ms, and are kept for two seconds. */
const ENTRIES_PER_MS = 500;

export interface Counted {
  /** Of all namespaces. */
  readonly queues: readonly QueueCounts[];
  /** Entries that were gone through. */
  readonly entries: number;
}

export function keptCounts(count: (now: number) => Promise<Counted>, few = COUNT_AT_ONCE) {
  let kept: { readonly at: number; readonly counted: Counted } | null = null;
  let underWay: Promise<Counted> | null = null;
  /** Raised by `forget`: a count that began before it is not kept. */
  let generation = 0;

  async function countAnew(now: number): Promise<Counted> {
    const begun = generation;
    try {
      const counted = await count(now);
      if (begun === generation) kept = counted.entries > few ? { at: now, counted } : null;
      return counted;
    } finally {
      if (begun === generation) underWay = null;
    }
  }

  async function current(now: number): Promise<Counted> {
    // A clock that was set back makes nothing younger.
    if (kept !== null && Math.abs(now - kept.at) < kept.counted.entries / ENTRIES_PER_MS) return kept.counted;
    if (underWay === null) {
      underWay = countAnew(now);
      return underWay;
    }
    const counted = await underWay;
    // Whether they are few is known only now. They may have changed since that count began.
    return counted.entries > few ? counted : count(now);
  }

  return {
    async of(namespace: string | null, now: number): Promise<QueueCounts[]> {
      const { queues } = await current(now);
      return queues.filter((queue) => namespace === null || queue.namespace === namespace);
    },
    /** Counts anew when asked: a queue was paused or resumed, and whoever did it is to see that. */
    forget(): void {
      generation += 1;
      kept = null;
      underWay = null;
    },
  };
}
