/** The statements of a claim, and the columns that they return of a started job. */

import { SUSPECT_STREAK } from "../../core/decision/evidence.ts";
import type { PgRow } from "./driver.ts";
import { writeJobEvents } from "./events.ts";

// Reads jobs that a claim has just started. Claims are the most frequent reads, and each column costs, so columns with
// a known or nearly always default value are not sent.

export { toStarted } from "../job-row.ts";

/** Of `job j`, and `rare` of `submission b`: false for all but a few jobs; the others are read with all columns. */
const RARE_JOB = `(j.losses + j.defers + j.handbacks + j.streak > 0 or j.chapter > 1
  or coalesce(j.streak_session, j.rule_counts, j.usage) is not null)`;
/** The run of a step is not rare: each of its steps would be read twice. */
const RARE = "(j.rare or b.deadline_at is not null or (b.depth is not null and j.run is null))";

const PREVIOUS =
  "case when j.attempt > 1 then (select failure from $s.attempt a where a.job = j.no and a.attempt = j.attempt - 1) end";

/** Data of a started job from other tables. */
export const BESIDE = `b.body, ${PREVIOUS}`;

/** The columns that `toStarted` expects. */
const SHORT_COLUMNS = `j.no, b.id, j.lane, j.policy, j.priority, j.run_at, j.revision, j.attempt, j.failures,
  b.submitted_at, j.first_started_at, b.expire_in, b.timeout_ms, b.key, b.tags, ${RARE}, ${BESIDE}, b.parent, b.depth, j.run`;

const SHORT_COUNT = 21;

/** A job covered by a budget, which was not started. */
export function isCovered(row: PgRow): boolean {
  return row[1] === null;
}

/** True: it has values that the short columns do not include. */
export function isRare(row: PgRow): boolean {
  return row[15] === true;
}

// One statement finds, locks and starts jobs and writes their events. It reads twice: first without locks, to count the
// first jobs in line per lane and priority, then that many jobs that nobody else has locked. Without concurrent claims
// both are the same jobs; with them each claim gets different jobs and none waits. Jobs covered by a budget are found
// but not started: they return a row with only their number, for admission.ts.

/** Whether a job may be claimed by session $1 at $2, which has a lease of $3: a released job avoids the session that
 *  released it for one lease; after that any session may take it. */
const DUE = `run_at <= $2 and (check_at is null or check_at >= $2)
  and (avoid_session is null or avoid_session <> $1 or run_at <= $2 - $3)`;

/** The lanes in a list whose queues are not paused. */
const openLanes = (list: string) => `
  open as materialized (
    select w.lane, w.place from unnest(${list}::int[]) with ordinality as w (lane, place) join $s.lane l on l.no = w.lane
    where not exists (select 1 from $s.queue q where q.namespace = l.namespace and q.queue = l.queue)
  )`;

const ME = `me as materialized (
    select no from $s.session
    where no = $1 and reaped = 0 and ended_at is null and draining_at is null and lease_ends_at >= $2
      and (alone_until is null or alone_until <= $2) for key share
  )`;

const SUSPECTS = `select from $s.job where state = 0 and streak >= ${SUSPECT_STREAK} and lane = o.lane and ${DUE}`;

/** From several lanes. Skips suspects, which must run alone. `who` has a row for a session that may take others. */
const pickMany = (who: "me" | "free") => `
  first as materialized (
    select lane, priority, count(*) as jobs from (
      select o.lane, p.priority, j.run_at, j.no
      from ${who} cross join open o cross join generate_series(0, 9) as p (priority) cross join lateral (
        select run_at, no from $s.job where state = 0 and lane = o.lane and priority = p.priority
          and run_at >= ($5::bigint[])[(o.place - 1) * 10 + p.priority + 1] and ${DUE} and streak < ${SUSPECT_STREAK}
        order by run_at, no limit $6
      ) j order by priority, run_at, no limit $6
    ) line group by lane, priority
  ),
  picked as materialized (
    select j.tid, j.no, j.budget from first f join open o on o.lane = f.lane cross join lateral (
      select ctid as tid, no, budget from $s.job where state = 0 and lane = f.lane and priority = f.priority
        and run_at >= ($5::bigint[])[(o.place - 1) * 10 + f.priority + 1] and ${DUE} and streak < ${SUSPECT_STREAK}
      order by run_at, no limit f.jobs for update skip locked
    ) j
  )`;

/** Empty if suspects are due: then whose turn it is must be decided first. */
const PICK_MANY = `
  free as materialized (
    select from me where not exists (select from open o cross join lateral (${SUSPECTS} limit 1) j)
  ),${pickMany("free")}`;

/** One suspect, $9. */
const PICK_SUSPECT = `
  picked as materialized (
    select j.tid, j.no, j.budget from me cross join lateral (
      select ctid as tid, no, budget from $s.job where no = $9::bigint and state + 0 = 0 and streak >= ${SUSPECT_STREAK}
        and ${DUE} and $5::bigint[] is not null and $6::int > 0 for update skip locked
    ) j
  )`;

/** From one lane: in index order, so reading once is enough. */
const PICK_ONE = `
  picked as materialized (
    select j.tid, j.no, j.budget from me cross join open o cross join generate_series(0, 9) as p (priority) cross join lateral (
      select ctid as tid, no, budget from $s.job where state = 0 and lane = o.lane and priority = p.priority
        and run_at >= ($5::bigint[])[p.priority + 1] and ${DUE} and streak < ${SUSPECT_STREAK}
      order by run_at, no limit $6 for update skip locked
    ) j where not exists (${SUSPECTS}) limit $6
  )`;

const start = (pick: string) => `with ${ME}, ${openLanes("$4")}, ${pick},
  begun as (
    update $s.job j set state = 1, attempt = j.attempt + 1, revision = j.revision + 1, session = $1, started_at = $2,
      first_started_at = coalesce(j.first_started_at, $2), expires_at = null, check_at = null, avoid_session = null,
      progress = null, live_usage = null
    from picked where j.ctid = picked.tid and j.state + 0 = 0 and j.budget is null
    returning j.no, j.lane, j.policy, j.priority, j.run_at, j.revision, j.attempt, j.failures, j.first_started_at, j.run,
      ${RARE_JOB} as rare
  ),
  ${writeJobEvents("begun", "$2", "'attempt.started'", "$7::text || begun.attempt || $8::text")}
  select ${SHORT_COLUMNS} from begun j join $s.submission b on b.job = j.no
  union all select no, ${Array.from({ length: SHORT_COUNT - 1 }, () => "null").join(", ")} from picked where budget is not null`;

/** Why nothing was claimed: the session ended, a lane is unknown here, or when the next job is due. */
export const IDLE = `with ${openLanes("$4")}
  select s.reaped = 0 and s.ended_at is null, s.lease_ends_at >= $2, (select coalesce(max(no), 0) from $s.lane),
    (select min(j.run_at) from open o cross join generate_series(0, 9) as p (priority) cross join lateral (
       select run_at from $s.job where state = 0 and lane = o.lane and priority = p.priority and run_at > $2
       order by run_at, no limit 1
     ) j),
    exists (select from open o cross join lateral (${SUSPECTS} limit 1) j), s.draining_at is not null, s.alone_until
  from $s.session s where s.no = $1`;

/** Which of these lanes have due jobs. */
export const DUE_LANES = `with ${openLanes("$4")}
  select o.lane from open o where exists (
    select from generate_series(0, 9) as p (priority) cross join lateral (
      select from $s.job where state = 0 and lane = o.lane and priority = p.priority and ${DUE} limit 1
    ) j
  ) order by o.place`;

/** The suspects that come before all other jobs, and whether the session holds any attempt. */
export const SUSPECTS_FIRST = `with ${openLanes("$4")}
  select j.no, exists (select from $s.job r where r.state = 1 and r.session = $1)
  from (
    select s.* from open o cross join lateral (
      select no, priority, run_at from $s.job
      where state = 0 and streak >= ${SUSPECT_STREAK} and lane = o.lane and ${DUE} order by priority, run_at, no limit 8
    ) s order by s.priority, s.run_at, s.no limit 8
  ) j
  where not exists (
    select from open o cross join generate_series(0, 9) as p (priority) cross join lateral (
      select from $s.job where state = 0 and lane = o.lane and priority = p.priority and ${DUE}
        and streak < ${SUSPECT_STREAK} and (p.priority < j.priority or run_at < j.run_at) limit 1
    ) other where p.priority <= j.priority
  ) order by j.priority, j.run_at, j.no`;

export const START_ONE = start(PICK_ONE);
export const START_MANY = start(PICK_MANY);
/** Starts jobs that are not suspects, though suspects are due. */
export const START_OTHERS = start(pickMany("me"));
export const START_SUSPECT = start(PICK_SUSPECT);

/** Its number and its attempt. */
export function startOf(row: PgRow): [number, number] {
  return [row[0] as number, row[7] as number];
}

/** By priority, then longest due. */
export function inLine(a: PgRow, b: PgRow): number {
  return (
    (a[4] as number) - (b[4] as number) || (a[5] as number) - (b[5] as number) || (a[0] as number) - (b[0] as number)
  );
}

/** One suspect, and whether it may run beside other jobs. */
export interface DueSuspect {
  readonly no: number;
  readonly beside: boolean;
}
