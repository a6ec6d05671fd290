/** The changes of a job, each as an event and the state after it. Stores write both and decide nothing; `next` is always
 *  `evolve(job, event)`. */

import type { Mutable } from "../check.ts";
import { addAmount, amountOf, type BudgetNow, NO_BUDGETS, noStart } from "../decision/budget.ts";
import { type FailureOutcome, failureOf } from "../decision/classify.ts";
import { type Counters, type Decision, decide } from "../decision/decide.ts";
import { type Failure, lineBeside } from "../decision/failure.ts";
import { matchLine } from "../decision/match.ts";
import type { Outcome } from "../decision/outcome.ts";
import { RUN_KIND } from "../playbook/playbook.ts";
import type { PolicySources } from "../policy/policy-sources.ts";
import type { Report } from "../worker-protocol.ts";
import { type AttemptEndData, EVENT_FORMAT, type JobEventBody, type StoredDecision } from "./event.ts";
import { BEFORE, evolve, type TimedEvent } from "./fold.ts";
import { addUsage, type Job, type JobProgressFields, type Usage } from "./job.ts";

/** A change of a job: the event, and the state after it.
 *  @example
 *  const { event, next }: Transition = settleJob(running, outcome, null, Date.now(), 0.5); */
export interface Transition {
  readonly event: JobEventBody;
  readonly next: JobProgressFields;
}

export interface Submission extends Transition {
  readonly event: SubmittedBody;
}

/** The change that ends an attempt, with the decision behind it.
 *  @example
 *  const { decision, next }: Settlement = settleJob(running, outcome, null, Date.now(), 0.5); */
export interface Settlement extends Transition {
  readonly decision: Decision;
}

/** Applies an outcome. The usage of the attempt is added first, so that the decision includes it.
 *  @example
 *  const { decision, next } = settleJob(running, outcome, null, Date.now(), 0.5);
 *  console.log(decision.kind, next.state, next.runAt); */
export function settleJob(
  job: Job,
  outcome: Outcome,
  usage: Usage | null,
  now: number,
  random: number,
  budgets: readonly BudgetNow[] = NO_BUDGETS,
): Settlement {
  const spent = usage === null ? job : { ...job, usage: addUsage(job.usage, usage) };
  const decision = decide(spent, outcome, now, random, withSpent(budgets, usage));
  const event = endedEvent(job, outcome, decision, usage);
  return { decision, event, next: evolve(job, happened(event, now)) };
}

/** The usage of the attempt by its event. */
export function usageIn({ event }: Settlement): Usage | null {
  return ("usage" in event.data ? event.data.usage : null) ?? null;
}

function withSpent(budgets: readonly BudgetNow[], usage: Usage | null): readonly BudgetNow[] {
  if (usage === null || budgets.length === 0) return budgets;
  return budgets.map((budget) => ({ ...budget, spent: addAmount(budget.spent, amountOf(usage)) }));
}

/** For a job that is due and covered by budgets (without its own share): null where it may start, else how it ends instead. */
export function startJob(job: Job, now: number, budgets: readonly BudgetNow[]): Settlement | null {
  const shortage = noStart(job, budgets);
  return shortage === null ? null : settleJob(job, { kind: "over_budget", shortage }, null, now, 0, budgets);
}

/** An event with its instant. A spread would cost more than the whole decision. */
export function happened({ name, data }: JobEventBody, at: number): TimedEvent {
  return { name, data, at } as TimedEvent;
}

function endedEvent(job: Job, outcome: Outcome, decision: Decision, usage: Usage | null): JobEventBody {
  const counters = moved(job, decision.counters);
  const waits = decision.kind === "retry" && job.expireInMs !== null;
  // Set one by one: spreads would cost more than the decision.
  const data: Mutable<AttemptEndData> = { v: EVENT_FORMAT, attempt: job.attempt, decision: stored(decision) };
  if (counters !== null) data.counters = counters;
  if (usage !== null) data.usage = usage;
  if (waits) data.expiresAt = decision.runAt + (job.expireInMs as number);
  switch (outcome.kind) {
    case "completed":
      if (decision.kind === "succeed") return { name: "attempt.succeeded", data };
      data.failure = shownFailure(outcome, decision);
      return { name: "attempt.failed", data };
    case "failed":
      data.failure = shownFailure(outcome, decision);
      return { name: "attempt.failed", data };
    case "timeout":
      data.failure = shownFailure(outcome, decision);
      return { name: "attempt.timed_out", data };
    case "lost": {
      const { why, session, by, renewedAt, crash } = outcome;
      const lost = { ...data, why, session, by, renewedAt };
      return { name: "attempt.lost", data: crash === undefined ? lost : { ...lost, crash } };
    }
    case "waiting":
      return { name: "attempt.waiting", data: { ...data, waitsFor: outcome.children } };
    case "interrupted":
    case "released":
      return { name: "attempt.interrupted", data: { ...data, why: outcome.kind } };
    case "over_budget":
      return { name: "job.over_budget", data };
    case "queue_timeout":
    case "deadline":
      return { name: "job.queue_timeout", data: { ...data, why: outcome.kind } };
  }
}

/** Without the stack, and with the line that matched. */
function shownFailure(outcome: FailureOutcome, decision: Decision): Omit<Failure, "stack"> {
  const cause = failureOf(outcome);
  const { kind, class: cls, message, name, code, exitCode, signal, status, retryAfterMs } = cause;
  const shown = { kind, class: cls, message, name, code, exitCode, signal, status, retryAfterMs };
  const line = lineBeside(cause, matchLine(decision.match));
  return line === undefined ? shown : { ...shown, line };
}

/** The stored failure of an attempt, from its outcome and the event that ended it. That of a polled attempt is in the event. */
export function storedFailure(outcome: Report["outcome"], { data }: JobEventBody): object | null {
  const { failure: shown } = data as Partial<AttemptEndData>;
  if (!("failure" in outcome)) return shown ?? null;
  return shown?.line === undefined ? outcome.failure : { ...outcome.failure, line: shown.line };
}

const SUCCEEDED: StoredDecision = { kind: "succeed", step: "completed", class: "completed" };

/** The JSON of the event of an attempt that succeeded without changing a counter. */
export function succeededText(attempt: number): string {
  return JSON.stringify({ v: EVENT_FORMAT, attempt, decision: SUCCEEDED });
}

function stored(decision: Decision): StoredDecision {
  if (decision.kind === "succeed" && decision.conditionError === undefined) return SUCCEEDED;
  const { kind, step, class: cls, match, charge, conditionError } = decision;
  const data: Mutable<StoredDecision> = { kind, step, class: cls };
  if (match !== undefined) data.match = match;
  if (charge !== null) data.charge = charge;
  if (decision.kind === "retry") {
    data.runAt = decision.runAt;
    data.delay = decision.delay;
  }
  if (decision.kind === "fail") {
    data.reason = decision.reason;
    data.detail = decision.detail;
    if (decision.shortage !== undefined) data.shortage = decision.shortage;
  }
  if (conditionError !== undefined) data.conditionError = conditionError;
  return data;
}

const COUNTERS = [
  "failures",
  "losses",
  "defers",
  "handbacks",
  "streak",
  "streakSession",
  "evidence",
  "ruleCounts",
] as const satisfies readonly (keyof Counters)[];

/** The counters that differ from the job's; null where none does, as for most attempts. */
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
export const NO_LABELS: Readonly<Record<string, string>> = Object.freeze({});

/** The same as JSON, for stores that write thousands at a time. */
export function startedText(session: string, worker: string): (attempt: number) => string {
  const rest = JSON.stringify({ session, worker }).slice(1);
  return (attempt) => `{"v":${EVENT_FORMAT},"attempt":${attempt},${rest}`;
}

type SubmittedBody = JobEventBody & { name: "job.submitted" };

/** The JSON of the fields that most jobs of a list have in common, of the last job. */
let common: SubmitTextCache = { kind: "", queue: "", namespace: "", maxAttempts: -1, sources: undefined, text: "" };
type SubmitTextCache = Pick<SubmittedBody["data"], "kind" | "queue" | "namespace" | "maxAttempts"> & {
  readonly sources: PolicySources | undefined;
  readonly text: string;
};

/** The JSON of the event of a submit, for stores that write thousands at a time. */
export function submittedText(data: SubmittedBody["data"]): string {
  const { v, state, runAt, expiresAt, kind, queue, namespace, maxAttempts, sources } = data;
  const isUsual = data.labels === undefined && data.priority === undefined && data.by === undefined;
  if (
    !isUsual ||
    data.token !== undefined ||
    data.timeoutMs !== undefined ||
    data.deadlineAt !== undefined ||
    data.parentId !== undefined
  ) {
    return JSON.stringify(data);
  }
  const { kind: k, queue: q, namespace: n, maxAttempts: m, sources: s } = common;
  if (kind !== k || queue !== q || namespace !== n || maxAttempts !== m || sources !== s) {
    const text = JSON.stringify({ kind, queue, namespace, maxAttempts, sources }).slice(1);
    common = { kind, queue, namespace, maxAttempts, sources, text };
  }
  return `{"v":${v},"state":"${state}","runAt":${runAt},"expiresAt":${expiresAt},${common.text}`;
}

/** The submit of a job; one that is a run waits until the run has ended. Default values are not written: most jobs have no labels, deadline or timeout.
 *  @example
 *  const facts = { kind: "demo", queue: "default", namespace: "default", runAt: 0, expireInMs: null, policy: resolvePolicy(3) };
 *  const { next } = submitJob(facts, 0); */
export function submitJob(
  job: Pick<Job, "kind" | "queue" | "namespace" | "runAt" | "expireInMs" | "policy"> &
    Partial<Pick<Job, "labels" | "priority" | "timeoutMs" | "deadlineAt" | "parentId">> & {
      readonly sources?: PolicySources | null;
      readonly token?: string | null;
    },
  now: number,
  by: string | null = null,
): Submission {
  const { labels = NO_LABELS, priority = DEFAULT_PRIORITY, timeoutMs = null, deadlineAt = null } = job;
  const data: Mutable<SubmittedBody["data"]> = {
    v: EVENT_FORMAT,
    state: job.kind === RUN_KIND ? "blocked" : "queued",
    runAt: job.runAt,
    expiresAt: job.expireInMs === null ? null : job.runAt + job.expireInMs,
    kind: job.kind,
    queue: job.queue,
    namespace: job.namespace,
    maxAttempts: job.policy.maxAttempts,
  };
  if (labels !== NO_LABELS && Object.keys(labels).length > 0) data.labels = labels;
  if (priority !== DEFAULT_PRIORITY) data.priority = priority;
  if (timeoutMs !== null) data.timeoutMs = timeoutMs;
  if (deadlineAt !== null) data.deadlineAt = deadlineAt;
  if (job.parentId != null) data.parentId = job.parentId;
  if (by !== null) data.by = by;
  if (job.token != null) data.token = job.token;
  if (job.sources != null) data.sources = job.sources;
  const event: SubmittedBody = { name: "job.submitted", data };
  return { event, next: evolve(BEFORE, happened(event, now)) };
}
