/** Queues with what is in them, put together from counts by lane: a queue has as many lanes as kinds and sets of labels. */
import { JOB_STATES, type JobState } from "../core/job.ts";
import { isRunQueue } from "../core/run-queue.ts";
import type { Meanings } from "./job-row.ts";
import type { QueueCounts } from "./store.ts";

type Rows = readonly (readonly unknown[])[];

export interface CountRows {
  /** Lane, code of a state, jobs. */
  readonly counted: Rows;
  /** Lane, jobs. */
  readonly due: Rows;
  /** Namespace, queue, since when. */
  readonly paused: Rows;
}

type Entry = { -readonly [K in keyof QueueCounts]: QueueCounts[K] };

/** Of all namespaces, sorted by their names, paused ones without a job among them. */
export function queueCounts(rows: CountRows, interned: Pick<Meanings, "lane">): QueueCounts[] {
  const queues = new Map<string, Entry>();
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
