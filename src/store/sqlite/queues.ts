/** Queues: counting their jobs, and pausing them. A queue exists when a job names it. */
import { type EventLoop, nextTurn } from "../../lib/clock.ts";
import type { Lane } from "../lane.ts";
import { type CountedQueues, type CountRows, keptCounts, queueCounts } from "../queue-counts.ts";
import type { QueueCounts, QueueStore } from "../store.ts";
import { STATE_CODES } from "../stored-job.ts";
import type { SqliteCalls } from "./calls.ts";
import type { SqliteContext } from "./context.ts";
import { laneUseReader } from "./lanes.ts";
import type { SqliteVerb } from "./writer.ts";

export function queueStore(
  context: SqliteContext,
  calls: SqliteCalls,
  { countAtOnce, loop }: { readonly countAtOnce: number; readonly loop: Pick<EventLoop, "turn"> },
): QueueStore {
  const count = countReader(context, countAtOnce, loop);
  const counts = keptCounts((now) => calls.inSlices((slice) => count(now, slice)), countAtOnce);
  const [pause, laneUse] = [pauseVerb(context), laneUseReader(context)];
  return {
    counts: counts.of,
    async setPaused(namespace, queue, paused, now, by = null) {
      await calls.one(pause, { namespace, queue, paused, now, by });
      counts.forget();
    },
    laneUse: (query) => calls.answer(() => laneUse(query)),
  };
}

interface PauseCall {
  readonly namespace: string;
  readonly queue: string;
  readonly paused: boolean;
  readonly now: number;
  readonly by: string | null;
}

function pauseVerb({ db, events }: SqliteContext): SqliteVerb<PauseCall, null> {
  const since = db.prepare("select paused_at from queue where namespace = ? and queue = ?");
  const pause = db.prepare("insert into queue (namespace, queue, paused_at) values (?, ?, ?)");
  const resume = db.prepare("delete from queue where namespace = ? and queue = ?");
  const record = db.prepare("insert or replace into past_pause (namespace, queue, from_at, to_at) values (?, ?, ?, ?)");
  return {
    order: 6,
    run: (items) =>
      items.map(({ namespace, queue, paused, now, by }) => {
        const row = since.get(namespace, queue) as { paused_at: number } | undefined;
        if (paused === (row !== undefined)) return null;
        if (row === undefined) pause.run(namespace, queue, now);
        else {
          resume.run(namespace, queue);
          record.run(namespace, queue, row.paused_at, now);
        }
        events.add(null, 0, now, paused ? "queue.paused" : "queue.resumed", { v: 1, namespace, queue, by });
        events.flush();
        return null;
      }),
  };
}

/** Counts in slices, one per turn of the event loop, because SQLite blocks the process. A count in a single turn is a
 *  consistent snapshot; in longer counts, jobs that change state meanwhile may be counted twice or not at all. */
function countReader({ db, interned }: SqliteContext, atOnce: number, loop: Pick<EventLoop, "turn">) {
  // Each state is counted in its own small index, and succeeded jobs are the difference to the total: no row of a job
  // is read except of running ones.
  const readyEnd = db.prepare(
    `select lane, priority, run_at from job indexed by job_ready
     where state = 0 and (lane, priority, run_at) > (?, ?, ?) order by lane, priority, run_at limit 1 offset ?`,
  );
  const ready = db.prepare(
    `select lane, count(*), sum(run_at <= ?) from job indexed by job_ready
     where state = 0 and (lane, priority, run_at) > (?, ?, ?) and (lane, priority, run_at) <= (?, ?, ?) group by lane`,
  );
  const running = db.prepare("select lane, count(*) from job indexed by job_running where state = 1 group by lane");
  const aside = ASIDE.map((code) => {
    const from = `from job indexed by job_aside where state = ${code} and (state = 2 or state >= 4)`;
    return {
      code,
      end: db.prepare(`select no ${from} and no > ? order by no limit 1 offset ?`),
      count: db.prepare(`select lane, count(*) ${from} and no > ? and no <= ? group by lane`),
    };
  });
  const ofLane = db.prepare(
    `select count(*), max(no) from (select no from job indexed by job_lane where lane = ? and no > ? order by no limit ?)`,
  );
  const lanes = db.prepare("select no from lane order by no");
  const paused = db.prepare("select namespace, queue, paused_at from queue");
  const all = [readyEnd, ready, running, ...aside.flatMap(({ end, count }) => [end, count]), ofLane, lanes, paused];
  for (const statement of all) statement.setReturnArrays(true);

  /** Yields the number of entries read since the last yield. */
  function* count(now: number): Generator<number, QueueCounts[]> {
    // Read in the same turn as its count: the lane may be deleted in the next.
    const meanings = new Map<number, Lane>();
    const counted: [number, number, number][] = [];
    const due: [number, number][] = [];
    const others = new Map<number, number>();
    function* add(lane: number, code: number, jobs: number): Generator<number, void> {
      counted.push([lane, code, jobs]);
      meanings.set(lane, interned.lane(lane));
      others.set(lane, (others.get(lane) ?? 0) + jobs);
      yield jobs;
    }
    for (let from: CountPosition | null = [0, -1, -1]; from !== null; ) {
      const end = readyEnd.get(...from, atOnce) as CountPosition | undefined;
      for (const [lane, jobs, dueNow] of ready.all(now, ...from, ...(end ?? LAST)) as [number, number, number][]) {
        due.push([lane, dueNow]);
        yield* add(lane, STATE_CODES.queued, jobs);
      }
      from = end ?? null;
    }
    for (const [lane, jobs] of running.all() as [number, number][]) yield* add(lane, STATE_CODES.running, jobs);
    for (const { code, end, count } of aside) {
      for (let from: number | null = 0; from !== null; ) {
        const [last = null] = (end.get(from, atOnce) ?? []) as [number?];
        for (const [lane, jobs] of count.all(from, last ?? Number.MAX_SAFE_INTEGER) as [number, number][]) {
          yield* add(lane, code, jobs);
        }
        from = last;
      }
    }
    for (const [lane] of lanes.all() as [number][]) {
      let [total, from] = [0, 0];
      for (let jobs = atOnce; jobs === atOnce; ) {
        const [some, last] = ofLane.get(lane, from, atOnce) as [number, number | null];
        jobs = some;
        total += some;
        from = last ?? from;
        yield some + LANE_ENTRIES;
      }
      const succeeded = total - (others.get(lane) ?? 0);
      if (total === 0) continue;
      counted.push([lane, STATE_CODES.succeeded, Math.max(0, succeeded)]);
      meanings.set(lane, meanings.get(lane) ?? interned.lane(lane));
    }
    const rows = { counted, due, paused: paused.all() as CountRows["paused"] };
    return queueCounts(rows, { lane: (no) => meanings.get(no) as Lane });
  }

  return async (now: number, answer: <T>(give: () => T) => Promise<T>): Promise<CountedQueues> => {
    let steps: Generator<number, QueueCounts[]> | null = null;
    let entries = 0;
    function oneTurn(): QueueCounts[] | null {
      steps ??= count(now);
      db.exec("begin");
      try {
        for (let left = atOnce; left > 0; ) {
          const { value, done } = steps.next();
          if (done) return value;
          left -= value;
          entries += value;
        }
        return null;
      } catch (error) {
        // A retry starts again.
        steps = null;
        entries = 0;
        throw error;
      } finally {
        db.exec("commit");
      }
    }
    for (;;) {
      const queues = await answer(oneTurn);
      if (queues !== null) return { queues, entries };
      await nextTurn(loop); // yield to other work
    }
  };
}

/** Lane, priority and due time: a position in the index of waiting jobs. */
type CountPosition = [number, number, number];
const LAST: CountPosition = [Number.MAX_SAFE_INTEGER, 0, 0];
/** Blocked, failed, cancelled. */
const ASIDE = [2, 4, 5] as const;
/** A lane costs as much as this many entries, even if it is empty. */
const LANE_ENTRIES = 20;
