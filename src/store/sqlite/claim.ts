/** Claims: starts due jobs for a session. Only the session's lanes are scanned, each through an index on (priority,
 *  run_at), so jobs of other kinds and jobs in backoff cost nothing, however many there are. */
import { ALONE_MS, SUSPECT_STREAK } from "../../core/decision/evidence.ts";
import { startedText } from "../../core/job/lifecycle.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { LaneWindow } from "../lane.ts";
import { fitting, freeCapacity, heavyShares, type LaneShare, LaneTurns, lightShare } from "../lane-fairness.ts";
import {
  type ClaimingState,
  claimedJob,
  DEAD,
  firstAnswer,
  NEXT_WINDOW_MS,
  noJobs,
  ROOM_CHECK_MS,
  refusedClaim,
  repeatedAnswer,
  SuspectTrials,
} from "../plan/claim.ts";
import type { ClaimAnswer, ClaimRequest } from "../store.ts";
import { MAX_STARTED } from "../stored-job.ts";
import { admission, holdKeeper } from "./admission.ts";
import type { SqliteContext } from "./context.ts";
import { type LaneUser, laneFinder } from "./lanes.ts";
import { startedReader } from "./rows.ts";
import type { SqliteVerb } from "./writer.ts";

interface SqliteClaimItem {
  readonly request: ClaimRequest;
  readonly now: number;
}

type DueRow = [no: number, runAt: number, streak: number, budget: number | null];

interface ClaimingSession extends LaneUser {
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly lease_ms: number;
  readonly lease_ends_at: number;
  readonly reaped: number;
  readonly ended_at: number | null;
  readonly draining_at: number | null;
  readonly alone_until: number | null;
}

export interface ClaimVerb extends SqliteVerb<SqliteClaimItem, ClaimAnswer> {
  /** The answer if nothing is due and nothing has to be written: a waiting claim must not take the write lock. */
  peek(request: ClaimRequest, now: number): ClaimAnswer | null;
}

/** The lanes that a claim scans. */
interface SqliteClaimScan {
  readonly light: LaneWindow;
  /** Null: the session has no lanes with jobs that need cpu or memory. */
  readonly heavy: LaneWindow | null;
  readonly shares: readonly LaneShare[];
}

/** The jobs of a share that a session gets. */
interface PickedJobs {
  readonly share: LaneShare;
  readonly picked: DueRow[];
  /** The job is a suspect that must run alone in its worker. */
  readonly alone: boolean;
}

const NONE_DUE = 10;
/** Returned in place of `Found`: the session gets nothing, so that it becomes empty for a suspect. */
const MAKE_ROOM = "make room";
const ANY_STREAK = Number.MAX_SAFE_INTEGER;

export function claimVerb(context: SqliteContext): ClaimVerb {
  const { db, events, started, generation } = context;
  const admit = admission(context);
  const { readStarted, readWhole } = startedReader(context);
  const { lanesOf, windowOf, moveOn } = laneFinder(context);
  const holds = holdKeeper(context);
  const turns = new LaneTurns();
  const session = db.prepare(
    `select no, id, name, namespace, host, kinds, queues, labels, lease_ms, lease_ends_at, reaped, ended_at,
       draining_at, alone_until
     from session where id = ?`,
  );
  // The lowest priority number in use in a lane, from a given one on.
  const nextPriority = db.prepare(
    "select priority from job indexed by job_ready where state = 0 and lane = ? and priority >= ? order by priority limit 1",
  );
  const fields = ["no", "run_at", "streak", "budget"].join(", ");
  // A released job avoids the session that released it for one lease; after that any session may take it.
  const due = db.prepare(
    `select ${fields} from job indexed by job_ready
     where state = 0 and lane = ? and priority = ? and run_at <= ?
       and (check_at is null or check_at >= ?) and (avoid_session is null or avoid_session <> ? or run_at <= ?)
       and streak < ?
     order by run_at, no limit ?`,
  );
  const holdsAny = db.prepare("select 1 from job indexed by job_running where state = 1 and session = ? limit 1");
  const tryAlone = db.prepare("update session set alone_until = ? where no = ?");
  const trials = new SuspectTrials();
  const nextDue = db.prepare(
    "select run_at from job indexed by job_ready where state = 0 and lane = ? and priority = ? and run_at > ? order by run_at limit 1",
  );
  const start = db.prepare(
    `update job set state = 1, attempt = attempt + 1, revision = revision + 1, session = ?1, started_at = ?2,
       first_started_at = coalesce(first_started_at, ?2), expires_at = null, check_at = null, avoid_session = null,
       progress = null, live_usage = null
     where no in (select value from json_each(?3)) and state = 0`,
  );
  const recall = db.prepare("select jobs from claim where session = ? and claim_id = ?");
  const repeat = db.prepare(
    "update claim set deliveries = deliveries + 1 where session = ? and claim_id = ? returning jobs, deliveries",
  );
  const remember = db.prepare("insert into claim (session, claim_id, at, jobs) values (?, ?, ?, ?)");
  const forgetOld = db.prepare("delete from claim where session = ? and at < ?");
  for (const statement of [due, nextDue, nextPriority]) statement.setReturnArrays(true);

  function sightOf(facts: ClaimingSession, request: ClaimRequest, now: number): SqliteClaimScan {
    const { limit } = request;
    const lanes = lanesOf(facts);
    const light = windowOf(facts, lanes.light, "light", limit);
    const first = lightShare(light.lanes, request);
    if (lanes.heavy.size === 0) return { light, heavy: null, shares: [first] };
    const room = freeCapacity(lanes, holds.taken(facts), request);
    const heavy = windowOf(facts, fitting(lanes, room), "heavy", limit);
    // The cache may still have empty lanes: only a lane with due jobs gets a place in the queue.
    const due = heavy.lanes.filter((lane) => pick(facts, [lane], 1, now, ANY_STREAK).length > 0);
    return { light, heavy, shares: turns.order(facts.no, [first, ...heavyShares(lanes, due, limit, room)]) };
  }

  /** The due jobs of a share, lowest priority number first, then longest due. */
  function pick(
    facts: ClaimingSession,
    lanes: readonly number[],
    limit: number,
    now: number,
    belowStreak: number,
  ): DueRow[] {
    const picked: DueRow[] = [];
    const avoidUntil = now - facts.lease_ms;
    const dueIn = (lane: number, priority: number, wanted: number) =>
      due.all(lane, priority, now, now, facts.no, avoidUntil, belowStreak, wanted) as DueRow[];
    const heads = lanes.map((lane) => ({ lane, priority: firstFrom(lane, 0) }));
    while (picked.length < limit) {
      const priority = heads.reduce((least, head) => Math.min(least, head.priority), NONE_DUE);
      if (priority === NONE_DUE) break;
      const found: DueRow[] = [];
      for (const head of heads) {
        if (head.priority !== priority) continue;
        for (const row of dueIn(head.lane, priority, limit - picked.length)) found.push(row);
        head.priority = firstFrom(head.lane, priority + 1);
      }
      if (heads.length > 1) found.sort(longestDue);
      for (const row of found.slice(0, limit - picked.length)) picked.push(row);
    }
    return picked;
  }

  /** A poison job takes down everything beside it; which job it was shows only when it runs alone. So a suspect that is
   *  first in line goes to an idle session, which gets no other jobs meanwhile. */
  function apart(
    facts: ClaimingSession,
    share: LaneShare,
    first: readonly DueRow[],
    now: number,
  ): PickedJobs | typeof MAKE_ROOM {
    const isSuspect = ([, , streak]: DueRow) => streak >= SUSPECT_STREAK;
    const others = first.findIndex((row) => !isSuspect(row));
    const isBusy = holdsAny.get(facts.no) !== undefined;
    const suspects = others < 0 ? first : first.slice(0, others);
    if (isBusy) {
      trials.saw(
        suspects.map(([no]) => no),
        now,
      );
    }
    for (const row of suspects) {
      const turn = isBusy ? trials.turn(row[0], facts.no, now) : "take";
      if (turn === "wait") return MAKE_ROOM;
      if (turn === "take") return { share, picked: [row], alone: true };
    }
    return { share, picked: pick(facts, share.lanes, share.limit, now, SUSPECT_STREAK), alone: false };
  }

  function firstFrom(lane: number, priority: number): number {
    if (priority > 9) return NONE_DUE;
    return (nextPriority.get(lane, priority) as [number] | undefined)?.[0] ?? NONE_DUE;
  }

  function nextAt({ light, heavy }: SqliteClaimScan, now: number): number | null {
    if (light.partial || heavy?.partial) return now + NEXT_WINDOW_MS;
    let soonest: number | null = null;
    for (const lane of heavy === null ? light.lanes : [...light.lanes, ...heavy.lanes]) {
      for (let p = firstFrom(lane, 0); p !== NONE_DUE; p = firstFrom(lane, p + 1)) {
        const row = nextDue.get(lane, p, now) as [number] | undefined;
        if (row !== undefined && (soonest === null || row[0] < soonest)) soonest = row[0];
      }
    }
    return soonest;
  }

  function peek(request: ClaimRequest, now: number): ClaimAnswer | null {
    const facts = session.get(request.session) as ClaimingSession | undefined;
    if (facts === undefined) return DEAD;
    const state = stateOf(facts, now);
    const isKnown = () => recall.get(facts.no, request.claimId) !== undefined;
    if (!state.isOver && request.claimId !== null && (request.last || isKnown())) return null;
    const refused = refusedClaim(state, now);
    if (refused !== null) return refused;
    const sight = sightOf(facts, request, now);
    const [head] = sight.shares.flatMap((share) => pick(facts, share.lanes, 1, now, ANY_STREAK));
    if (head === undefined) return nothingDue(facts, sight, now);
    if (head[2] < SUSPECT_STREAK) return null;
    const found = pickFirst(facts, sight, now);
    if (found === MAKE_ROOM) return noJobs(now + ROOM_CHECK_MS);
    return found === null ? nothingDue(facts, sight, now) : null;
  }

  function nothingDue(facts: ClaimingSession, sight: SqliteClaimScan, now: number): ClaimAnswer {
    goOn(facts, sight);
    return noJobs(nextAt(sight, now));
  }

  function goOn(facts: ClaimingSession, { light, heavy }: SqliteClaimScan): void {
    moveOn(facts, "light", light);
    if (heavy !== null) moveOn(facts, "heavy", heavy);
  }

  /** From the first share with due jobs; null if no share has any. */
  function pickFirst(
    facts: ClaimingSession,
    { shares }: SqliteClaimScan,
    now: number,
  ): PickedJobs | typeof MAKE_ROOM | null {
    for (const share of trials.othersFirst(facts.no, now) ? shares : []) {
      const picked = pick(facts, share.lanes, share.limit, now, SUSPECT_STREAK);
      if (picked.length > 0) return { share, picked, alone: false };
    }
    for (const share of shares) {
      const picked = pick(facts, share.lanes, share.limit, now, ANY_STREAK);
      if (picked.length === 0) continue;
      const hasSuspects = picked.some(([, , streak]) => streak >= SUSPECT_STREAK);
      const found = hasSuspects ? apart(facts, share, picked, now) : { share, picked, alone: false };
      if (found === MAKE_ROOM) return MAKE_ROOM;
      if (found.picked.length > 0) return found;
    }
    return null;
  }

  function claimOne(request: ClaimRequest, now: number): ClaimAnswer {
    const facts = session.get(request.session) as ClaimingSession | undefined;
    if (facts === undefined) return DEAD;
    const state = stateOf(facts, now);
    if (!state.isOver && request.claimId !== null) {
      const earlier = repeat.get(facts.no, request.claimId) as { jobs: string; deliveries: number } | undefined;
      if (earlier !== undefined) {
        return repeatedAnswer(state.isDraining, again(facts, earlier.jobs), earlier.deliveries);
      }
      if (request.last) {
        remember.run(facts.no, request.claimId, now, "[]");
        return repeatedAnswer(state.isDraining, [], 1);
      }
    }
    const refused = refusedClaim(state, now);
    if (refused !== null) return refused;
    const sight = sightOf(facts, request, now);
    const found = pickFirst(facts, sight, now);
    if (found === MAKE_ROOM) return noJobs(now + ROOM_CHECK_MS);
    if (found === null) return nothingDue(facts, sight, now);
    const { share } = found;
    turns.taken(facts.no, share);
    goOn(facts, sight);
    const { may, overBudget } = admit(found.picked, now);
    const picked = may.map(([no]) => no);
    if (found.alone) for (const [no] of found.picked) trials.taken(no);
    if (picked.length === 0) return firstAnswer(request, [], overBudget);
    start.run(facts.no, now, JSON.stringify(picked));
    if (found.alone) {
      tryAlone.run(now + ALONE_MS, facts.no);
      trials.tries(facts.no, now);
    }
    if (share.needs !== null) holds.hold(facts, picked, share.needs);
    const tell = startedText(facts.id, facts.name);
    const jobs = readStarted(picked, facts, now).map((one) => {
      const { job } = one;
      if (started.size >= MAX_STARTED) started.clear();
      if (job.budget === null) started.set(job.id, job);
      events.add(job.no, job.revision, now, "attempt.started", tell(job.attempt));
      return claimedJob(generation, facts.id, one);
    });
    if (request.claimId !== null) {
      forgetOld.run(facts.no, now - facts.lease_ms);
      const held = picked.map((no, i) => [no, (jobs[i] as ClaimedJob).attempt]);
      remember.run(facts.no, request.claimId, now, JSON.stringify(held));
    }
    return firstAnswer(request, jobs, overBudget);
  }

  /** The jobs of an earlier claim whose reply was lost, as far as the session still holds them. */
  function again(facts: ClaimingSession, text: string): ClaimedJob[] {
    const held = JSON.parse(text) as [number, number][];
    const attempts = new Map(held);
    return readWhole(held.map(([no]) => no)).flatMap((one) => {
      const { job } = one;
      const still = job.state === "running" && job.session === facts.no && job.attempt === attempts.get(job.no);
      return still ? [claimedJob(generation, facts.id, one)] : [];
    });
  }

  function run(items: readonly SqliteClaimItem[]): ClaimAnswer[] {
    const answers = items.map(({ request, now }) => claimOne(request, now));
    events.flush();
    return answers;
  }

  return { order: 9, run, peek };
}

function stateOf(facts: ClaimingSession, now: number): ClaimingState {
  return {
    isOver: facts.reaped === 1 || facts.ended_at !== null,
    isDraining: facts.draining_at !== null,
    isLate: facts.lease_ends_at < now,
    aloneUntil: facts.alone_until,
  };
}

function longestDue(a: DueRow, b: DueRow): number {
  return a[1] - b[1] || a[0] - b[0];
}
