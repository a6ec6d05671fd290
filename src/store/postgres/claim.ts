/** Claims: starts due jobs for a session. A session looks through its lanes only, and in each lane through an index on
 *  (priority, run_at), so that jobs of other kinds and jobs in backoff cost nothing, however many they are.
 *
 *  One statement finds, locks, starts and tells. It looks twice: first without locks, to learn how many of each lane and
 *  priority are first in line, then for so many that nobody else has locked. Without rivals both are the same jobs;
 *  with rivals each gets others, and nobody waits. */
import { startedText } from "../../core/lifecycle.ts";
import type { ClaimedJob } from "../../core/work.ts";
import { claimedJob, DEAD, DRAINING, LATE, NEXT_WINDOW_MS, SUSPECT_STREAK, TRIED_MS } from "../claimed-job.ts";
import type { LaneWindow } from "../lane.ts";
import type { ClaimAnswer, ClaimRequest } from "../store.ts";
import { MAX_STARTED, type StartedJob } from "../stored-job.ts";
import { bigints, ints } from "./arrays.ts";
import type { Connection } from "./connections.ts";
import type { Context } from "./context.ts";
import type { Row, Statement, Value } from "./driver.ts";
import { tellJobs } from "./events.ts";
import { laneFinder } from "./lanes.ts";
import { COLUMN_COUNT, JOB_COLUMNS, learnRows, toJob } from "./rows.ts";
import type { SessionFacts, Sessions } from "./sessions.ts";
import { BESIDE, isRare, RARE_JOB, SHORT_COLUMNS, toStarted } from "./started.ts";

/** Far fewer than the events of a batch (events.ts). */
const MAX_CLAIM = 1_000;

/** Of a job that may be claimed by session $1 at $2, which has a lease of $3: a released job stays away from the session
 *  that did not want it, for one lease; after that it is better than nobody. */
const DUE = `run_at <= $2 and (check_at is null or check_at > $2)
  and (avoid_session is null or avoid_session <> $1 or run_at <= $2 - $3)`;

/** The lanes of a list whose queues are not paused. */
const openLanes = (list: string) => `
  open as materialized (
    select w.lane, w.place from unnest(${list}::int[]) with ordinality as w (lane, place) join $s.lane l on l.no = w.lane
    where not exists (select 1 from $s.queue q where q.namespace = l.namespace and q.queue = l.queue)
  )`;

const ME = `me as materialized (
    select no from $s.session
    where no = $1 and reaped = 0 and ended_at is null and draining_at is null and lease_ends_at >= $2 for key share
  )`;

const SUSPECTS = `select from $s.job where state = 0 and streak >= ${SUSPECT_STREAK} and lane = o.lane and ${DUE}`;

/** Of several lanes, or where suspects wait. */
const PICK_MANY = `
  first as materialized (
    select lane, priority, suspect, count(*) as jobs from (
      (select o.lane, p.priority, false as suspect, j.run_at, j.no
       from me cross join open o cross join generate_series(0, 9) as p (priority) cross join lateral (
         select run_at, no from $s.job where state = 0 and lane = o.lane and priority = p.priority
           and run_at >= ($5::bigint[])[(o.place - 1) * 10 + p.priority + 1] and ${DUE} and streak < ${SUSPECT_STREAK}
         order by run_at, no limit $6
       ) j)
      union all
      -- A poison job takes with it all that runs beside it, and they come back together. The run that decides tells it
      -- from the others only if they share no process again: a session tries one suspect at a time.
      (select o.lane, j.priority, true, j.run_at, j.no from me cross join open o cross join lateral (
         select priority, run_at, no from $s.job
         where state = 0 and streak >= ${SUSPECT_STREAK} and lane = o.lane and ${DUE} order by priority, run_at, no limit 1
       ) j where not exists (
         select 1 from $s.job r where r.state = 1 and r.session = $1 and r.streak >= ${SUSPECT_STREAK}
           and r.started_at > $9 and r.no <> j.no
       ) order by priority, run_at, no limit 1)
      order by priority, run_at, no limit $6
    ) line group by lane, priority, suspect
  ),
  picked as materialized (
    select j.tid from first f join open o on o.lane = f.lane cross join lateral (
      select ctid as tid from $s.job where state = 0 and lane = f.lane and priority = f.priority
        and run_at >= ($5::bigint[])[(o.place - 1) * 10 + f.priority + 1] and ${DUE} and streak < ${SUSPECT_STREAK}
      order by run_at, no limit f.jobs for update skip locked
    ) j where not f.suspect
    union all
    select j.tid from first f cross join lateral (
      select ctid as tid from $s.job where state = 0 and streak >= ${SUSPECT_STREAK} and lane = f.lane
        and priority = f.priority and ${DUE}
      order by run_at, no limit 1 for update skip locked
    ) j where f.suspect
  )`;

/** Of one lane: in the order in which the index has them, so one look is enough. */
const PICK_ONE = `
  picked as materialized (
    select j.tid from me cross join open o cross join generate_series(0, 9) as p (priority) cross join lateral (
      select ctid as tid from $s.job where state = 0 and lane = o.lane and priority = p.priority
        and run_at >= ($5::bigint[])[p.priority + 1] and ${DUE} and streak < ${SUSPECT_STREAK}
      order by run_at, no limit $6 for update skip locked
    ) j where not exists (${SUSPECTS}) limit $6
  )`;

const start = (pick: string) => `with ${ME}, ${openLanes("$4")}, ${pick},
  begun as (
    update $s.job j set state = 1, attempt = j.attempt + 1, revision = j.revision + 1, session = $1, started_at = $2,
      first_started_at = coalesce(j.first_started_at, $2), expires_at = null, check_at = null, avoid_session = null,
      progress = null, live_usage = null
    from picked where j.ctid = picked.tid and j.state + 0 = 0
    returning j.no, j.lane, j.policy, j.priority, j.run_at, j.revision, j.attempt, j.failures, j.first_started_at,
      ${RARE_JOB} as rare
  ),
  ${tellJobs("begun", "$2", "'attempt.started'", "$7::text || begun.attempt || $8::text")}
  select ${SHORT_COLUMNS} from begun j join $s.submission b on b.job = j.no`;

export function claimVerb(context: Context, sessions: Sessions) {
  const { db, sql, interned, started, marks, clock, generation, wrote } = context;
  const { windowOf, moveOn } = laneFinder(context);
  const startOne = sql("claim_one", start(PICK_ONE));
  const startMany = sql("claim", start(PICK_MANY));
  // Why there is nothing: is the session over, is a lane new to us, when does the next one fall due?
  const idle = sql(
    "claim_idle",
    `with ${openLanes("$4")}
     select s.reaped = 0 and s.ended_at is null, s.lease_ends_at >= $2, (select coalesce(max(no), 0) from $s.lane),
       (select min(j.run_at) from open o cross join generate_series(0, 9) as p (priority) cross join lateral (
          select run_at from $s.job where state = 0 and lane = o.lane and priority = p.priority and run_at > $2
          order by run_at, no limit 1
        ) j),
       exists (select from open o cross join lateral (${SUSPECTS} limit 1) j), s.draining_at is not null
     from $s.session s where s.no = $1`,
  );
  const lock = sql(
    "claim_lock",
    `select draining_at is not null from $s.session where no = $1 and reaped = 0 and ended_at is null
     for no key update`,
  );
  const recall = sql("claim_recall", "select jobs from $s.claim where session = $1 and claim_id = $2");
  const remember = sql("claim_remember", "insert into $s.claim (session, claim_id, at, jobs) values ($1, $2, $3, $4)");
  const forget = sql("claim_forget", "delete from $s.claim where session = $1 and at < $2");
  const readAgain = sql(
    "claim_again",
    `select ${JOB_COLUMNS}, ${BESIDE} from $s.job j join $s.submission b on b.job = j.no
     where j.no = any ($1::bigint[]) order by j.priority, j.run_at, j.no`,
  );

  async function claimOne(asked: ClaimRequest, now: number): Promise<ClaimAnswer> {
    const request = { ...asked, limit: Math.min(asked.limit, MAX_CLAIM) };
    const facts = await sessions.facts(request.session);
    if (facts === null) return DEAD;
    let isPlain = true;
    for (let round = 0; ; round++) {
      const window = await windowOf(facts, request.limit);
      const statement = window.lanes.length === 1 && isPlain ? startOne : startMany;
      const answer = await take(statement, facts, window, request, now);
      if (answer !== null) {
        moveOn(facts, window);
        return answer;
      }
      const [row] = await db.read(idle, [facts.no, now, facts.leaseMs, ints(window.lanes)]);
      const [alive, inTime, lastLane, nextAt, suspects, drain] = row ?? [false];
      if (alive !== true) return DEAD;
      if (drain === true) return DRAINING;
      if (inTime !== true) return LATE;
      if (Number(lastLane) > interned.lastLane && round === 0) {
        await interned.readLanes();
        continue;
      }
      if (suspects === true && statement === startOne) {
        isPlain = false;
        continue;
      }
      moveOn(facts, window);
      const next = window.partial ? now + NEXT_WINDOW_MS : (nextAt as number | null);
      return { alive: true, drain: false, jobs: [], nextAt: next };
    }
  }

  /** Null: nothing was there to be taken. */
  async function take(
    statement: Statement,
    facts: SessionFacts,
    window: LaneWindow,
    { limit, claimId }: ClaimRequest,
    now: number,
  ) {
    if (window.lanes.length === 0 && claimId === null) return null;
    const { marks: from, whole } = marks.of(window.lanes, clock.monotonic());
    const [before, after] = startedText(facts.id, facts.name)(0).split('"attempt":0') as [string, string];
    const values: Value[] = [facts.no, now, facts.leaseMs, ints(window.lanes), bigints(from), limit];
    values.push(`${before}"attempt":`, after);
    if (statement === startMany) values.push(now - TRIED_MS - facts.leaseMs);
    if (claimId !== null) return takeNamed(statement, facts, claimId, values, now);
    const began = clock.monotonic();
    const rows = await db.write(statement, values);
    if (whole) marks.tookWhole(clock.monotonic() - began);
    if (rows.length === 0) return null;
    return { alive: true, drain: false, jobs: await handOver(facts, rows, now), nextAt: null };
  }

  /** A claim with a name is remembered with what it got, under the session's lock, so that a repeat finds it. */
  async function takeNamed(statement: Statement, facts: SessionFacts, claimId: string, values: Value[], now: number) {
    const rows = await db.transaction(
      async (connection) => {
        const [[drain] = []] = await connection.ask(lock, [facts.no]);
        if (drain === undefined) return { begun: [] };
        const [[earlier] = []] = await connection.ask(recall, [facts.no, claimId]);
        if (earlier !== undefined) {
          return { again: await stillHeld(connection, facts, earlier as string), drain: drain === true };
        }
        const begun = await connection.ask(statement, values);
        if (begun.length > 0) {
          await connection.ask(forget, [facts.no, now - facts.leaseMs]);
          const held = JSON.stringify(begun.map((row) => [row[0], row[7]]));
          await connection.ask(remember, [facts.no, claimId, now, held]);
        }
        return { begun };
      },
      { repeat: true },
    );
    if (rows.again !== undefined) {
      await learnRows(interned, rows.again);
      return {
        alive: true,
        drain: rows.drain,
        jobs: rows.again.map((row) => claimedJob(generation, facts.id, toWhole(row))),
        nextAt: null,
      };
    }
    if (rows.begun.length === 0) return null;
    return { alive: true, drain: false, jobs: await handOver(facts, rows.begun, now), nextAt: null };
  }

  /** The jobs of an earlier claim whose reply was lost: those it still holds. */
  async function stillHeld(connection: Connection, facts: SessionFacts, text: string): Promise<Row[]> {
    const held = new Map(JSON.parse(text) as [number, number][]);
    const rows = await connection.ask(readAgain, [bigints([...held.keys()])]);
    return rows.filter((row) => row[5] === 1 && row[18] === facts.no && row[9] === held.get(row[0] as number));
  }

  async function handOver(facts: SessionFacts, rows: Row[], now: number): Promise<ClaimedJob[]> {
    const policies = rows.map((row) => row[3] as number);
    await interned.learn(
      rows.map((row) => row[2] as number),
      policies,
      [],
    );
    const rare = rows.filter(isRare);
    const whole = rare.length === 0 ? [] : await readWhole(rare.map((row) => row[0] as number));
    rows.sort(inLine);
    const jobs = rows.map((row) => {
      const one = isRare(row) ? whole.find(({ job }) => job.no === row[0]) : undefined;
      const begun = one ?? toStarted(row, interned, facts, now);
      const { job } = begun;
      if (started.size >= MAX_STARTED) started.clear();
      started.set(job.id, job);
      marks.taken(job.lane, job.priority, job.runAt, now);
      return claimedJob(generation, facts.id, begun);
    });
    wrote();
    return jobs;
  }

  async function readWhole(numbers: readonly number[]): Promise<StartedJob[]> {
    const rows = await db.read(readAgain, [bigints(numbers)]);
    await learnRows(interned, rows);
    return rows.map(toWhole);
  }

  const toWhole = (row: Row): StartedJob => ({
    job: toJob(row, interned),
    payload: row[COLUMN_COUNT] as string,
    previous: row[COLUMN_COUNT + 1] as string | null,
  });

  return (requests: readonly ClaimRequest[], now: number) =>
    Promise.all(requests.map((request) => claimOne(request, now)));
}

/** By priority, then longest due. */
function inLine(a: Row, b: Row): number {
  return (
    (a[4] as number) - (b[4] as number) || (a[5] as number) - (b[5] as number) || (a[0] as number) - (b[0] as number)
  );
}
