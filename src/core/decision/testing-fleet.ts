/** For tests: a fleet of workers that are killed at random, in virtual time. Claims as stores make them (a suspect runs alone),
 *  losses as a reaper finds them, decisions by `settleJob`. No store and no process takes part. */

import type { Mutable } from "../check.ts";
import type { Job } from "../job/job.ts";
import { settleJob } from "../job/lifecycle.ts";
import { waitingJob } from "../job/testing-job.ts";
import { ALONE_MS, otherWorkers, SUSPECT_STREAK, type WatchedSession } from "./evidence.ts";

export interface FleetPlan {
  readonly workers: number;
  readonly slots: number;
  /** Of the innocent; how long each runs. */
  readonly jobs: number;
  readonly runMs: (draw: number) => number;
  /** The mean time between kills of a worker; 0: none is killed. */
  readonly killEveryMs: number;
  /** From the exit of a worker until it is detected: a second where the kernel reports it, else a lease. */
  readonly foundAfterMs: number;
  /** Jobs that end their worker so long after their start. */
  readonly poison?: { readonly count: number; readonly afterMs: number };
  readonly seed: number;
}

interface Session extends Mutable<WatchedSession> {
  readonly held: Map<number, number>;
  aloneUntil: number;
  diedAt: number | null;
}

export interface FleetResult {
  readonly jobs: readonly Job[];
  /** How often each was lost. */
  readonly losses: readonly number[];
  readonly kills: number;
  readonly tookMs: number;
}

const TICK_MS = 20;
const RESTART_MS = 500;
const RENEW_MS = 2_000;
const END_MS = 24 * 3_600_000;

export function runFleet(plan: FleetPlan): FleetResult {
  const { poison = { count: 0, afterMs: 0 }, slots, foundAfterMs } = plan;
  const draw = drawer(plan.seed);
  const count = plan.jobs + poison.count;
  // Poison stands among the others.
  const isPoison = (no: number) => no % Math.ceil(count / Math.max(1, poison.count)) === 7 && poison.count > 0;
  const jobs: Mutable<Job>[] = Array.from({ length: count }, (_, no) => waitingJob({ id: `job-${no}`, runAt: no }));
  const needs = jobs.map((_, no) => (isPoison(no) ? poison.afterMs : plan.runMs(draw())));
  const losses = jobs.map(() => 0);
  const lostIn = jobs.map(() => new Set<number>());
  /** Those that wait, the longest due first. */
  const line = jobs.map((_, no) => no);
  const sessions: Session[] = [];
  const places: { session: Session | null; upAt: number }[] = Array.from({ length: plan.workers }, () => ({
    session: null,
    upAt: 0,
  }));
  const dead: Session[] = [];
  let [now, open, kills] = [0, count, 0];

  const start = (no: number, session: Session) => {
    const job = jobs[no] as Mutable<Job>;
    line.splice(line.indexOf(no), 1);
    Object.assign(job, { state: "running", attempt: job.attempt + 1, worker: String(session.no), startedAt: now });
    job.firstStartedAt ??= now;
    session.held.set(no, now);
  };
  const claim = (session: Session) => {
    if (session.aloneUntil > now || session.held.size >= slots) return;
    const due = line.slice(0, slots + 50).filter((no) => runAt(no) <= now);
    const first = due[0];
    if (first === undefined) return;
    if (isSuspect(first)) {
      if (session.held.size > 0) return; // waits until the worker is empty
      start(first, session);
      session.aloneUntil = now + ALONE_MS;
      return;
    }
    for (const no of due) {
      if (session.held.size >= slots) break;
      if (!isSuspect(no)) start(no, session);
    }
  };
  const runAt = (no: number) => (jobs[no] as Job).runAt;
  const isSuspect = (no: number) => (jobs[no] as Job).streak >= SUSPECT_STREAK;
  const settle = (no: number, outcome: Parameters<typeof settleJob>[1]) => {
    const job = jobs[no] as Mutable<Job>;
    Object.assign(job, settleJob(job, outcome, null, now, draw()).next);
    if (job.state !== "queued") {
      open -= 1;
      return;
    }
    const place = line.findIndex((other) => runAt(other) > job.runAt);
    line.splice(place < 0 ? line.length : place, 0, no);
  };
  const die = (place: { session: Session | null; upAt: number }) => {
    const session = place.session as Session;
    session.diedAt = now;
    dead.push(session);
    place.session = null;
    place.upAt = now + RESTART_MS;
  };

  for (; open > 0 && now < END_MS; now += TICK_MS) {
    for (const session of dead.filter(({ diedAt }) => (diedAt as number) + foundAfterMs <= now)) {
      dead.splice(dead.indexOf(session), 1);
      session.lostAt = session.endedAt = now;
      const [alone] = session.held.size === 1 ? session.held.keys() : [];
      for (const no of session.held.keys()) {
        losses[no] = (losses[no] as number) + 1;
        lostIn[no]?.add(session.no);
        const beside = session.held.size - 1;
        const others = beside === 0 ? { others: otherWorkers(sessions, now)(session, lostIn[no] as Set<number>) } : {};
        const { renewedAt } = session;
        settle(no, {
          ...{ kind: "lost", why: "worker_gone", session: String(session.no), renewedAt, by: null },
          crash: { beside, ...others },
        });
      }
      if (alone !== undefined && (jobs[alone] as Job).reason === "poison") session.isExplained = true;
    }
    for (const place of places) {
      if (place.session === null) {
        if (place.upAt > now) continue;
        place.session = newSession(sessions.length, now);
        sessions.push(place.session);
      }
      const { session } = place;
      if (now - session.renewedAt >= RENEW_MS) session.renewedAt = now;
      const culprit = [...session.held].some(([no, at]) => isPoison(no) && at + (needs[no] as number) <= now);
      const isKilled = plan.killEveryMs > 0 && draw() < TICK_MS / plan.killEveryMs;
      if (isKilled) kills += 1;
      if (culprit || isKilled) {
        die(place);
        continue;
      }
      for (const [no, at] of session.held) {
        if (at + (needs[no] as number) > now) continue;
        session.held.delete(no);
        session.aloneUntil = 0;
        settle(no, { kind: "completed", result: null });
      }
      claim(session);
    }
  }
  return { jobs, losses, kills, tookMs: now };
}

function newSession(no: number, now: number): Session {
  const times = { startedAt: now, renewedAt: now, endedAt: null, lostAt: null, diedAt: null };
  return {
    no,
    host: "host",
    pool: "pool",
    process: null,
    pid: no,
    ...times,
    isExplained: false,
    held: new Map(),
    aloneUntil: 0,
  };
}

/** Numbers from 0 to below 1, the same for a seed (mulberry32). */
function drawer(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
