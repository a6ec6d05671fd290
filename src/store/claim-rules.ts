/** Rules of a claim that both adapters share: what a worker receives, the fixed answers, and when a suspect gets a
 *  worker of its own. */

import { ALONE_MS } from "../core/decision/evidence.ts";
import { resourcesIn } from "../core/input/resources.ts";
import type { ClaimedJob } from "../core/worker-protocol.ts";
import type { ClaimAnswer } from "./store.ts";
import { leaseToken, type StartedJob } from "./stored-job.ts";

// What a claim hands to a worker.

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

export const DEAD: ClaimAnswer = Object.freeze({ alive: false, drain: false, jobs: [], nextAt: null, delivery: null });
/** Its lease is over: what it would get now, the reaper would take back at once and charge to the job. It gets more
 *  when it has renewed. */
export const LATE: ClaimAnswer = Object.freeze({ alive: true, drain: false, jobs: [], nextAt: null, delivery: null });
/** It was told to take no more. */
export const DRAINING: ClaimAnswer = Object.freeze({
  alive: true,
  drain: true,
  jobs: [],
  nextAt: null,
  delivery: null,
});

/** A session with more lanes than it can look through at once looks at the next ones this soon. */
export const NEXT_WINDOW_MS = 25;

// Who makes room for a suspect, which must be alone in its worker. A worker whose hands are empty takes it at once.
// Where all have something in hand, one of them takes nothing more until it has finished; if that takes too long,
// another has its turn, and at last the suspect runs beside others, so that it never waits for ever. Nor do the
// others: a session keeps its free slots empty for suspects for a while, however many suspects there are, and then
// the others come first for a while. Known to this process alone: that two processes make room for one suspect costs
// a little time and nothing else.

/** For so long suspects come first in a session: it leaves its free slots empty, or tries one after the other. */
export const MAKE_ROOM_MS = 30_000;
/** And for so long after that, and after its last trial, the others come first. */
const OTHERS_FIRST_MS = 30_000;
/** After this long a suspect runs beside others: then all workers hold jobs that go on and on. */
export const BESIDE_OTHERS_MS = 60_000;
/** How soon a session that makes room looks again whether it has finished. */
export const ROOM_CHECK_MS = 100;
/** More suspects, or sessions that wait for them, than there are at a time; beyond it they begin to wait anew. */
const MAX_KNOWN = 1_000;

/** Of a suspect: since when busy sessions have seen it, and which of them was the last to make room for it. */
interface SuspectTurn {
  readonly since: number;
  /** Null: none yet. */
  readonly session: number | null;
  readonly until: number;
}

/** Of a session: since when suspects come first, and until when slots were or are kept empty for them. */
interface SessionTrials {
  readonly from: number;
  readonly keptUntil: number;
}

export class SuspectTrials {
  readonly #turns = new Map<number, SuspectTurn>();
  readonly #services = new Map<number, SessionTrials>();

  /** A session that holds something sees these first in line. All begin to wait now, not one after the other. */
  saw(suspects: readonly number[], now: number): void {
    for (const suspect of suspects) {
      if (!this.#turns.has(suspect)) put(this.#turns, suspect, { since: now, session: null, until: now });
    }
  }

  /** For a session that holds something, what to do about a suspect that is first in line: "wait" with empty slots, "leave" it
   *  to others, or "take" it beside what it holds. */
  turn(suspect: number, session: number, now: number): "wait" | "leave" | "take" {
    this.saw([suspect], now);
    const known = this.#turns.get(suspect) as SuspectTurn;
    if (now - known.since >= BESIDE_OTHERS_MS) return "take";
    if (known.until <= now) {
      if (known.session === session) return "leave"; // it had its turn
      this.#turns.set(suspect, { since: known.since, session, until: now + MAKE_ROOM_MS });
    } else if (known.session !== session) return "leave";
    // Where others come first, none of them is due: nobody waits for the slots.
    if (!this.othersFirst(session, now)) this.#keep(session, now, now);
    return "wait";
  }

  /** The session has done enough for suspects: it is to look for others before them. */
  othersFirst(session: number, now: number): boolean {
    const service = this.#services.get(session);
    if (service === undefined || now < service.from + MAKE_ROOM_MS) return false;
    return now < service.keptUntil + OTHERS_FIRST_MS;
  }

  /** It is taken, by this session or by another. */
  taken(suspect: number): void {
    this.#turns.delete(suspect);
  }

  /** The session has a suspect now, and gets nothing else for a while. */
  tries(session: number, now: number): void {
    this.#keep(session, now, now + ALONE_MS);
  }

  #keep(session: number, now: number, until: number): void {
    const service = this.#services.get(session);
    const goesOn = service !== undefined && now < service.from + MAKE_ROOM_MS;
    put(this.#services, session, { from: goesOn ? service.from : now, keptUntil: until });
  }
}

function put<Value>(known: Map<number, Value>, no: number, value: Value): void {
  if (known.size >= MAX_KNOWN && !known.has(no)) known.clear();
  known.set(no, value);
}
