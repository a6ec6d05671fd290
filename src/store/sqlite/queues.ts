/** Queues: what is in them, and pausing them. A queue exists when a job names it. */
import { type CountRows, queueCounts } from "../queue-counts.ts";
import type { QueueCounts } from "../store.ts";
import type { Context } from "./context.ts";
import type { Verb } from "./writer.ts";

interface Pause {
  readonly namespace: string;
  readonly queue: string;
  readonly paused: boolean;
  readonly now: number;
}

export function pauseVerb({ db, events }: Context): Verb<Pause, null> {
  const since = db.prepare("select paused_at from queue where namespace = ? and queue = ?");
  const pause = db.prepare("insert into queue (namespace, queue, paused_at) values (?, ?, ?)");
  const resume = db.prepare("delete from queue where namespace = ? and queue = ?");
  const record = db.prepare("insert or replace into past_pause (namespace, queue, from_at, to_at) values (?, ?, ?, ?)");
  return {
    order: 6,
    run: (items) =>
      items.map(({ namespace, queue, paused, now }) => {
        const row = since.get(namespace, queue) as { paused_at: number } | undefined;
        if (paused === (row !== undefined)) return null;
        if (row === undefined) pause.run(namespace, queue, now);
        else {
          resume.run(namespace, queue);
          record.run(namespace, queue, row.paused_at, now);
        }
        events.add(null, 0, now, paused ? "queue.paused" : "queue.resumed", { v: 1, namespace, queue });
        events.flush();
        return null;
      }),
  };
}

export function countReader({ db, interned }: Context): (namespace: string | null, now: number) => QueueCounts[] {
  // Each state from its own small index, and the succeeded ones as what is left of all: no row of a job is read, save
  // the running ones.
  const counts = db.prepare(
    `with counted (lane, state, jobs) as (
       select lane, 0, count(*) from job indexed by job_ready where state = 0 group by lane
       union all select lane, 1, count(*) from job indexed by job_running where state = 1 group by lane
       union all select lane, state, count(*) from job indexed by job_aside where state = 2 or state >= 4
         group by lane, state
     )
     select lane, state, jobs from counted
     union all select l.lane, 3, l.jobs - coalesce((select sum(c.jobs) from counted c where c.lane = l.lane), 0)
       from (select lane, count(*) as jobs from job indexed by job_lane group by lane) l`,
  );
  const due = db.prepare(
    "select lane, count(*) as jobs from job indexed by job_ready where state = 0 and run_at <= ? group by lane",
  );
  const paused = db.prepare("select namespace, queue, paused_at from queue");
  for (const statement of [counts, due, paused]) statement.setReturnArrays(true);

  return (namespace, now) => {
    const rows = { counted: counts.all(), due: due.all(now), paused: paused.all() } as CountRows;
    return queueCounts(rows, interned, namespace);
  };
}
