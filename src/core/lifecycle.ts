/** The changes a job can undergo, each as an event and the state that follows from it. Stores write both and decide
 *  nothing themselves; `next` is always `evolve(job, event)`. */
import { failureOf } from "./classify.ts";
import { type Counters, type Decision, decide } from "./decide.ts";
import { EVENT_FORMAT, type JobEventBody, type StoredDecision } from "./event.ts";
import { BEFORE, evolve, type Happened } from "./fold.ts";
import { addUsage, type Job, type JobProgressFields, type Usage } from "./job.ts";
import type { Outcome } from "./outcome.ts";

export interface Transition {
  readonly event: JobEventBody;
  readonly next: JobProgressFields;
}

export interface Settlement extends Transition {
  readonly decision: Decision;
}

/** Applies an outcome: the usage of the run is added first, so that the budget it broke is seen by the decision. */
export function settleJob(job: Job, outcome: Outcome, usage: Usage | null, now: number, random: number): Settlement {
  const spent = usage === null ? job : { ...job, usage: addUsage(job.usage, usage) };
  const decision = decide(spent, outcome, now, random);
  const event = endedEvent(job, outcome, decision, usage);
  return { decision, event, next: evolve(job, happened(event, now)) };
}

/** An event at its instant. Not by spreading: that costs more than the whole decision. */
export function happened({ name, data }: JobEventBody, at: number): Happened {
  return { name, data, at } as Happened;
}

function endedEvent(job: Job, outcome: Outcome, decision: Decision, usage: Usage | null): JobEventBody {
  const counters = moved(job, decision.counters);
  const waits = decision.kind === "retry" && job.expireInMs !== null;
  const data = {
    v: EVENT_FORMAT,
    attempt: job.attempt,
    decision: stored(decision),
    ...(counters === null ? {} : { counters }),
    ...(usage === null ? {} : { usage }),
    ...(waits ? { expiresAt: decision.runAt + (job.expireInMs as number) } : {}),
  };
  switch (outcome.kind) {
    case "completed":
      if (decision.kind === "succeed") return { name: "attempt.succeeded", data };
      return { name: "attempt.failed", data: { ...data, failure: withoutStack(outcome) } };
    case "failed":
      return { name: "attempt.failed", data: { ...data, failure: withoutStack(outcome) } };
    case "timeout":
      return { name: "attempt.timed_out", data: { ...data, failure: withoutStack(outcome) } };
    case "lost": {
      const { why, session, by, renewedAt } = outcome;
      return { name: "attempt.lost", data: { ...data, why, session, by, renewedAt } };
    }
    case "interrupted":
    case "released":
      return { name: "attempt.interrupted", data: { ...data, why: outcome.kind } };
    case "queue_timeout":
    case "deadline":
      return { name: "job.queue_timeout", data: { ...data, why: outcome.kind } };
  }
}

function withoutStack(outcome: Parameters<typeof failureOf>[0]) {
  const { stack: _, ...rest } = failureOf(outcome);
  return rest;
}

const SUCCEEDED: StoredDecision = { kind: "succeed", step: 1, class: "completed", matched: "completed" };

/** The event of a run that succeeded and moved no counter, as text: only the number differs between them. */
export function succeededText(attempt: number): string {
  return JSON.stringify({ v: EVENT_FORMAT, attempt, decision: SUCCEEDED });
}

function stored(decision: Decision): StoredDecision {
  if (decision.kind === "succeed" && decision.conditionError === undefined) return SUCCEEDED;
  const { counters: _, charge, ...rest } = decision;
  return charge === null ? rest : { charge, ...rest };
}

const COUNTERS = [
  "failures",
  "losses",
  "defers",
  "handbacks",
  "streak",
  "streakSession",
  "ruleCounts",
] as const satisfies readonly (keyof Counters)[];

/** The counters that differ from the job's, or null when none does: most runs succeed and move nothing. */
function moved(job: Job, counters: Counters): Partial<Counters> | null {
  let changes: Record<string, unknown> | null = null;
  for (const name of COUNTERS) {
    if (counters[name] === job[name]) continue;
    changes ??= {};
    changes[name] = counters[name];
  }
  return changes as Partial<Counters> | null;
}

type StartedEvent = JobEventBody & { name: "attempt.started" };

export function startedData(attempt: number, session: string, worker: string): StartedEvent["data"] {
  return { v: EVENT_FORMAT, attempt, session, worker };
}

export const DEFAULT_PRIORITY = 5;

/** The same as text, for stores that write thousands at a time: only the number differs between them. */
export function startedText(session: string, worker: string): (attempt: number) => string {
  const rest = JSON.stringify({ session, worker }).slice(1);
  return (attempt) => `{"v":${EVENT_FORMAT},"attempt":${attempt},${rest}`;
}

/** What is as usual is not written: most jobs have no labels, deadline or timeout. */
export function submitJob(
  job: Pick<Job, "kind" | "queue" | "namespace" | "runAt" | "expireInMs" | "policy"> &
    Partial<Pick<Job, "labels" | "priority" | "timeoutMs" | "deadlineAt">>,
  now: number,
): Transition {
  const { labels = {}, priority = DEFAULT_PRIORITY, timeoutMs = null, deadlineAt = null } = job;
  const event: JobEventBody = {
    name: "job.submitted",
    data: {
      v: EVENT_FORMAT,
      state: "queued",
      runAt: job.runAt,
      expiresAt: job.expireInMs === null ? null : job.runAt + job.expireInMs,
      kind: job.kind,
      queue: job.queue,
      namespace: job.namespace,
      maxAttempts: job.policy.maxAttempts,
      ...(Object.keys(labels).length === 0 ? {} : { labels }),
      ...(priority === DEFAULT_PRIORITY ? {} : { priority }),
      ...(timeoutMs === null ? {} : { timeoutMs }),
      ...(deadlineAt === null ? {} : { deadlineAt }),
    },
  };
  return { event, next: evolve(BEFORE, happened(event, now)) };
}
