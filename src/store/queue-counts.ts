/** Counts of jobs by queue, computed from counts by lane. With many jobs the counts are cached for a while and a
 *  running count is shared, so that counting takes at most about a tenth of the time. */
import { JOB_STATES, type JobState } from "../core/job/job.ts";
import { isRunQueue } from "../core/names.ts";
import type { InternedValues } from "./job-row.ts";
import type { QueueCounts } from "./store.ts";

// A queue has one lane per kind and set of labels.

type RawRows = readonly (readonly unknown[])[];

export interface CountRows {
  /** Lane, state code, number of jobs. */
  readonly counted: RawRows;
  /** Lane, number of jobs. */
  readonly due: RawRows;
  /** Namespace, queue, paused since. */
  readonly paused: RawRows;
}

type QueueEntry = { -readonly [K in keyof QueueCounts]: QueueCounts[K] };

/** For all namespaces, sorted by name, including paused queues without jobs. */
export function queueCounts(rows: CountRows, interned: Pick<InternedValues, "lane">): QueueCounts[] {
  const queues = new Map<string, QueueEntry>();
  const at = (space: string, queue: string) => {
    const name = JSON.stringify([space, queue]);
    let entry = queues.get(name);
    if (entry === undefined) {
      const zero = Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>;
      entry = { namespace: space, queue, paused: false, pausedAt: null, counts: zero, due: 0 };
      queues.set(name, entry);
    }
    return entry;
  };
  for (const [no, code, jobs] of rows.counted) {
    const lane = interned.lane(no as number);
    const entry = at(lane.namespace, lane.queue);
    const state = JOB_STATES[code as number] as JobState;
    entry.counts = { ...entry.counts, [state]: entry.counts[state] + (jobs as number) };
  }
  for (const [no, jobs] of rows.due) {
    const lane = interned.lane(no as number);
    at(lane.namespace, lane.queue).due += jobs as number;
  }
  for (const [space, queue, pausedAt] of rows.paused) {
    const entry = at(space as string, queue as string);
    entry.paused = true;
    entry.pausedAt = pausedAt as number;
  }
  const all = [...queues.values()].filter((entry) => !isOver(entry));
  return all.sort((a, b) => (a.namespace + a.queue < b.namespace + b.queue ? -1 : 1));
}

/** The queue of a single `perdure run`, whose job has ended. */
function isOver({ queue, paused, counts }: QueueCounts): boolean {
  return isRunQueue(queue) && !paused && counts.queued + counts.running + counts.blocked === 0;
}

// Counting reads one index entry per job. Counts of many jobs are cached and a running count is shared; with few jobs
// each call counts, and its numbers are exact.

/** Entries counted at once: two to four milliseconds of work. Counts of no more than these are not cached. */
export const COUNT_AT_ONCE = 10_000;
/** A million entries take about 200 ms and are cached for two seconds. */
const ENTRIES_PER_MS = 500;

export interface CountedQueues {
  /** Of all namespaces. */
  readonly queues: readonly QueueCounts[];
  /** Entries that were read. */
  readonly entries: number;
}

export function keptCounts(count: (now: number) => Promise<CountedQueues>, few = COUNT_AT_ONCE) {
  let kept: { readonly at: number; readonly counted: CountedQueues } | null = null;
  let underWay: Promise<CountedQueues> | null = null;
  /** Incremented by `forget`: a count that started before it is not cached. */
  let generation = 0;

  async function countAnew(now: number): Promise<CountedQueues> {
    const begun = generation;
    try {
      const counted = await count(now);
      if (begun === generation) kept = counted.entries > few ? { at: now, counted } : null;
      return counted;
    } finally {
      if (begun === generation) underWay = null;
    }
  }

  async function current(now: number): Promise<CountedQueues> {
    // After the clock was set back, an entry from the future is not treated as fresh.
    if (kept !== null && Math.abs(now - kept.at) < kept.counted.entries / ENTRIES_PER_MS) return kept.counted;
    if (underWay === null) {
      underWay = countAnew(now);
      return underWay;
    }
    const counted = await underWay;
    // Only now is it known that they are few. They may have changed since the count began.
    return counted.entries > few ? counted : count(now);
  }

  return {
    async of(namespace: string | null, now: number): Promise<QueueCounts[]> {
      const { queues } = await current(now);
      return queues.filter((queue) => namespace === null || queue.namespace === namespace);
    },
    /** Drops the cached counts: a queue was paused or resumed, and the caller must see that. */
    forget(): void {
      generation += 1;
      kept = null;
      underWay = null;
    },
  };
}
