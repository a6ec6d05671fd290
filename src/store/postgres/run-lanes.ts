/** Lanes of single runs, which are deleted with the last job that refers to them. A transaction that stores such a job
 *  locks its lane until the commit and records the job beside it: a pruner then either finds the job, or was first, and
 *  the lane is stored again. Jobs of other lanes are not affected. */
import { isRunQueue } from "../../core/names.ts";
import type { InsertAnswer, NewJob } from "../store.ts";
import { ints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { InsertItem, RunStatement } from "./insert.ts";

/** How often a lane is stored again if it is deleted before it is locked. */
const TRIES = 5;

export function hasRunQueues(jobs: readonly Pick<NewJob, "queue">[]): boolean {
  return jobs.some(({ queue }) => isRunQueue(queue));
}

export function runLaneHolder({ sql, interned }: PostgresContext) {
  const hold = sql("run_lanes_hold", "select no from $s.lane where no = any ($1::int[]) for key share");
  const note = sql(
    "run_lanes_note",
    "insert into $s.run_job (id, lane) select * from unnest($1::text[], $2::int[]) on conflict do nothing",
  );

  /** Calls `insert` with the lanes stored. Within a transaction it must call `held` around the statement that stores
   *  the jobs; null means that a lane was deleted meanwhile. */
  async function withLanes<Answers>(
    items: readonly InsertItem[],
    insert: () => Promise<Answers | null>,
  ): Promise<Answers> {
    const lanes = items.map(({ job }) => job).filter(({ queue }) => isRunQueue(queue));
    for (let tries = 0; tries < TRIES; tries++) {
      if (lanes.length > 0) await interned.storeRunLanes(lanes, items[0]?.now ?? 0);
      const answers = await insert();
      if (answers !== null) return answers;
    }
    throw new Error("the lane of a run was deleted repeatedly during the call; repeat the call");
  }

  async function held(
    items: readonly InsertItem[],
    ask: RunStatement,
    store: () => Promise<InsertAnswer[]>,
  ): Promise<InsertAnswer[] | null> {
    const lanes = new Map<InsertItem, number>();
    for (const item of items) {
      if (!isRunQueue(item.job.queue)) continue;
      const no = interned.laneNoOrNull(item.job);
      if (no === null) return null; // deleted before it was cached
      lanes.set(item, no);
    }
    if (lanes.size === 0) return store();
    const numbers = new Set(lanes.values());
    if ((await ask(hold, [ints([...numbers])])).length < numbers.size) return null;
    const answers = await store();
    const stored = items.flatMap((item, i) => {
      const lane = lanes.get(item);
      return lane === undefined || answers[i]?.status !== "inserted" ? [] : [{ id: item.job.id, lane }];
    });
    if (stored.length > 0) {
      await ask(note, [texts(stored.map(({ id }) => id)), ints(stored.map(({ lane }) => lane))]);
    }
    return answers;
  }

  return { withLanes, held };
}

/** Deletes up to this many lanes of single runs that no job refers to any more. */
export function runLanePruner({ db, sql }: PostgresContext): (limit: number) => Promise<void> {
  const UNUSED = "not exists (select from $s.run_job r where r.lane = l.no)";
  const unused = sql(
    "run_lanes_unused",
    `select l.no from $s.lane l where l.queue ~ '^run-[0-9a-f]{16}$' and ${UNUSED} order by l.no limit $1`,
  );
  // Locked first, then checked again: a transaction that locked a lane has committed its job by then.
  const lock = sql(
    "run_lanes_lock",
    "select no from $s.lane where no = any ($1::int[]) order by no for update skip locked",
  );
  const drop = sql("run_lanes_drop", `delete from $s.lane l where l.no = any ($1::int[]) and ${UNUSED}`);
  return async (limit) => {
    const found = await db.read(unused, [limit]);
    const work = async ({ ask }: PgConnection) => {
      const mine = await ask(lock, [ints(found.map(([no]) => no as number))]);
      await ask(drop, [ints(mine.map(([no]) => no as number))]);
    };
    if (found.length > 0) await db.transaction(work, { repeat: true });
  };
}
