/** Queues: counting their jobs, and pausing them. A queue exists when a job names it. */
import { keptCounts, queueCounts } from "../queue-counts.ts";
import type { QueueStore } from "../store.ts";
import type { PostgresContext } from "./context.ts";
import { LONG } from "./driver.ts";
import { writeEngineEvents } from "./events.ts";
import { laneUseReader } from "./lanes.ts";

export function queueStore(context: PostgresContext): QueueStore {
  const [counts, pause] = [countReader(context), pauseVerb(context)];
  return {
    counts: counts.of,
    async setPaused(namespace, queue, paused, now, by = null) {
      await pause(namespace, queue, paused, now, by);
      counts.forget();
    },
    laneUse: laneUseReader(context),
  };
}

function pauseVerb({ db, sql, wrote }: PostgresContext) {
  const pause = sql(
    "pause",
    `with paused as (
       insert into $s.queue (namespace, queue, paused_at) values ($1, $2, $3::bigint) on conflict do nothing returning 1
     ), ${writeEngineEvents("paused", "$3", "'queue.paused'", "$4::text")} select 1 where false`,
  );
  const resume = sql(
    "resume",
    `with resumed as (delete from $s.queue where namespace = $1 and queue = $2 returning paused_at),
     kept as (
       insert into $s.past_pause (namespace, queue, from_at, to_at) select $1, $2, paused_at, $3::bigint from resumed
       on conflict (namespace, queue, from_at) do update set to_at = excluded.to_at
     ), ${writeEngineEvents("resumed", "$3", "'queue.resumed'", "$4::text")} select 1 where false`,
  );
  return async (namespace: string, queue: string, paused: boolean, now: number, by: string | null): Promise<void> => {
    const values = [namespace, queue, now, JSON.stringify({ v: 1, namespace, queue, by })];
    await db.write(paused ? pause : resume, values, { repeat: true });
    wrote();
  };
}

function countReader({ db, sql, interned }: PostgresContext) {
  // Each state is counted in its own small index, and succeeded jobs are the difference to the total.
  const counts = sql(
    "counts",
    `with counted (lane, state, jobs) as materialized (
       select lane, 0, count(*) from $s.job where state = 0 group by lane
       union all select lane, 1, count(*) from $s.job where state = 1 group by lane
       union all select lane, state, count(*) from $s.job where state = 2 or state >= 4 group by lane, state
     ),
     others as materialized (select lane, sum(jobs) as jobs from counted group by lane)
     select lane, state, jobs::bigint from counted
     union all select l.lane, 3, l.jobs::bigint - coalesce((select o.jobs from others o where o.lane = l.lane), 0)::bigint
       from (select lane, count(*) as jobs from $s.submission group by lane) l`,
    LONG,
  );
  const due = sql(
    "counts_due",
    "select lane, count(*) from $s.job where state = 0 and run_at <= $1 group by lane",
    LONG,
  );
  const paused = sql("counts_paused", "select namespace, queue, paused_at from $s.queue");

  return keptCounts(async (now) => {
    const [counted, dueNow, pausedNow] = await Promise.all([
      db.read(counts, [], { aside: true }),
      db.read(due, [now], { aside: true }),
      db.read(paused),
    ]);
    await interned.learn(new Set([...counted, ...dueNow].map(([lane]) => lane as number)), [], []);
    const entries = counted.reduce((sum, [, , jobs]) => sum + (jobs as number), 0);
    return { queues: queueCounts({ counted, due: dueNow, paused: pausedNow }, interned), entries };
  });
}
