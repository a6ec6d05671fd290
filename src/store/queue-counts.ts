/** Counts of jobs by queue, computed from counts by lane. With many jobs the counts are cached for a while and a
 *  running count is shared, so that counting takes at most about a tenth of the time. */
import { JOB_STATES, type JobState } from "../core/job/job.ts";
import { isRunQueue } from "../core/names.ts";
import type { InternedValues } from "./job-row.ts";
import type { QueueCounts } from "./store.ts";

// Queues with what is in them, put together from counts by lane: a queue has as many lanes as kinds and sets of
// labels.

type RawRows = readonly (readonly unknown[])[];

export interface CountRows {
  /** Lane, code of a state, jobs. */
  readonly counted: RawRows;
  /** Lane, jobs. */
  readonly due: RawRows;
  /** Namespace, queue, since when. */
  readonly paused: RawRows;
}

type QueueEntry = { -readonly [K in keyof QueueCounts]: QueueCounts[K] };

/** Of all namespaces, sorted by their names, paused ones without a job among them. */
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

/** The queue of a single run, whose job has ended. */
function isOver({ queue, paused, counts }: QueueCounts): boolean {
  return isRunQueue(queue) && !paused && counts.queued + counts.running + counts.blocked === 0;
}

// What is in the queues, counted once for all who ask. Counting goes through an entry of an index for each job: with
// many jobs the counts are kept for a while, and a count under way is shared, so that counting never takes more than
// about a tenth of the time however many ask. With few jobs each call counts, and its numbers are exact.

/** Entries that are counted in one go: two to four milliseconds of work. Counts of no more than these are not kept. */
export const COUNT_AT_ONCE = 10_000;
/** A million take about 200 ms, and are kept for two seconds. */
const ENTRIES_PER_MS = 500;

export interface CountedQueues {
  /** Of all namespaces. */
  readonly queues: readonly QueueCounts[];
  /** Entries that were gone through. */
  readonly entries: number;
}

export function keptCounts(count: (now: number) => Promise<CountedQueues>, few = COUNT_AT_ONCE) {
  let kept: { readonly at: number; readonly counted: CountedQueues } | null = null;
  let underWay: Promise<CountedQueues> | null = null;
  /** Raised by `forget`: a count that began before it is not kept. */
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
