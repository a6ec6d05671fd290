/** Claims: starts due jobs for a session. A session looks through its lanes only, and in each lane through an index
 *  on (priority, run_at), so that jobs of other kinds and jobs in backoff cost nothing, however many they are. */
import { startedText } from "../../core/lifecycle.ts";
import type { ClaimedJob } from "../../core/work.ts";
import { claimedJob, DEAD, DRAINING, LATE, NEXT_WINDOW_MS, SUSPECT_STREAK, TRIED_MS } from "../claimed-job.ts";
import type { LaneWindow } from "../lane.ts";
import { fitting, heavyShares, lightShare, roomFor, type Share, Turns } from "../shares.ts";
import type { ClaimAnswer, ClaimRequest } from "../store.ts";
import { MAX_STARTED } from "../stored-job.ts";
import { admission } from "./admission.ts";
import type { Context } from "./context.ts";
import { holdKeeper } from "./holds.ts";
import { type LaneUser, laneFinder } from "./lanes.ts";
import { startedReader } from "./started.ts";
import type { Verb } from "./writer.ts";

interface Item {
  readonly request: ClaimRequest;
  readonly now: number;
}

type DueRow = [no: number, runAt: number, streak: number, budget: number | null];

interface SessionFacts extends LaneUser {
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly lease_ms: number;
  readonly lease_ends_at: number;
  readonly reaped: number;
  readonly ended_at: number | null;
  readonly draining_at: number | null;
}

export interface Claims extends Verb<Item, ClaimAnswer> {
  /** The answer, if nothing is due and nothing need be written: a waiting claim must not take the write lock. */
  peek(request: ClaimRequest, now: number): ClaimAnswer | null;
}

/** What a claim looks through. */
interface Sight {
  readonly light: LaneWindow;
  /** Null: the session has no lanes of jobs that take cpu or memory. */
  readonly heavy: LaneWindow | null;
  readonly shares: readonly Share[];
}

const NONE_DUE = 10;

export function claimVerb(context: Context): Claims {
  const { db, events, started, generation } = context;
  const admit = admission(context);
  const { readStarted, readWhole } = startedReader(context);
  const { lanesOf, windowOf, moveOn } = laneFinder(context);
  const holds = holdKeeper(context);
  const turns = new Turns();
  const session = db.prepare(
    `select no, id, name, namespace, host, kinds, queues, labels, lease_ms, lease_ends_at, reaped, ended_at,
       draining_at
     from session where id = ?`,
  );
  // The lowest priority number in use in a lane, from a given one on.
  const nextPriority = db.prepare(
    "select priority from job indexed by job_ready where state = 0 and lane = ? and priority >= ? order by priority limit 1",
  );
  const fields = ["no", "run_at", "streak", "budget"].join(", ");
  // A released job stays away from the session that did not want it, for one lease; after that it is better than nobody.
  const due = db.prepare(
    `select ${fields} from job indexed by job_ready
     where state = 0 and lane = ? and priority = ? and run_at <= ?
       and (check_at is null or check_at > ?) and (avoid_session is null or avoid_session <> ? or run_at <= ?)
       and streak < ?
     order by run_at, no limit ?`,
  );
  // A poison job takes with it all that runs beside it, and they come back together. The run that decides tells it from
  // the others only if they share no process again: a session tries one suspect at a time.
  const trying = db.prepare(
    `select 1 from job indexed by job_running
     where state = 1 and session = ? and streak >= ${SUSPECT_STREAK} and started_at > ? limit 1`,
  );
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

  function sightOf(facts: SessionFacts, request: ClaimRequest, now: number): Sight {
    const { limit } = request;
    const lanes = lanesOf(facts);
    const light = windowOf(facts, lanes.light, "light", limit);
    const first = lightShare(light.lanes, request);
    if (lanes.heavy.size === 0) return { light, heavy: null, shares: [first] };
    const room = roomFor(lanes, holds.taken(facts), request);
    const heavy = windowOf(facts, fitting(lanes, room), "heavy", limit);
    // A lane is known for as long as the store remembers it: only one with due jobs has a place in the queue.
    const due = heavy.lanes.filter((lane) => pick(facts, [lane], 1, now).length > 0);
    return { light, heavy, shares: turns.order(facts.no, [first, ...heavyShares(lanes, due, limit, room)]) };
  }

  /** The due jobs of a share, lowest priority number first, then longest due. */
  function pick(facts: SessionFacts, lanes: readonly number[], limit: number, now: number): DueRow[] {
    const picked: DueRow[] = [];
    const dueIn = dueFor(facts, now);
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

  /** Finds due jobs of a lane; of suspects at most one in a claim, and none while the session tries another. */
  function dueFor(facts: SessionFacts, now: number): (lane: number, priority: number, wanted: number) => DueRow[] {
    let mayTry: boolean | null = null;
    return (lane, priority, wanted) => {
      const find = (belowStreak: number) => {
        const avoidUntil = now - facts.lease_ms;
        return due.all(lane, priority, now, now, facts.no, avoidUntil, belowStreak, wanted) as DueRow[];
      };
      const found = find(mayTry === false ? SUSPECT_STREAK : Number.MAX_SAFE_INTEGER);
      const suspect = found.find(([, , streak]) => streak >= SUSPECT_STREAK);
      if (suspect === undefined) return found;
      mayTry ??= trying.get(facts.no, now - TRIED_MS - facts.lease_ms) === undefined;
      const others = find(SUSPECT_STREAK);
      if (!mayTry) return others;
      mayTry = false;
      return [suspect, ...others].sort(longestDue);
    };
  }

  function firstFrom(lane: number, priority: number): number {
    if (priority > 9) return NONE_DUE;
    return (nextPriority.get(lane, priority) as [number] | undefined)?.[0] ?? NONE_DUE;
  }

  function nextAt({ light, heavy }: Sight, now: number): number | null {
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
    const facts = session.get(request.session) as SessionFacts | undefined;
    if (facts === undefined || facts.reaped === 1 || facts.ended_at !== null) return DEAD;
    if (request.claimId !== null && (request.last || recall.get(facts.no, request.claimId) !== undefined)) return null;
    if (facts.draining_at !== null) return DRAINING;
    if (facts.lease_ends_at < now) return LATE;
    const sight = sightOf(facts, request, now);
    const isDue = sight.shares.some((share) => pick(facts, share.lanes, 1, now).length > 0);
    return isDue ? null : nothingDue(facts, sight, now);
  }

  function nothingDue(facts: SessionFacts, sight: Sight, now: number): ClaimAnswer {
    goOn(facts, sight);
    return { alive: true, drain: false, jobs: [], nextAt: nextAt(sight, now), delivery: null };
  }

  function goOn(facts: SessionFacts, { light, heavy }: Sight): void {
    moveOn(facts, "light", light);
    if (heavy !== null) moveOn(facts, "heavy", heavy);
  }

  /** From the first share that has any. */
  function pickFirst(facts: SessionFacts, { shares }: Sight, now: number): { share: Share; picked: DueRow[] } | null {
    for (const share of shares) {
      const picked = pick(facts, share.lanes, share.limit, now);
      if (picked.length === 0) continue;
      turns.taken(facts.no, share);
      return { share, picked };
    }
    return null;
  }

  function claimOne(request: ClaimRequest, now: number): ClaimAnswer {
    const facts = session.get(request.session) as SessionFacts | undefined;
    if (facts === undefined || facts.reaped === 1 || facts.ended_at !== null) return DEAD;
    if (request.claimId !== null) {
      const drain = facts.draining_at !== null;
      const earlier = repeat.get(facts.no, request.claimId) as { jobs: string; deliveries: number } | undefined;
      if (earlier !== undefined) {
        const { jobs, deliveries } = earlier;
        return { alive: true, drain, jobs: again(facts, jobs), nextAt: null, delivery: deliveries };
      }
      if (request.last) {
        remember.run(facts.no, request.claimId, now, "[]");
        return { alive: true, drain, jobs: [], nextAt: null, delivery: 1 };
      }
    }
    if (facts.draining_at !== null) return DRAINING;
    if (facts.lease_ends_at < now) return LATE;
    const sight = sightOf(facts, request, now);
    const found = pickFirst(facts, sight, now);
    if (found === null) return nothingDue(facts, sight, now);
    const { share } = found;
    goOn(facts, sight);
    const { may, overBudget } = admit(found.picked, now);
    const picked = may.map(([no]) => no);
    if (picked.length === 0) return { alive: true, drain: false, jobs: [], nextAt: null, delivery: null, overBudget };
    start.run(facts.no, now, JSON.stringify(picked));
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
    const answer = { alive: true, drain: false, jobs, nextAt: null, delivery: request.claimId === null ? null : 1 };
    return overBudget.length === 0 ? answer : { ...answer, overBudget };
  }

  /** The jobs of an earlier claim whose reply was lost: those it still holds. */
  function again(facts: SessionFacts, text: string): ClaimedJob[] {
    const held = JSON.parse(text) as [number, number][];
    const attempts = new Map(held);
    return readWhole(held.map(([no]) => no)).flatMap((one) => {
      const { job } = one;
      const still = job.state === "running" && job.session === facts.no && job.attempt === attempts.get(job.no);
      return still ? [claimedJob(generation, facts.id, one)] : [];
    });
  }

  function run(items: readonly Item[]): ClaimAnswer[] {
    const answers = items.map(({ request, now }) => claimOne(request, now));
    events.flush();
    return answers;
  }

  return { order: 9, run, peek };
}

function longestDue(a: DueRow, b: DueRow): number {
  return a[1] - b[1] || a[0] - b[0];
}
