/** Deletes ended jobs and their data, and then interned names that no row refers to. */
import { JOBS_PRUNED, jobsPruned } from "../engine-events.ts";
import { MAX_CANDIDATES, NameSweep } from "../interned-names.ts";
import { PAGE, PRUNED_STATES, type PrunedState, PrunePlaces, type PruneRound } from "../prune-places.ts";
import type { PruneAnswer, PruneQuery } from "../store.ts";
import { STATE_CODES } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { type PrunedJob, playbookSweeper, runPruner } from "./prune-runs.ts";
import type { SqliteVerb } from "./writer.ts";

// Deletes jobs that ended long enough ago, oldest first, a bounded number at a time. A job with a submit key leaves a
// stub, so that the key stays taken until its window ends. A child leaves none: only its parent uses its key, and a
// redriven parent needs a child that it can wait for.

const BY_JOB = ["event", "attempt", "log_chunk", "late_report", "payload", "blocked", "cascade", "hold", "budget"];

export function pruneVerb(context: SqliteContext): SqliteVerb<PruneQuery, PruneAnswer> {
  const { db, interned, events } = context;
  const sweepNames = nameSweeper(context);
  const [runs, sweepPlaybooks] = [runPruner(context), playbookSweeper(context)];
  // Kept: children of a parent that has not ended, which may still read them, and children with a cancel in progress,
  // which finds them by their parent. The same for jobs below an ended child, as long as a job above may be cancelled,
  // or was just now.
  const above = `with recursive above (id) as (
      select job.parent union all select p.parent from above cross join job p on p.id = above.id where p.parent is not null
    ) select 1 from above cross join job p on p.id = above.id
    where p.state < 3 or exists (select 1 from cascade where cascade.job = p.no)`;
  // Also kept: jobs between an attempt and a budget that it holds part of, and steps, which go with their run: it may be
  // redriven as long as it exists.
  const kept = `job.run is not null
    or (parent is not null and exists (select 1 from job p where p.id = job.parent and p.state < 3))
    or exists (select 1 from cascade where cascade.job = job.no)
    or (parent is not null and exists (select 1 from job c indexed by job_parent where c.parent = job.id)
      and (exists (${above}) or exists (
        select 1 from budget l cross join budget a on a.job = l.above where l.job = job.budget)))`;
  const fields = `select no, id, lane, state, chapter, submitted_at, finished_at, key, parent, ${kept} as kept from job`;
  // Most jobs have succeeded, so those are scanned by number; the others have an index.
  const succeeded = db.prepare(`${fields} not indexed where state = ? and no > ? order by no limit ?`);
  const aside = db.prepare(
    `${fields} indexed by job_aside where state = ? and (state = 2 or state >= 4) and no > ? order by no limit ?`,
  );
  const stub = db.prepare(
    "update submit_key set state = ?, chapter = ?, until = ? where namespace = ? and key = ? and id = ?",
  );
  const dropKey = db.prepare("delete from submit_key where namespace = ? and key = ? and id = ?");
  const dropStubs = db.prepare("delete from submit_key where until is not null and until <= ?");
  const deletes = [
    ...BY_JOB.map((table) => db.prepare(`delete from ${table} where job in (select value from json_each(?))`)),
    db.prepare(
      `delete from tag where (tag, job) in (select t.value, j.no from json_each(?) as want
       join job j on j.no = want.value join json_each(j.tags) as t)`,
    ),
    db.prepare("delete from job where no in (select value from json_each(?))"),
  ];
  // Job rows refer to their session, whose name their events show: a session is hidden at once, but its row stays until
  // all jobs that it may have run are deleted. By number, not by time: if the clock was set back, a job may be newer
  // than the end of the session that ran it.
  const retireSessions = db.prepare(
    `update session set reaped = 2, last_job = (select coalesce(max(no), 0) from job)
     where reaped = 1 and ended_at < ?`,
  );
  const dropSessions = db.prepare(
    `delete from session where reaped = 2
     and last_job < coalesce((select min(no) from job), last_job + 1)`,
  );
  const claims = db.prepare("delete from claim where at < ?");
  // Of hosts that no longer claim.
  const holds = db.prepare(
    `delete from hold where job in (
       select h.job from hold h cross join job j on j.no = h.job where j.state <> 1 or j.attempt <> h.attempt limit ?)`,
  );
  // Computing how long a waiting job has waited needs every pause since its submit.
  const pauses = db.prepare(
    `delete from past_pause where to_at < ?
     and to_at < coalesce((select submitted_at from job order by no limit 1), to_at + 1)`,
  );
  // No job can be submitted to it meanwhile: the write lock is held.
  const dropLanes = db.prepare(
    `delete from lane where no in (
       select no from lane indexed by lane_run where queue glob 'run-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
       and not exists (select 1 from job indexed by job_lane where job.lane = lane.no) limit ?)`,
  );
  const engineEvents = db.prepare(
    `delete from event where seq in
       (select seq from event indexed by event_engine where job is null and at < ? order by at limit ?)`,
  );

  const places = new PrunePlaces();

  function pruneOne(query: PruneQuery): PruneAnswer {
    const { now, endedBefore, keyWindowMs, sessionsEndedBefore, limit, by } = query;
    const ids: string[] = [];
    const round = places.of(query);
    round.begin();
    const remove = (rows: readonly PrunedJob[]) => {
      const numbers = JSON.stringify(rows.map(({ no }) => no));
      for (const statement of deletes) statement.run(numbers);
      runs.forget(rows);
      for (const { id } of rows) ids.push(id);
    };
    const removeSteps = () =>
      runs.drop(limit - ids.length, (rows) => {
        for (const { id, lane, key } of rows) if (key !== null) dropKey.run(interned.lane(lane).namespace, key, id);
        remove(rows);
      });
    removeSteps();
    for (const state of PRUNED_STATES) {
      const before = endedBefore[state];
      if (before === undefined || ids.length >= limit) continue;
      const rows = endedBeforeRows(state, before, limit - ids.length, round);
      if (rows.length === 0) continue;
      for (const row of rows) keepKey(row, now, keyWindowMs);
      remove(rows);
      if (by !== undefined) events.add(null, 0, now, JOBS_PRUNED, jobsPruned(by, state, rows.length));
    }
    if (by !== undefined) events.flush();
    removeSteps();
    dropStubs.run(now);
    claims.run(sessionsEndedBefore);
    holds.run(limit);
    pauses.run(sessionsEndedBefore);
    retireSessions.run(sessionsEndedBefore);
    dropSessions.run();
    engineEvents.run(sessionsEndedBefore, limit);
    dropLanes.run(limit);
    // Names are unused only after all jobs that had them are deleted.
    const more = round.end() || runs.hasMore() || sweepNames(query.namesUnusedBefore);
    if (!more && query.namesUnusedBefore !== undefined) sweepPlaybooks(query.namesUnusedBefore);
    interned.dropLanes();
    return { jobs: ids.length, ids, more };
  }

  /** Jobs are numbered in submit order and none ends before its submit: the scan stops at a page whose jobs are all too
   *  young. At a page, not at the first such job: it may have been submitted while the clock was wrong. */
  function endedBeforeRows(state: PrunedState, before: number, limit: number, round: PruneRound): EndedRow[] {
    const found: EndedRow[] = [];
    const query = state === "succeeded" ? succeeded : aside;
    for (let after = round.after(state); after !== null; after = round.after(state)) {
      const page = query.all(STATE_CODES[state], after, PAGE) as EndedRow[];
      for (const row of page) {
        if (row.finished_at < before && row.kept === 0) found.push(row);
        if (found.length < limit) continue;
        round.scanned(state, row.no);
        return found;
      }
      if (page.length < PAGE || page.every((row) => row.submitted_at >= before)) round.done(state);
      else round.scanned(state, (page.at(-1) as EndedRow).no);
    }
    return found;
  }

  function keepKey(row: EndedRow, now: number, keyWindowMs: number): void {
    const { id, lane, state, chapter, finished_at, key, parent } = row;
    if (key === null) return;
    const { namespace } = interned.lane(lane);
    const until = finished_at + keyWindowMs;
    if (until > now && parent === null) stub.run(state, chapter, until, namespace, key, id);
    else dropKey.run(namespace, key, id);
  }

  return { order: 7, run: (items) => items.map(pruneOne) };
}

interface EndedRow {
  readonly no: number;
  readonly id: string;
  readonly lane: number;
  readonly state: number;
  readonly chapter: number;
  readonly submitted_at: number;
  readonly finished_at: number;
  readonly key: string | null;
  readonly parent: string | null;
  readonly kept: number;
}

// Deletes lanes and policies that no job refers to and that were not used recently, a slice at a time: see
// `../interned-names.ts`. The write lock is held while a slice is scanned.

/** Jobs scanned per call: about five milliseconds. */
const SLICE = 5_000;

function nameSweeper({ db }: SqliteContext): (unusedBefore: number | undefined) => boolean {
  const unused = (table: "lane" | "policy") =>
    db.prepare(`select no from ${table} where used_at < ? order by no limit ${MAX_CANDIDATES}`);
  const [unusedLanes, unusedPolicies] = [unused("lane"), unused("policy")];
  const jobs = db.prepare(`select no, lane, policy from job not indexed where no > ? order by no limit ${SLICE}`);
  for (const statement of [unusedLanes, unusedPolicies, jobs]) statement.setReturnArrays(true);
  // Kept if used again since the sweep began.
  const drop = (table: "lane" | "policy") =>
    db.prepare(`delete from ${table} where no in (select value from json_each(?)) and used_at < ?`);
  const [dropLanes, dropPolicies] = [drop("lane"), drop("policy")];
  // Processes that still cache a deleted name check this counter: see `Interned.dropSwept`.
  const countSweep = db.prepare(
    "insert into meta (name, value) values ('names_swept', 1) on conflict (name) do update set value = value + 1",
  );
  const numbers = (rows: unknown) => (rows as [number][]).map(([no]) => no);
  let sweep: NameSweep | null = null;

  /** Returns whether more remains to be scanned. */
  return (unusedBefore) => {
    if (unusedBefore === undefined) return false;
    // Continues a sweep that is in progress, whichever call started it.
    sweep ??= new NameSweep(
      unusedBefore,
      numbers(unusedLanes.all(unusedBefore)),
      numbers(unusedPolicies.all(unusedBefore)),
    );
    const rows = sweep.isEmpty ? [] : (jobs.all(sweep.after) as unknown as [number, number, number][]);
    sweep.keepLanes(rows.map(([, lane]) => lane));
    sweep.keepPolicies(rows.map(([, , policy]) => policy));
    sweep.after = rows.at(-1)?.[0] ?? sweep.after;
    if (!sweep.isEmpty && rows.length === SLICE) return true;
    const lanes = dropLanes.run(JSON.stringify([...sweep.lanes]), sweep.unusedBefore);
    const policies = dropPolicies.run(JSON.stringify([...sweep.policies]), sweep.unusedBefore);
    if (Number(lanes.changes) + Number(policies.changes) > 0) countSweep.run();
    sweep = null;
    return false;
  };
}
