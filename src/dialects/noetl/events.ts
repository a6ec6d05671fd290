/** The events of a job in NoETL's format, made from Perdure's. The sequences of NoETL's document:
 *
 *    attempt fails, is retried         action_started, action_error, step_retry
 *    attempt completes                 action_started, action_completed, step_completed
 *    last attempt fails                action_started, action_error, step_retry_exhausted, step_failed_terminal, execution_failed
 *    failure that is not retried       the same without step_retry_exhausted; step_failed_terminal has the reason
 *
 *  If `retry_when` matches the result of a completed attempt, action_completed comes before step_retry. A lost worker and a
 *  timeout are an action_error. The document has no other events, so these are Perdure's: action_released (returned, not
 *  counted), step_waiting and step_resumed (for children), step_queue_timeout, step_over_budget (not started),
 *  step_rescheduled, execution_restarted (a redrive), execution_cancel_requested, execution_cancelled, execution_discarded.
 *  action_started.context lacks `work` and `task`: the input of the job would be repeated for each attempt. */
import { shortageText } from "../../core/decision/budget.ts";
import { matchName } from "../../core/decision/match.ts";
import type { AttemptEndData, JobEvent, StoredDecision } from "../../core/job/event.ts";
import { counted, type NumberedEvent } from "../attempt-numbers.ts";
import type { ViewParts } from "../dialect.ts";
import { type NoetlNode, nodeOf, retryOf } from "./node.ts";

export type NoetlEventStatus = "STARTED" | "PENDING" | "COMPLETED" | "FAILED" | "CANCELLED";

export interface NoetlEvent extends NoetlNode {
  readonly execution_id: string;
  /** A whole number of up to 64 bits, as text; unique in a store, and in the order of events (`eventId`). */
  readonly event_id: string;
  readonly event_type: string;
  readonly status: NoetlEventStatus;
  readonly context: Readonly<Record<string, unknown>>;
  readonly result: unknown;
  readonly error: string | null;
  readonly timestamp: string;
}

type EventPart = Pick<NoetlEvent, "event_type" | "status" | "context"> & Partial<Pick<NoetlEvent, "result" | "error">>;
type NoetlEventContext = NoetlEvent["context"];

/** Fields that are the same for all events of a job. */
interface NoetlHistory {
  readonly parts: ViewParts;
  readonly maxAttempts: number;
  readonly isRetried: boolean;
}

export function noetlEvents(parts: ViewParts): NoetlEvent[] {
  return noetlEventGroups(parts).flatMap(({ rows }) => rows);
}

/** The rows that one stored event can have. An advance of a run has at most about 6,000 changes, with four numbers each. */
const ROWS_OF_EVENT = 65_536n;

/** Of the k-th row of a stored event. The SQL views count in the same way. */
export function eventId(seq: number, k: number): string {
  return String(BigInt(seq) * ROWS_OF_EVENT + BigInt(k));
}

/** The rows of each stored event, with its number. */
export function noetlEventGroups(parts: ViewParts): { readonly seq: number; readonly rows: readonly NoetlEvent[] }[] {
  const { job, events } = parts;
  const story: NoetlHistory = { parts, maxAttempts: job.policy.maxAttempts, isRetried: retryOf(job) !== null };
  const node = nodeOf(job);
  return counted(events).map((each) => {
    const timestamp = new Date(each.event.at).toISOString();
    const rows = partsOf(each, story).map(({ event_type, status, context, result, error }, k) => ({
      ...{ execution_id: job.id, event_id: eventId(each.event.seq, k), event_type, status, ...node, context },
      ...{ result: result ?? null, error: error ?? null, timestamp },
    }));
    return { seq: each.event.seq, rows };
  });
}

function partsOf(each: NumberedEvent, story: NoetlHistory): EventPart[] {
  const { event, attempt, chapter } = each;
  switch (event.name) {
    case "attempt.started": {
      const retry = { attempt, max_attempts: story.maxAttempts, is_retry: attempt > 1 };
      return [eventPart("action_started", "STARTED", { retry })];
    }
    case "attempt.succeeded":
    case "attempt.failed":
    case "attempt.timed_out":
    case "attempt.lost":
    case "attempt.waiting":
    case "attempt.interrupted":
    case "job.queue_timeout":
    case "job.over_budget":
      return [ended(each, event, story), ...consequences(each, event, story)];
    case "job.cancel_requested":
      return [eventPart("execution_cancel_requested", "PENDING", { by: event.data.by })];
    case "job.cancelled":
      return [eventPart("execution_cancelled", "CANCELLED", { by: event.data.by })];
    case "job.discarded":
      return [eventPart("execution_discarded", "FAILED", { by: event.data.by })];
    case "job.rescheduled":
    case "job.unblocked":
    case "job.redriven": {
      const { by, runAt } = event.data;
      const context = { by, available_at: new Date(runAt).toISOString() };
      if (event.name === "job.rescheduled") return [eventPart("step_rescheduled", "PENDING", context)];
      if (event.name === "job.unblocked") return [eventPart("step_resumed", "PENDING", context)];
      return [eventPart("execution_restarted", "PENDING", { ...context, chapter })];
    }
    default:
      return []; // the timeline has no submission
  }
}

type NoetlEndedEvent = JobEvent & { readonly data: AttemptEndData };

/** The events for the end of the attempt. */
function ended({ attempt }: NumberedEvent, event: NoetlEndedEvent, { parts }: NoetlHistory): EventPart {
  const { decision, failure } = event.data;
  const error = errorIn(event);
  if (event.name === "attempt.succeeded" || decision.class === "polled") {
    const noted = decision.conditionError === undefined ? {} : { condition_error: decision.conditionError };
    const result = event.name === "attempt.succeeded" ? parts.job.result : resultOf(parts, event.data.attempt);
    return eventPart("action_completed", "COMPLETED", { attempt, success: true, ...noted }, { result });
  }
  switch (event.name) {
    case "attempt.waiting":
      return eventPart("step_waiting", "PENDING", { attempt, waits_for: event.data.waitsFor });
    case "job.over_budget":
      return eventPart(
        "step_over_budget",
        "FAILED",
        { attempt, budget_of: decision.shortage?.jobId ?? null },
        { error },
      );
    case "job.queue_timeout":
      return eventPart("step_queue_timeout", "FAILED", { attempt, reason: event.data.why }, { error });
    case "attempt.interrupted":
      if (decision.class === "handback") {
        const context = { attempt, reason: event.data.why, delay_seconds: secondsOf(decision) };
        return eventPart("action_released", "PENDING", context);
      }
      return eventPart("action_error", "FAILED", { attempt, reason: event.data.why }, { error });
    case "attempt.lost":
      return eventPart("action_error", "FAILED", { attempt, reason: "worker_lost", why: event.data.why }, { error });
    default: {
      const status = failure?.status == null ? {} : { status_code: failure.status };
      const exit = failure?.exitCode == null ? {} : { exit_code: failure.exitCode };
      return eventPart("action_error", "FAILED", { attempt, ...status, ...exit }, { error });
    }
  }
}

/** The events for the step and the execution. */
function consequences(
  { attempt, next }: NumberedEvent,
  event: NoetlEndedEvent,
  { maxAttempts, isRetried, parts }: NoetlHistory,
): EventPart[] {
  const { decision } = event.data;
  const error = errorIn(event);
  switch (decision.kind) {
    case "succeed":
      return [eventPart("step_completed", "COMPLETED", { attempt }, { result: parts.job.result })];
    case "cancel":
      return [eventPart("execution_cancelled", "CANCELLED", { attempt }, { error })];
    case "block":
      return [];
    case "retry": {
      if (decision.class === "handback") return [];
      const numbers = { attempt, next_attempt: next, max_attempts: maxAttempts, delay_seconds: secondsOf(decision) };
      return [eventPart("step_retry", "PENDING", { ...numbers, last_error: error })];
    }
    case "fail": {
      const isSpent = decision.step === "exhausted";
      const attempts = { attempts: next - 1, max_attempts: maxAttempts };
      const exhausted = eventPart("step_retry_exhausted", "FAILED", attempts, { error });
      const reason = isSpent && !isRetried ? "no_retry_configured" : decision.reason;
      return [
        ...(isSpent && isRetried ? [exhausted] : []),
        eventPart("step_failed_terminal", "FAILED", { attempt, reason, ...decidedBy(decision, isSpent) }, { error }),
        eventPart("execution_failed", "FAILED", { reason }, { error }),
      ];
    }
  }
}

/** What decided, under its name in the document. */
function decisionName({ step, match }: StoredDecision): string {
  if (match === undefined) return step === "poison" ? "poison guard" : step;
  if (match.by === "condition") return match.condition === "retryWhen" ? "retry_when" : "stop_when";
  return matchName(match);
}

/** What stopped the retries, under its name in the document: the limit, or a condition, with the error if it could not
 *  be evaluated. */
function decidedBy(decision: StoredDecision, isSpent: boolean): NoetlEventContext {
  const { detail, conditionError } = decision;
  return {
    decided_by: isSpent ? "max_attempts" : decisionName(decision),
    ...(detail == null ? {} : { detail }),
    ...(conditionError === undefined ? {} : { condition_error: conditionError }),
  };
}

/** The error of an attempt, for people; null if there was none. */
export function errorIn(event: JobEvent): string | null {
  switch (event.name) {
    case "attempt.failed":
    case "attempt.timed_out":
      if (event.data.decision.class === "polled") return "the result matched retry_when";
      return event.data.failure?.message ?? null;
    case "attempt.lost":
      return `worker lost: ${event.data.why.replaceAll("_", " ")}`;
    case "attempt.interrupted":
      return event.data.decision.class === "handback" ? null : `worker lost: ${decisionName(event.data.decision)}`;
    case "job.over_budget":
      return shortageIn(event.data.decision);
    case "job.queue_timeout":
      return event.data.why === "deadline"
        ? "no worker started it before its deadline"
        : "no worker started it in time";
    default:
      return null;
  }
}

/** For an attempt that completed and is repeated. */
function resultOf({ attempts }: ViewParts, attempt: number): unknown {
  const text = attempts.find((each) => each.attempt === attempt)?.result ?? null;
  return text === null ? null : JSON.parse(text);
}

export function secondsOf({ delay }: StoredDecision): number | null {
  return delay === undefined ? null : delay.delayMs / 1_000;
}

function eventPart(
  event_type: string,
  status: NoetlEventStatus,
  context: NoetlEventContext,
  more: Partial<Pick<NoetlEvent, "result" | "error">> = {},
): EventPart {
  return { event_type, status, context, ...more };
}

function shortageIn({ shortage }: StoredDecision): string {
  return shortage === undefined ? "the budget is spent" : shortageText(shortage);
}
