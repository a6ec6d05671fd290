/** Parents and children: which blocked jobs may continue, and whose cancel has yet to reach its children. */
import type { Failure } from "../../core/decision/failure.ts";
import { BLOCKED_PAGE } from "../family-rules.ts";
import type { ChildStore, Reachable, ReachableQuery, Unblockable, UnblockableJob, UnblockableQuery } from "../store.ts";
import { parseOrNull } from "../stored-job.ts";
import type { SqliteCalls } from "./calls.ts";
import type { SqliteContext } from "./context.ts";
import type { SqliteVerb } from "./writer.ts";

export function childStore(context: SqliteContext, calls: SqliteCalls): ChildStore {
  const [unblockable, reachable] = [unblockableReader(context), reachableReader(context)];
  const [counts, failureOf] = [childCounter(context), failureReader(context)];
  const [cascades, cascaded] = [cascadeReader(context), cascadedVerb(context)];
  return {
    unblockable: (query) => calls.answer(() => unblockable(query)),
    counts: (parents) => calls.answer(() => counts(parents)),
    failures: (ids) => calls.answer(() => ids.map(failureOf)),
    reachable: (query) => calls.answer(() => reachable(query)),
    cascades: (limit) => calls.answer(() => cascades(limit)),
    async cascaded(jobId) {
      await calls.one(cascaded, jobId);
    },
  };
}

interface BlockedRow {
  readonly no: number;
  readonly id: string;
  readonly attempt: number;
  readonly waits: string;
}

function unblockableReader({ db }: SqliteContext): (query: UnblockableQuery) => Unblockable {
  const fields = "select b.job as no, j.id, b.attempt, b.waits from";
  const ofThese = db.prepare(
    `${fields} json_each(?) as want cross join job j on j.id = want.value cross join blocked b on b.job = j.no
     where j.state = 2`,
  );
  const ofAll = db.prepare(
    `${fields} blocked b cross join job j on j.no = b.job where b.job > ? and j.state = 2 order by b.job limit ${BLOCKED_PAGE}`,
  );
  const open = db.prepare(
    "select 1 from json_each(?) as want cross join job c on c.id = want.value where c.state < 3 limit 1",
  );
  /** Where the next check of all blocked jobs starts. */
  let place = 0;

  function nextRows(): BlockedRow[] {
    const rows = ofAll.all(place) as BlockedRow[];
    place = rows.length < BLOCKED_PAGE ? 0 : (rows.at(-1) as BlockedRow).no;
    return rows;
  }

  return ({ parents, limit }) => {
    const jobs: UnblockableJob[] = [];
    let isFull = false;
    for (const row of parents === null ? nextRows() : (ofThese.all(JSON.stringify(parents)) as BlockedRow[])) {
      if (open.get(row.waits) !== undefined) continue;
      if (jobs.length === limit) {
        // The remaining ones are checked the next time.
        isFull = true;
        if (parents === null) place = row.no - 1;
        break;
      }
      jobs.push({ jobId: row.id, attempt: row.attempt });
    }
    return { jobs, more: parents === null ? place > 0 : isFull };
  };
}

function childCounter({ db }: SqliteContext): (parents: readonly string[]) => number[] {
  const count = db.prepare("select count(*) as children from job indexed by job_parent where parent = ?");
  return (parents) => parents.map((id) => (count.get(id) as { children: number }).children);
}

function failureReader({ db }: SqliteContext): (id: string) => Failure | null {
  // A run has no attempts.
  const last = db.prepare(
    `select coalesce((select failure from run where run.job = j.no),
       (select failure from attempt a where a.job = j.no order by attempt desc limit 1)) as failure from job j where id = ?`,
  );
  return (id) => parseOrNull((last.get(id) as { failure: string | null } | undefined)?.failure ?? null);
}

interface ChildRow {
  readonly no: number;
  readonly id: string;
  readonly over: number;
}

function reachableReader({ db }: SqliteContext): (query: ReachableQuery) => Reachable {
  const children = db.prepare(
    `select no, id, state >= 3 as over from job indexed by job_parent where parent = ? and no > ? and case
       when state < 3 then cancel_requested_at is null
       else exists (select 1 from job g indexed by job_parent where g.parent = job.id)
         and not exists (select 1 from cascade where cascade.job = job.no)
       end
     order by no limit ?`,
  );
  return ({ parentId, after, limit }) => {
    const rows = children.all(parentId, after ?? 0, limit) as ChildRow[];
    const jobs = rows.map(({ id, over }) => ({ jobId: id, isOver: over === 1 }));
    return { jobs, next: rows.length < limit ? null : (rows.at(-1) as ChildRow).no };
  };
}

function cascadeReader({ db }: SqliteContext): (limit: number) => string[] {
  const waiting = db.prepare("select j.id from cascade c cross join job j on j.no = c.job order by c.job limit ?");
  return (limit) => (waiting.all(limit) as { id: string }[]).map(({ id }) => id);
}

function cascadedVerb({ db }: SqliteContext): SqliteVerb<string, null> {
  // If a child was not reached, because it was stored with a later cancel, the cascade stays.
  const forget = db.prepare(
    `delete from cascade where job = (select no from job where id = ?1) and not exists (
       select 1 from job indexed by job_parent where parent = ?1 and state < 3 and cancel_requested_at is null)`,
  );
  const one = (id: string) => {
    forget.run(id);
    return null;
  };
  return { order: 3, run: (ids) => ids.map(one) };
}
