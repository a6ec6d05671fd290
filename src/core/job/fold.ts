/** Rebuilds the state of a job from its events: `evolve` applies one, `foldEvents` all. Rows are written with the result of
 *  `evolve`, so a row that differs from its fold is a bug of a store. */
import type { Counters } from "../decision/decide.ts";
import { EVENT_FORMAT, type JobEventBody, type PerdureEvent } from "./event.ts";
import { currentEvent } from "./event-formats.ts";
import { addUsage, type FailReason, type JobProgressFields } from "./job.ts";

/** An event with its instant, for `evolve`. */
export type TimedEvent = JobEventBody & { readonly at: number };

const ZERO = {
  failures: 0,
  losses: 0,
  defers: 0,
  handbacks: 0,
  streak: 0,
  streakSession: null,
  evidence: 0,
  ruleCounts: null,
} as const;

/** A job before its first event. */
export const BEFORE: JobProgressFields = {
  ...ZERO,
  state: "queued",
  reason: null,
  chapter: 1,
  attempt: 0,
  revision: 0,
  runAt: 0,
  expiresAt: null,
  cancelRequestedAt: null,
  worker: null,
  startedAt: null,
  firstStartedAt: null,
  finishedAt: null,
  discardedAt: null,
  usage: null,
};

/** The state of a job from its events, in order. Throws on a gap, a format it does not know, or no first event.
 *  @example
 *  const { state, attempt } = foldEvents(events); // the row, from the events alone */
export function foldEvents(events: readonly (TimedEvent & { readonly n: number })[]): JobProgressFields {
  let job = BEFORE;
  for (const stored of events) {
    const event = currentEvent(stored as PerdureEvent) as typeof stored;
    if (event.n !== job.revision + 1) throw new Error(`event ${event.n} follows event ${job.revision}`);
    if (event.data.v !== EVENT_FORMAT) throw new Error(`event ${event.n} has format ${event.data.v}`);
    if ((event.name === "job.submitted") !== (event.n === 1)) throw new Error(`event ${event.n} is ${event.name}`);
    job = evolve(job, event);
  }
  if (job.revision === 0) throw new Error("a job has at least one event");
  return job;
}

export function evolve(job: JobProgressFields, event: TimedEvent): JobProgressFields {
  const revision = job.revision + 1;
  switch (event.name) {
    case "job.submitted": {
      const { state, runAt, expiresAt } = event.data;
      return { ...BEFORE, state, runAt, expiresAt, revision };
    }
    case "attempt.started":
      return {
        ...job,
        revision,
        state: "running",
        attempt: event.data.attempt,
        worker: event.data.session,
        startedAt: event.at,
        firstStartedAt: job.firstStartedAt ?? event.at,
        expiresAt: null,
      };
    case "attempt.succeeded":
    case "attempt.failed":
    case "attempt.timed_out":
    case "attempt.lost":
    case "attempt.waiting":
    case "attempt.interrupted":
    case "job.queue_timeout":
    case "job.over_budget": {
      const { decision, counters, usage, expiresAt } = event.data;
      // A released attempt had not started, so `maxElapsed` does not count from it.
      const released = event.name === "attempt.interrupted" && event.data.why === "released";
      const firstStartedAt = released && job.firstStartedAt === job.startedAt ? null : job.firstStartedAt;
      const { kind, reason, runAt } = decision;
      const isRetry = kind === "retry";
      const isOver = !isRetry && kind !== "block";
      const moved: Partial<Counters> = counters ?? NONE;
      // Field by field, as this runs for every attempt: a spread of a larger object with added fields is sixty times slower.
      return {
        failures: moved.failures ?? job.failures,
        losses: moved.losses ?? job.losses,
        defers: moved.defers ?? job.defers,
        handbacks: moved.handbacks ?? job.handbacks,
        streak: moved.streak ?? job.streak,
        streakSession: moved.streakSession === undefined ? job.streakSession : moved.streakSession,
        evidence: moved.evidence ?? job.evidence,
        ruleCounts: moved.ruleCounts === undefined ? job.ruleCounts : moved.ruleCounts,
        state: FOLLOWS[kind],
        reason: kind === "fail" ? (reason as FailReason) : job.reason,
        chapter: job.chapter,
        attempt: job.attempt,
        revision,
        runAt: isRetry ? (runAt as number) : job.runAt,
        expiresAt: isRetry ? (expiresAt ?? null) : null,
        cancelRequestedAt: job.cancelRequestedAt,
        worker: job.worker,
        startedAt: job.startedAt,
        firstStartedAt,
        finishedAt: isOver ? event.at : job.finishedAt,
        discardedAt: job.discardedAt,
        usage: addUsage(job.usage, usage ?? null),
      };
    }
    case "job.cancel_requested":
      return { ...job, revision, cancelRequestedAt: event.at };
    case "job.cancelled":
      return {
        ...job,
        revision,
        state: "cancelled",
        cancelRequestedAt: event.at,
        finishedAt: event.at,
        expiresAt: null,
      };
    case "job.discarded":
      return { ...job, revision, discardedAt: event.at };
    case "job.unblocked":
      return { ...job, revision, state: "queued", runAt: event.data.runAt, expiresAt: event.data.expiresAt };
    case "job.rescheduled":
      return { ...job, revision, runAt: event.data.runAt, expiresAt: event.data.expiresAt };
    case "job.redriven":
      return {
        ...job,
        ...ZERO,
        revision,
        chapter: job.chapter + 1,
        state: event.data.run === undefined ? "queued" : "blocked",
        reason: null,
        runAt: event.data.runAt,
        expiresAt: event.data.expiresAt,
        cancelRequestedAt: null,
        firstStartedAt: null,
        finishedAt: null,
        discardedAt: null,
      };
    case "run.advanced":
      return advanced(job, revision);
    case "run.ended": {
      const { state, reason } = event.data;
      return { ...job, revision, state, reason, finishedAt: event.at };
    }
  }
}

/** Field by field, like the end of an attempt: it runs for every step of a run. */
function advanced(job: JobProgressFields, revision: number): JobProgressFields {
  return {
    failures: job.failures,
    losses: job.losses,
    defers: job.defers,
    handbacks: job.handbacks,
    streak: job.streak,
    streakSession: job.streakSession,
    evidence: job.evidence,
    ruleCounts: job.ruleCounts,
    state: job.state,
    reason: job.reason,
    chapter: job.chapter,
    attempt: job.attempt,
    revision,
    runAt: job.runAt,
    expiresAt: job.expiresAt,
    cancelRequestedAt: job.cancelRequestedAt,
    worker: job.worker,
    startedAt: job.startedAt,
    firstStartedAt: job.firstStartedAt,
    finishedAt: job.finishedAt,
    discardedAt: job.discardedAt,
    usage: job.usage,
  };
}

const FOLLOWS = {
  succeed: "succeeded",
  cancel: "cancelled",
  fail: "failed",
  retry: "queued",
  block: "blocked",
} as const;

const NONE: Partial<Counters> = {};
