/** Jobs and their children: which blocked jobs may go on, whose cancel is to be passed on, and what running attempts use. */
import { mostUsage, type Usage } from "../../core/job/job.ts";
import { BLOCKED_PAGE } from "../family-rules.ts";
import type { Reachable, ReachableQuery, Unblockable, UnblockableJob, UnblockableQuery } from "../store.ts";
import { parseOrNull } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { ledgerBook } from "./rows.ts";
import type { SqliteVerb } from "./writer.ts";

interface BlockedRow {
  readonly no: number;
  readonly id: string;
  readonly attempt: number;
  readonly waits: string;
}

export function unblockableReader({ db }: SqliteContext): (query: UnblockableQuery) => Unblockable {
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
  /** Where the next look at all of them begins. */
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
        // The rest is looked at the next time.
        isFull = true;
        if (parents === null) place = row.no - 1;
        break;
      }
      jobs.push({ jobId: row.id, attempt: row.attempt });
    }
    return { jobs, more: parents === null ? place > 0 : isFull };
  };
}

export function childCounter({ db }: SqliteContext): (parents: readonly string[]) => number[] {
  const count = db.prepare("select count(*) as children from job indexed by job_parent where parent = ?");
  return (parents) => parents.map((id) => (count.get(id) as { children: number }).children);
}

interface ChildRow {
  readonly no: number;
  readonly id: string;
  readonly over: number;
}

export function reachableReader({ db }: SqliteContext): (query: ReachableQuery) => Reachable {
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

export function cascadeReader({ db }: SqliteContext): (limit: number) => string[] {
  const waiting = db.prepare("select j.id from cascade c cross join job j on j.no = c.job order by c.job limit ?");
  return (limit) => (waiting.all(limit) as { id: string }[]).map(({ id }) => id);
}

export function cascadedVerb({ db }: SqliteContext): SqliteVerb<string, null> {
  // Where a child was not asked, because it came with a later cancel, there is still something to pass on.
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

interface UsageCall {
  readonly jobId: string;
  readonly attempt: number;
  readonly usage: Usage;
}

interface UsingRow {
  readonly no: number;
  readonly live_usage: string | null;
  readonly policy: number;
  readonly budget: number | null;
}

export function usageVerb({ db, interned }: SqliteContext): SqliteVerb<UsageCall, boolean> {
  const running = db.prepare(
    "select no, live_usage, policy, budget from job where id = ? and attempt = ? and state = 1",
  );
  const tell = db.prepare("update job set live_usage = ? where no = ?");
  const book = ledgerBook({ db });
  function tellOne({ jobId, attempt, usage }: UsageCall): boolean {
    const row = running.get(jobId, attempt) as UsingRow | undefined;
    if (row === undefined) return false;
    const before = parseOrNull<Usage>(row.live_usage);
    const live = mostUsage(before, usage);
    tell.run(JSON.stringify(live), row.no);
    if (row.budget === null) return true;
    const ledgers = book.of(row.budget);
    ledgers.move({ budget: row.budget, policy: interned.policy(row.policy) }, before, live);
    book.write(ledgers);
    return true;
  }
  // Before reports, as renewals: what was used by a run that ends in the same moment is not lost.
  return { order: -1, run: (items) => items.map(tellOne) };
}
