/** Rules of a claim that both adapters share: what a worker receives, the fixed answers, and when a suspect job runs
 *  alone in its worker. */

import { ALONE_MS } from "../../core/decision/evidence.ts";
import { resourcesIn } from "../../core/input/resources.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { ClaimAnswer, ClaimRequest, OverBudgetJob } from "../store.ts";
import { leaseToken, type StartedJob } from "../stored-job.ts";

// What a worker receives for a claimed job.

export function claimedJob(generation: string, session: string, { job, payload, previous }: StartedJob): ClaimedJob {
  const claimed: ClaimedJob = {
    id: job.id,
    namespace: job.namespace,
    queue: job.queue,
    kind: job.kind,
    attempt: job.attempt,
    chapter: job.chapter,
    token: leaseToken(generation, session, job.attempt),
    payload,
    timeoutMs: job.timeoutMs,
    failures: job.failures,
    maxAttempts: job.policy.maxAttempts,
    tags: job.tags,
    previous,
  };
  const needs = resourcesIn(job.labels);
  return needs === null ? claimed : { ...claimed, needs };
}

// The answer to a claim, and when a session gets nothing.

export const DEAD: ClaimAnswer = Object.freeze({ alive: false, drain: false, jobs: [], nextAt: null, delivery: null });

/** Nothing is due before `nextAt`. */
export function noJobs(nextAt: number | null): ClaimAnswer {
  return { alive: true, drain: false, jobs: [], nextAt, delivery: null };
}

/** The first answer to a claim that started jobs, or made some fail. */
export function firstAnswer(
  { claimId }: Pick<ClaimRequest, "claimId">,
  jobs: ClaimedJob[],
  overBudget: readonly OverBudgetJob[],
): ClaimAnswer {
  // A claim that got no job is not stored, so it has had no reply yet.
  const delivery = claimId === null || jobs.length === 0 ? null : 1;
  const answer = { alive: true, drain: false, jobs, nextAt: null, delivery };
  return overBudget.length === 0 ? answer : { ...answer, overBudget };
}

/** The answer to a claim whose id was used before, with the jobs that it still holds. */
export function repeatedAnswer(drain: boolean, jobs: ClaimedJob[], delivery: number | null): ClaimAnswer {
  return { alive: true, drain, jobs, nextAt: null, delivery };
}

/** What decides whether a session may claim. */
export interface ClaimingState {
  /** It has ended, or does not exist. */
  readonly isOver: boolean;
  readonly isDraining: boolean;
  /** Its lease has expired. */
  readonly isLate: boolean;
  /** Until then it runs one suspect and nothing beside it. */
  readonly aloneUntil: number | null;
}

/** The answer for a session that gets no jobs now; null if it may claim. */
export function refusedClaim(session: ClaimingState, now: number): ClaimAnswer | null {
  if (session.isOver) return DEAD;
  if (session.isDraining) return { ...noJobs(null), drain: true };
  // The reaper would take its jobs back at once and count the attempts. It gets some when it has renewed.
  if (session.isLate) return noJobs(null);
  return session.aloneUntil === null || session.aloneUntil <= now ? null : noJobs(session.aloneUntil);
}

/** When a session with more lanes than one claim scans should claim again. */
export const NEXT_WINDOW_MS = 25;

// Replies to claims that could not be delivered.

/** With more replies than this to one claim nothing is withdrawn: its jobs are released when the session renews. */
const MAX_UNDELIVERED = 100;

/** The undelivered replies, including this one, and whether they are all replies that were sent. Replies may be sent
 *  out of order, so a later one does not confirm earlier ones. */
export function noteUndelivered(text: string, delivery: number, deliveries: number): { text: string; all: boolean } {
  const failed = new Set(JSON.parse(text) as number[]);
  if (delivery <= deliveries && failed.size < MAX_UNDELIVERED) failed.add(delivery);
  return { text: JSON.stringify([...failed]), all: failed.size === deliveries };
}

// Which session makes room for a suspect, which must run alone in its worker. An idle worker takes it at once. If all
// are busy, one session claims nothing more until it is empty; if that takes too long, another session gets its turn,
// and finally the suspect runs beside other jobs, so it never waits forever. Other jobs do not starve either: a session
// keeps slots empty for suspects for a limited time, however many suspects there are, and then prefers the others. All
// of this is known to this process only. Two processes making room for one suspect costs a little time and nothing
// else.

/** How long suspects come first in a session: it keeps free slots empty, or tries one suspect after another. */
export const MAKE_ROOM_MS = 30_000;
/** How long the other jobs come first after that, and after the session's last trial. */
const OTHERS_FIRST_MS = 30_000;
/** After this long a suspect runs beside other jobs: all workers then hold jobs that do not end. */
export const BESIDE_OTHERS_MS = 60_000;
/** How often a session that makes room checks whether it has finished its jobs. */
export const ROOM_CHECK_MS = 100;
/** More suspects, or sessions waiting for them, than there are at a time; beyond it their waiting times start again. */
const MAX_KNOWN = 1_000;

/** Of a suspect: since when busy sessions have seen it, and which session last made room for it. */
interface SuspectTurn {
  readonly since: number;
  /** Null: none yet. */
  readonly session: number | null;
  readonly until: number;
}

/** Of a session: since when suspects come first, and until when its slots are kept empty for them. */
interface SessionTrials {
  readonly from: number;
  readonly keptUntil: number;
}

export class SuspectTrials {
  readonly #turns = new Map<number, SuspectTurn>();
  readonly #services = new Map<number, SessionTrials>();

  /** A busy session sees these suspects first in line. The waiting time of each starts now. */
  saw(suspects: readonly number[], now: number): void {
    for (const suspect of suspects) {
      if (!this.#turns.has(suspect)) put(this.#turns, suspect, { since: now, session: null, until: now });
    }
  }

  /** What a busy session does about a suspect that is first in line: "wait" with empty slots, "leave" it to other
   *  sessions, or "take" it beside the jobs it holds. */
  turn(suspect: number, session: number, now: number): "wait" | "leave" | "take" {
    this.saw([suspect], now);
    const known = this.#turns.get(suspect) as SuspectTurn;
    if (now - known.since >= BESIDE_OTHERS_MS) return "take";
    if (known.until <= now) {
      if (known.session === session) return "leave"; // it had its turn
      this.#turns.set(suspect, { since: known.since, session, until: now + MAKE_ROOM_MS });
    } else if (known.session !== session) return "leave";
    // If other jobs come first here, none of them is due: no job is waiting for the slots.
    if (!this.othersFirst(session, now)) this.#keep(session, now, now);
    return "wait";
  }

  /** The session has done enough for suspects and prefers other jobs for a while. */
  othersFirst(session: number, now: number): boolean {
    const service = this.#services.get(session);
    if (service === undefined || now < service.from + MAKE_ROOM_MS) return false;
    return now < service.keptUntil + OTHERS_FIRST_MS;
  }

  /** A session has taken the suspect. */
  taken(suspect: number): void {
    this.#turns.delete(suspect);
  }

  /** The session runs a suspect alone and gets no other job for a while. */
  tries(session: number, now: number): void {
    this.#keep(session, now, now + ALONE_MS);
  }

  #keep(session: number, now: number, until: number): void {
    const service = this.#services.get(session);
    const continues = service !== undefined && now < service.from + MAKE_ROOM_MS;
    put(this.#services, session, { from: continues ? service.from : now, keptUntil: until });
  }
}

function put<Value>(known: Map<number, Value>, no: number, value: Value): void {
  if (known.size >= MAX_KNOWN && !known.has(no)) known.clear();
  known.set(no, value);
}
