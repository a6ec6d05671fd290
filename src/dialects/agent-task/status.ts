/** The status of an AgentTask: phase, conditions and the reason of each attempt. */

import { isPlain } from "../../core/check.ts";
import { chargedAttempts, shortageText } from "../../core/decision/budget.ts";
import { failureText } from "../../core/decision/failure.ts";
import { counted } from "../../core/format.ts";
import type { JobEvent, StoredDecision } from "../../core/job/event.ts";
import type { AttemptRow, JobInfo } from "../../core/job/views.ts";
import type { ViewParts } from "../dialect.ts";

// Why an attempt ended, for `status.history[].reason`: `completed`, or one of three kinds of failure. Transient is what
// its pod did, logical what the agent reported, budget what it cost. A failure that a retry would not fix, such as a
// wrong key, is logical, as in the document's table.

export type AgentEndedEvent = Extract<JobEvent, { data: { decision: StoredDecision } }>;

export function isEnded(event: JobEvent): event is AgentEndedEvent {
  return "decision" in event.data;
}

/** The decisions that closed attempts, by attempt. An expired wait closes none, nor does a refused start. */
function decisionsOf(events: readonly JobEvent[]): ReadonlyMap<number, StoredDecision> {
  const ended = events.filter(isEnded).filter(({ name }) => name.startsWith("attempt."));
  return new Map(ended.map(({ data }) => [data.attempt, data.decision]));
}

type AgentEndedAttempt = Pick<AttemptRow, "attempt" | "outcome" | "failure">;

const COMPLETED = "completed";
const WAITING = "waiting for children";
const CANCELLED = "cancelled";
const LOGICAL = "logical: ";

export function attemptReason({ outcome, failure }: AgentEndedAttempt, decision: StoredDecision | undefined): string {
  if (decision?.kind === "cancel") return CANCELLED;
  const message = failure === null ? "" : failureText(failure);
  if (decision?.kind === "fail" && decision.reason === "budget") {
    return decision.detail === "reported" ? `budget: ${message}` : `budget: ${budgetWord(decision.detail)} exceeded`;
  }
  switch (outcome) {
    case "completed":
      // A result that a condition repeats is not a success.
      return decision === undefined || decision.kind === "succeed" ? COMPLETED : transient(message);
    case "waiting":
      return WAITING;
    case "timeout":
      return transient("timeout");
    case "lost":
      return transient("worker lost");
    case "interrupted":
    case "released":
      return transient(`${outcome}, not counted`);
  }
  const isFinal = decision?.kind === "fail" && (decision.reason === "rejected" || decision.reason === "invalid");
  if (failure === null) return transient(outcome);
  if (failure.class !== "transient" || isFinal) return `${LOGICAL}${message}`;
  if (failure.kind === "oom") return transient("OOMKilled");
  // A malformed result.json after exit code 0 has kind `result`. In both cases the message describes the problem.
  const hasNone = (failure.kind === "exit" || failure.kind === "signal") && failure.code !== "malformed_result";
  return transient(hasNone ? "pod failed without result.json" : message);
}

function transient(what: string): string {
  return `transient: ${what}`;
}

/** Which of a task's budgets was exceeded; a manifest cannot set the time for all retries. */
function budgetWord(detail: string | null | undefined): string {
  if (detail === "tokens") return "maxTokens";
  return detail === "costUsd" ? "maxCostUsd" : "maxElapsed";
}

/** The failure, for `lastFailureReason`: "exit code 7: entrypoint crash". Null for an end that is not a failure. */
export function failureReason(attempt: AgentEndedAttempt, decision: StoredDecision | undefined): string | null {
  const reason = attemptReason(attempt, decision);
  if (reason === COMPLETED || reason === WAITING || reason === CANCELLED) return null;
  if (attempt.outcome === "interrupted" || attempt.outcome === "released") return null;
  if (attempt.outcome === "lost") return "worker lost";
  if (reason.startsWith("budget: ")) return reason;
  if (reason.startsWith(LOGICAL)) return reason.slice(LOGICAL.length);
  return attempt.failure === null ? reason : failureText(attempt.failure);
}

/** What was used up when no retry was left; null if no retry was allowed at all. Lost workers, and rules, may have
 *  their own budget. */
export function usedUp({ step, charge }: StoredDecision, maxAttempts: number): string | null {
  if (step !== "exhausted") return null;
  const to = charge?.to ?? "maxAttempts";
  if (to === "maxAttempts") return maxAttempts > 1 ? `all ${maxAttempts} attempts are used` : null;
  const limit = charge?.limit ?? 0;
  if (limit === 0) return null;
  const granted = to === "workerLost" ? "granted after a lost worker" : `of ${to}`;
  return limit === 1 ? `the one retry ${granted} is used` : `all ${limit} retries ${granted} are used`;
}

/** Timestamps as in manifests, in whole seconds: `2026-02-09T19:22:56Z`. */
export function wholeSeconds(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : `${date.toISOString().slice(0, 19)}Z`;
}

export type AgentPhase =
  | ("Pending" | "Running" | "Retrying" | "Waiting")
  | ("Completed" | "Failed" | "TimedOut" | "BudgetExceeded" | "Cancelled");

interface AgentAttempt {
  readonly attempt: number;
  readonly startTime: string;
  readonly endTime: string;
  /** Absent for a lost attempt, or one without an exit code. */
  readonly exitCode?: number;
  readonly reason: string;
}

export interface AgentStatus {
  readonly phase: AgentPhase;
  /** Attempts started so far. */
  readonly attempts: number;
  readonly message: string;
  /** Ended attempts. */
  readonly history: readonly AgentAttempt[];
  readonly lastFailureReason?: string;
  readonly lastFailureTime?: string;
  /** While it is `Retrying`. */
  readonly nextRetryTime?: string;
  /** Over all attempts. */
  readonly usage?: { readonly tokensIn: number; readonly tokensOut: number; readonly costUsd: number };
  /** The agent's `output` in its result.json. */
  readonly output?: unknown;
}

export function agentStatus({
  job,
  attempts,
  events,
  now = events.at(-1)?.at ?? job.submittedAt,
}: Pick<ViewParts, "job" | "attempts" | "events" | "now">): AgentStatus {
  const decisions = decisionsOf(events);
  const phase = agentPhase(job, events, now);
  const history = attempts.map((each): AgentAttempt => {
    const exitCode = exitCodeOf(job, each.outcome, each.failure?.exitCode ?? null, each.result);
    return {
      ...{ attempt: each.attempt, startTime: wholeSeconds(each.startedAt), endTime: wholeSeconds(each.endedAt) },
      ...(exitCode === null ? {} : { exitCode }),
      reason: attemptReason(each, decisions.get(each.attempt)),
    };
  });
  const failed = attempts.findLast((each) => failureReason(each, decisions.get(each.attempt)) !== null);
  const lastFailureReason = failed === undefined ? null : failureReason(failed, decisions.get(failed.attempt));
  const output = job.state === "succeeded" ? outputOf(job) : undefined;
  return {
    ...{
      phase,
      attempts: job.attempt,
      message: messageOf(job, phase, lastFailureReason, events),
      history,
    },
    ...(failed === undefined || lastFailureReason === null
      ? {}
      : { lastFailureReason, lastFailureTime: wholeSeconds(failed.endedAt) }),
    // A new second begins when the task is due, not before.
    ...(phase === "Retrying" ? { nextRetryTime: wholeSeconds(Math.ceil(job.runAt / 1_000) * 1_000) } : {}),
    ...(job.usage === null ? {} : { usage: job.usage }),
    ...(output === undefined ? {} : { output }),
  };
}

/** A task is `Retrying` until it is due; then it waits for a worker like any other. */
export function agentPhase(job: JobInfo, events: readonly JobEvent[], now: number): AgentPhase {
  switch (job.state) {
    case "queued":
      return job.attempt > 0 && isRetried(events) && now < job.runAt ? "Retrying" : "Pending";
    case "running":
      return "Running";
    case "blocked":
      return "Waiting";
    case "succeeded":
      return "Completed";
    case "cancelled":
      return "Cancelled";
    case "failed":
      if (job.reason === "timeout") return "TimedOut";
      // The time for all retries is not an agent's budget.
      return job.reason === "budget" && lastDecision(events)?.detail !== "elapsed" ? "BudgetExceeded" : "Failed";
  }
}

/** Whether a failure requeued it, and not a shutdown, the end of its children, or a command. */
function isRetried(events: readonly JobEvent[]): boolean {
  const last = events.findLast(
    (event) =>
      event.name === "job.redriven" ||
      event.name === "job.unblocked" ||
      (isEnded(event) && event.data.decision.class !== "handback"),
  );
  return last !== undefined && isEnded(last) && last.data.decision.kind === "retry";
}

function lastDecision(events: readonly JobEvent[]): StoredDecision | undefined {
  return events.findLast(isEnded)?.data.decision;
}

/** For a successful command the exit code is in its result; the rows of attempts keep it as text. */
function exitCodeOf({ kind }: JobInfo, outcome: string, failed: number | null, result: string | null): number | null {
  if (outcome !== "completed" || kind !== "exec") return failed;
  try {
    const value: unknown = JSON.parse(result ?? "null");
    const code = isPlain(value) ? (value as { exitCode?: unknown }).exitCode : 0;
    return typeof code === "number" ? code : 0;
  } catch {
    return 0;
  }
}

/** The output of a command; for other kinds the whole result. */
function outputOf({ kind, result }: JobInfo): unknown {
  if (kind !== "exec" || !isPlain(result)) return result ?? undefined;
  return (result as { output?: unknown }).output ?? undefined;
}

function messageOf(job: JobInfo, phase: AgentPhase, failure: string | null, events: readonly JobEvent[]): string {
  const decision = lastDecision(events);
  const { maxAttempts } = job.policy;
  const { used } = chargedAttempts(job);
  // For the budget that counted the last attempt: lost workers may have their own.
  const isOwn = decision?.charge?.to === "workerLost";
  const left = isOwn ? (decision?.charge?.left ?? 0) : Math.max(0, maxAttempts - used);
  const charged = `${used} of ${counted(maxAttempts, "run")} used`;
  const spent = isOwn ? (usedUp(decision, maxAttempts) ?? "no retry is allowed after a lost worker") : charged;
  switch (phase) {
    case "Pending":
      if (job.attempt === 0 || !isRetried(events)) return "waiting for a worker";
      return `due, waiting for a worker; attempt ${job.attempt} failed: ${failure}; retries left: ${left}`;
    case "Running":
      return `attempt ${job.attempt} is running; ${charged} before it`;
    case "Retrying":
      return `attempt ${job.attempt} failed: ${failure}; retries left: ${left}`;
    case "Waiting":
      return "waiting for its children";
    case "Completed":
      return job.attempt === 1 ? "completed" : `completed in attempt ${job.attempt}`;
    case "Cancelled":
      return "cancelled";
    case "BudgetExceeded":
      if (decision?.shortage !== undefined) return shortageText(decision.shortage);
      return failure ?? "the budget is spent";
    case "Failed":
    case "TimedOut":
      return job.reason === "exhausted" || job.reason === "lost" || job.reason === "timeout"
        ? `no retries left, ${spent}: ${failure}`
        : (failure ?? job.reason ?? "failed");
  }
}
