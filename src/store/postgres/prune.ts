/** Deletes ended jobs and their data, and then interned names that no row refers to. */
import { JOBS_PRUNED, jobsPruned } from "../engine-events.ts";
import { MAX_CANDIDATES, NameSweep } from "../interned-names.ts";
import { PAGE, PRUNED_STATES, type PrunedState, PrunePlaces, type PruneRound } from "../prune-places.ts";
import type { PruneAnswer, PruneQuery } from "../store.ts";
import { STATE_CODES } from "../stored-job.ts";
import { bigints, ints, smallints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import { LONG, type PgRow } from "./driver.ts";
import { writeEngineEvents } from "./events.ts";
import { playbookSweeper } from "./prune-playbooks.ts";
import { runPruner } from "./prune-runs.ts";
import { runLanePruner } from "./run-lanes.ts";

// Deletes jobs that ended long enough ago, oldest first, a bounded number at a time. A job with a submit key leaves a
// stub, so that the key stays taken until its window ends. A child leaves none: only its parent uses its key, and a
// redriven parent needs a child that it can wait for.

const BY_JOB = ["event", "attempt", "log_chunk", "late_report", "tag", "blocked", "cascade", "hold", "submission"];

export function pruneVerb(context: PostgresContext) {
  const { db, sql: statement, interned } = context;
  const sql = (name: string, text: string) => statement(name, text, LONG);
  // Kept: children of a parent that has not ended, which may still read them, and children with a cancel in progress,
  // which finds them by their parent. The same for jobs below an ended child, as long as a job above may be cancelled,
  // or was just now.
  const above = `with recursive above (id) as (
      select b.parent union all
      select pb.parent from above join $s.submission pb on pb.id = above.id where pb.parent is not null
    ) select from above join $s.submission pb on pb.id = above.id join $s.job p on p.no = pb.job
    where p.state + 0 < 3 or exists (select from $s.cascade c where c.job = p.no)`;
  const isBetween = `b.parent is not null
    and exists (select from $s.submission c where c.parent = b.id and c.parent is not null)`;
  // Also kept: jobs between an attempt and a budget that it holds part of.
  const nested = "select from $s.budget l join $s.budget a on a.job = l.above where l.job = j.budget";
  // A step goes with its run: a failed run may be redriven, and needs what its steps have done.
  const kept = `j.run is not null or (b.parent is not null and exists (
      select from $s.submission pb join $s.job p on p.no = pb.job where pb.id = b.parent and p.state + 0 < 3
    )) or exists (select from $s.cascade c where c.job = j.no) or (${isBetween} and (exists (${above}) or exists (${nested})))`;
  const fields = `select j.no, b.id, j.lane, j.state, j.chapter, b.submitted_at, j.finished_at, b.key, ${kept},
      b.parent, ${isBetween}, j.attempt
    from $s.job j join $s.submission b on b.job = j.no`;
  // Most jobs have succeeded, so those are scanned by number; the others have an index.
  const succeeded = sql("prune_done", `${fields} where j.state + 0 = $1 and j.no > $2 order by j.no limit $3`);
  const aside = sql(
    "prune_aside",
    `${fields} where j.state = $1 and (j.state = 2 or j.state >= 4) and j.no > $2 order by j.no limit $3`,
  );
  // A redrive of a parent either waits for this, or was first, and its children stay. Locked before the children, as
  // everywhere, and never waited for here.
  const lockParents = sql(
    "prune_parents",
    `select b.id from $s.submission b join $s.job j on j.no = b.job where b.id = any ($1::text[]) and j.state + 0 >= 3
     order by j.no for share of j skip locked`,
  );
  const ancestors = sql(
    "prune_above",
    `with recursive above (parent, id) as (
       select id, id from $s.submission where id = any ($1::text[]) union all
       select a.parent, b.parent from above a join $s.submission b on b.id = a.id where b.parent is not null
     ) select parent, id from above`,
  );
  const there = sql("prune_there", "select id from $s.submission where id = any ($1::text[])");
  // Skipped if redriven meanwhile, or taken by another pruner.
  const lock = sql(
    "prune_lock",
    `select no from $s.job where no = any ($1::bigint[]) and state + 0 = $2 and finished_at < $3
     order by no for update skip locked`,
  );
  // In the order in which submits lock them.
  const lockKeys = sql(
    "prune_keys",
    `select 1 from unnest($1::text[], $2::text[]) as m (namespace, key)
     join $s.submit_key k on k.namespace = m.namespace and k.key = m.key order by k.namespace, k.key for update of k`,
  );
  const stub = sql(
    "prune_stub",
    `update $s.submit_key k set state = m.state, chapter = m.chapter, until = m.until
     from unnest($1::text[], $2::text[], $3::text[], $4::smallint[], $5::int[], $6::bigint[])
       as m (namespace, key, id, state, chapter, until)
     where k.namespace = m.namespace and k.key = m.key and k.id = m.id`,
  );
  const dropKeys = sql(
    "prune_child_keys",
    `delete from $s.submit_key k using unnest($1::text[], $2::text[], $3::text[]) as m (namespace, key, id)
     where k.namespace = m.namespace and k.key = m.key and k.id = m.id`,
  );
  const dropStubs = sql(
    "prune_stubs",
    `delete from $s.submit_key where (namespace, key) in (
       select namespace, key from $s.submit_key where until is not null and until <= $1
       order by namespace, key limit 1000 for update skip locked)`,
  );
  const deletes = [
    // Before the capacity held by jobs, as a claim locks them.
    sql(
      "prune_budget",
      "delete from $s.budget where job in (select job from $s.budget where job = any ($1::bigint[]) order by job for update)",
    ),
    ...BY_JOB.map((table) => sql(`prune_${table}`, `delete from $s.${table} where job = any ($1::bigint[])`)),
    sql("prune_job", "delete from $s.job where no = any ($1::bigint[])"),
  ];
  const runs = runPruner(context, dropJobs);
  const sweepPlaybooks = playbookSweeper(context);
  const dropRuns = sql("prune_runs", "delete from $s.run_job where id = any ($1::text[])");
  const dropRunLanes = runLanePruner(context);
  const sweepNames = nameSweeper(context);
  const oldest = "(select submitted_at from $s.submission order by job limit 1)";
  // Job rows refer to their session, whose name their events show: a session is hidden at once, but its row stays until
  // all jobs that it may have run are deleted. By number, not by time: if the clock was set back, a job may be newer
  // than the end of the session that ran it.
  const dropSessions = sql(
    "prune_sessions",
    `delete from $s.session where reaped = 2
     and last_job < coalesce((select min(no) from $s.job), last_job + 1)`,
  );
  const upkeep = [
    sql("prune_claims", "delete from $s.claim where at < $1"),
    // Of hosts that no longer claim.
    sql(
      "prune_holds",
      `delete from $s.hold where $1::bigint is not null and job in (
         select h.job from $s.hold h join $s.job j on j.no = h.job
         where j.state + 0 <> 1 or j.attempt <> h.attempt limit 1000)`,
    ),
    // Computing how long a waiting job has waited needs every pause since its submit.
    sql("prune_pauses", `delete from $s.past_pause where to_at < $1 and to_at < coalesce(${oldest}, to_at + 1)`),
    sql(
      "prune_retire",
      `update $s.session set reaped = 2, last_job = (select coalesce(max(no), 0) from $s.job)
       where reaped = 1 and ended_at < $1`,
    ),
    sql(
      "prune_events",
      `delete from $s.event where seq in
         (select seq from $s.event where job is null and at < $1 order by at limit 1000)`,
    ),
  ];

  const record = sql(
    "prune_record",
    `with one as (select 1), ${writeEngineEvents("one", "$1::bigint", "$2::text", "$3::text")} select 1`,
  );

  const places = new PrunePlaces();

  async function pruneOne(query: PruneQuery): Promise<PruneAnswer> {
    const { now, endedBefore, limit, sessionsEndedBefore } = query;
    const ids: string[] = [];
    const round = places.of(query);
    round.begin();
    for (const state of PRUNED_STATES) {
      const before = endedBefore[state];
      if (before === undefined || ids.length >= limit) continue;
      const rows = await endedBeforeRows(state, before, limit - ids.length, round);
      if (rows.length === 0) continue;
      await interned.learn(new Set(rows.map((row) => row[2] as number)), [], []);
      const removed = await db.transaction((connection) => remove(connection, rows, state, before, query), {
        repeat: true,
      });
      ids.push(...removed);
    }
    await db.write(dropStubs, [now], { repeat: true });
    const steps = await runs.prune(Math.max(1, limit - ids.length));
    ids.push(...steps.ids);
    for (const each of upkeep) await db.write(each, [sessionsEndedBefore], { repeat: true });
    await db.write(dropSessions, [], { repeat: true });
    await dropRunLanes(limit);
    // Names are unused only after all jobs that had them are deleted.
    const isPart = round.end() || steps.more;
    const more =
      isPart || (await sweepNames(query.namesUnusedBefore)) || (await sweepPlaybooks(query.namesUnusedBefore));
    if (!more) await interned.dropLanes();
    return { jobs: ids.length, ids, more };
  }

  async function dropJobs({ ask }: PgConnection, numbers: readonly number[], ids: readonly string[]): Promise<void> {
    for (const each of deletes) await ask(each, [bigints(numbers)]);
    await ask(dropRuns, [texts(ids)]);
  }

  async function remove(
    connection: PgConnection,
    found: readonly PgRow[],
    state: PrunedState,
    before: number,
    { keyWindowMs, now, by }: PruneQuery,
  ): Promise<string[]> {
    const free = await withoutHeld(connection, found);
    if (free.length === 0) return [];
    const wanted = bigints(free.map((row) => row[0] as number));
    const mine = new Set(
      (await connection.ask(lock, [wanted, STATE_CODES[state], before])).map(([no]) => no as number),
    );
    const rows = free.filter((row) => mine.has(row[0] as number));
    if (rows.length === 0) return [];
    const keyed = rows.filter((row) => row[7] !== null);
    if (keyed.length > 0) {
      await connection.ask(lockKeys, namesOf(keyed));
      const children = keyed.filter(isChild);
      if (children.length > 0) await connection.ask(dropKeys, [...namesOf(children), idsOf(children)]);
      const others = keyed.filter((row) => !isChild(row));
      if (others.length > 0) {
        await connection.ask(stub, [
          ...[...namesOf(others), idsOf(others)],
          smallints(others.map((row) => row[3] as number)),
          ints(others.map((row) => row[4] as number)),
          bigints(others.map((row) => (row[6] as number) + keyWindowMs)),
        ]);
      }
    }
    const unstarted = rows.filter((row) => row[11] === 0); // a run has no attempts
    if (unstarted.length > 0) {
      await runs.forget(
        connection,
        unstarted.map((row) => row[0] as number),
      );
    }
    await dropJobs(
      connection,
      [...mine],
      rows.map((row) => row[1] as string),
    );
    if (by !== undefined) {
      await connection.ask(record, [now, JOBS_PRUNED, JSON.stringify(jobsPruned(by, state, rows.length))]);
    }
    return rows.map((row) => row[1] as string);
  }

  /** Excludes children whose parents exist and may still read them: they may have been redriven since. For a child with
   *  children, the same applies to all jobs above it. */
  async function withoutHeld(connection: PgConnection, found: readonly PgRow[]): Promise<readonly PgRow[]> {
    const parents = new Set(found.filter(isChild).map((row) => row[9] as string));
    if (parents.size === 0) return found;
    const lines = await linesAbove(connection, found);
    const open = new Set([...parents, ...[...lines.values()].flat()]);
    for (const [id] of await connection.ask(lockParents, [texts([...open])])) open.delete(id as string);
    if (open.size === 0) return found;
    const holding = new Set((await connection.ask(there, [texts([...open])])).map(([id]) => id));
    const isHeld = (row: PgRow) =>
      holding.has(row[9] as string) ||
      (isBetweenRow(row) && lines.get(row[9] as string)?.some((id) => holding.has(id)));
    return found.filter((row) => !isHeld(row));
  }

  /** For rows that have children: the parent and all jobs above, by parent. Ancestry never changes. */
  async function linesAbove(connection: PgConnection, found: readonly PgRow[]): Promise<Map<string, string[]>> {
    const parents = new Set(found.filter(isBetweenRow).map((row) => row[9] as string));
    const lines = new Map<string, string[]>();
    if (parents.size === 0) return lines;
    for (const [parent, id] of await connection.ask(ancestors, [texts([...parents])])) {
      lines.set(parent as string, [...(lines.get(parent as string) ?? []), id as string]);
    }
    return lines;
  }

  const isChild = (row: PgRow) => row[9] !== null;
  const isBetweenRow = (row: PgRow) => row[10] === true;
  const idsOf = (rows: readonly PgRow[]) => texts(rows.map((row) => row[1] as string));
  const namesOf = (rows: readonly PgRow[]) => [
    texts(rows.map((row) => interned.lane(row[2] as number).namespace)),
    texts(rows.map((row) => row[7] as string)),
  ];

  /** Jobs are numbered in submit order and none ends before its submit: the scan stops at a page whose jobs are all too
   *  young. At a page, not at the first such job: it may have been submitted while the clock was wrong. */
  async function endedBeforeRows(
    state: PrunedState,
    before: number,
    limit: number,
    round: PruneRound,
  ): Promise<PgRow[]> {
    const found: PgRow[] = [];
    const query = state === "succeeded" ? succeeded : aside;
    for (let after = round.after(state); after !== null; after = round.after(state)) {
      const page = await db.read(query, [STATE_CODES[state], after, PAGE]);
      for (const row of page) {
        if ((row[6] as number) < before && row[8] === false) found.push(row);
        if (found.length < limit) continue;
        round.scanned(state, row[0] as number);
        return found;
      }
      if (page.length < PAGE || page.every((row) => (row[5] as number) >= before)) round.done(state);
      else round.scanned(state, page.at(-1)?.[0] as number);
    }
    return found;
  }

  return pruneOne;
}

// Deletes lanes and policies that no job refers to and that were not used recently, a slice at a time: see
// `../interned-names.ts`. Names locked by an open transaction are skipped: its jobs are not visible yet.

/** Jobs scanned per call: some tens of milliseconds. */
const SLICE = 20_000;

function nameSweeper({ db, sql }: PostgresContext): (unusedBefore: number | undefined) => Promise<boolean> {
  const unused = (table: "lane" | "policy", which = "true") =>
    sql(
      `sweep_${table}`,
      `select no from $s.${table} where used_at < $1 and ${which} order by no limit ${MAX_CANDIDATES}
       for update skip locked`,
      LONG,
    );
  // Lanes of single runs are deleted with their jobs: see run-lanes.ts.
  const unusedLanes = unused("lane", "queue !~ '^run-[0-9a-f]{16}$'");
  const unusedPolicies = unused("policy");
  const jobs = sql(
    "sweep_jobs",
    `select max(no), count(*)::integer, array_to_json(array_agg(distinct lane))::text,
       array_to_json(array_agg(distinct policy))::text
     from (select no, lane, policy from $s.job where no > $1 order by no limit ${SLICE}) slice`,
    LONG,
  );
  // Kept if used again since the sweep began.
  const drop = (table: "lane" | "policy") =>
    sql(`sweep_drop_${table}`, `delete from $s.${table} where no = any ($1::int[]) and used_at < $2`, LONG);
  const [dropLanes, dropPolicies] = [drop("lane"), drop("policy")];
  const numbers = (rows: readonly PgRow[]) => rows.map(([no]) => no as number);
  let sweep: NameSweep | null = null;

  /** Returns whether more remains to be scanned. */
  return async (unusedBefore) => {
    if (unusedBefore === undefined) return false;
    // Continues a sweep that is in progress, whichever call started it.
    if (sweep === null) {
      const lanes = numbers(await db.write(unusedLanes, [unusedBefore], { repeat: true }));
      const policies = numbers(await db.write(unusedPolicies, [unusedBefore], { repeat: true }));
      sweep = new NameSweep(unusedBefore, lanes, policies);
    }
    const mine = sweep;
    if (!mine.isEmpty) {
      const [[last, count, lanes, policies] = []] = await db.read(jobs, [mine.after]);
      mine.keepLanes(JSON.parse((lanes as string | null) ?? "[]") as number[]);
      mine.keepPolicies(JSON.parse((policies as string | null) ?? "[]") as number[]);
      mine.after = (last as number | null) ?? mine.after;
      if (!mine.isEmpty && count === SLICE) return true;
    }
    if (mine.lanes.size > 0) await db.write(dropLanes, [ints([...mine.lanes]), mine.unusedBefore], { repeat: true });
    if (mine.policies.size > 0) {
      await db.write(dropPolicies, [ints([...mine.policies]), mine.unusedBefore], { repeat: true });
    }
    sweep = null;
    return false;
  };
}
