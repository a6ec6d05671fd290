/** Parents and children: which blocked jobs may continue, and whose cancel has yet to reach its children. */
import { BLOCKED_PAGE } from "../family-rules.ts";
import type { ChildStore, ReachableJob, UnblockableJob } from "../store.ts";
import { parseOrNull } from "../stored-job.ts";
import { texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";

export function childStore({ db, sql }: PostgresContext): ChildStore {
  const waited = `json_array_elements_text(w.waits::json) as want (id)
    join $s.submission cb on cb.id = want.id join $s.job c on c.no = cb.job`;
  const fields = "select w.job, b.id, w.attempt";
  const isOver = `not exists (select from ${waited} where c.state + 0 < 3)`;
  const ofThese = sql(
    "unblockable",
    `${fields} from $s.submission b join $s.blocked w on w.job = b.job join $s.job j on j.no = w.job
     where b.id = any ($1::text[]) and j.state + 0 = 2 and ${isOver} limit $2`,
  );
  const ofAll = sql(
    "unblockable_all",
    `${fields} from (select * from $s.blocked where job > $1 order by job limit ${BLOCKED_PAGE}) w
     join $s.submission b on b.job = w.job join $s.job j on j.no = w.job
     where j.state + 0 = 2 and ${isOver} order by w.job limit $2`,
  );
  const pageEnd = sql(
    "unblockable_end",
    `select max(job), count(*)::int from
       (select job from $s.blocked where job > $1 order by job limit ${BLOCKED_PAGE}) checked`,
  );
  const counts = sql(
    "child_counts",
    `select (select count(*)::int from $s.submission c where c.parent = want.id and c.parent is not null)
     from unnest($1::text[]) with ordinality as want (id, place) order by want.place`,
  );
  const failures = sql(
    "last_failures",
    `select (select coalesce(
         (select failure from $s.attempt where job = b.job order by attempt desc limit 1),
         (select failure from $s.run where job = b.job)) from $s.submission b where b.id = want.id)
     from unnest($1::text[]) with ordinality as want (id, place) order by want.place`,
  );
  const children = sql(
    "reachable",
    `select b.job, b.id, j.state + 0 >= 3 from $s.submission b join $s.job j on j.no = b.job
     where b.parent = $1 and b.parent is not null and b.job > $2 and case
       when j.state + 0 < 3 then j.cancel_requested_at is null
       else exists (select from $s.submission g where g.parent = b.id and g.parent is not null)
         and not exists (select from $s.cascade c where c.job = j.no)
       end
     order by b.job limit $3`,
  );
  const waiting = sql(
    "cascades",
    "select b.id from $s.cascade c join $s.submission b on b.job = c.job order by c.job limit $1",
  );
  // Cancels and this lock exclude each other: the second one sees what the first did.
  const lock = sql(
    "cascaded_lock",
    "select j.no from $s.submission b join $s.job j on j.no = b.job where b.id = $1 for share of j",
  );
  // If a child was not reached, because it was stored with a later cancel, the cascade stays.
  const forget = sql(
    "cascaded",
    `delete from $s.cascade where job = $1 and not exists (
       select from $s.submission b join $s.job j on j.no = b.job
       where b.parent = $2 and b.parent is not null and j.state + 0 < 3 and j.cancel_requested_at is null)`,
  );
  /** Where the next check of all blocked jobs starts. */
  let place = 0;

  async function checkNext(limit: number): Promise<PgRow[]> {
    const from = place;
    const [[end, checked] = []] = await db.read(pageEnd, [from]);
    const rows = await db.read(ofAll, [from, limit]);
    if (rows.length === limit) place = rows.at(-1)?.[0] as number;
    else place = checked === BLOCKED_PAGE ? (end as number) : 0;
    return rows;
  }

  return {
    async unblockable({ parents, limit }) {
      const rows = parents === null ? await checkNext(limit) : await db.read(ofThese, [texts(parents), limit]);
      const jobs = rows.map(([, jobId, attempt]) => ({ jobId, attempt }) as UnblockableJob);
      return { jobs, more: parents === null ? place > 0 : rows.length === limit };
    },
    counts: async (parents) => (await db.read(counts, [texts(parents)])).map(([count]) => count as number),
    failures: async (ids) =>
      (await db.read(failures, [texts(ids)])).map(([text]) => parseOrNull(text as string | null)),
    async reachable({ parentId, after, limit }) {
      const rows = await db.read(children, [parentId, after ?? 0, limit]);
      const jobs = rows.map(([, jobId, isOver]) => ({ jobId, isOver }) as ReachableJob);
      return { jobs, next: rows.length < limit ? null : (rows.at(-1)?.[0] as number) };
    },
    cascades: async (limit) => (await db.read(waiting, [limit])).map(([id]) => id as string),
    async cascaded(jobId) {
      await db.transaction(
        async (connection) => {
          const [[no] = []] = await connection.ask(lock, [jobId]);
          if (no !== undefined) await connection.ask(forget, [no, jobId]);
        },
        { repeat: true },
      );
    },
  };
}
