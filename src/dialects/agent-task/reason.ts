/** Why an attempt ended, in the words of `status.history[].reason`: `completed`, or one of three kinds of failure. Transient is
 *  what its pod did, logical what the agent said, budget what it cost. What was final because nobody would have healed it, as
 *  a wrong key, is told as logical: so the document's table has it. */
import type { JobEvent, StoredDecision } from "../../core/event.ts";
import { failureText } from "../../core/failure-text.ts";
import type { AttemptRow } from "../../core/views.ts";

export type EndedEvent = Extract<JobEvent, { data: { decision: StoredDecision } }>;

export function isEnded(event: JobEvent): event is EndedEvent {
  return "decision" in event.data;
}

/** The decisions that closed attempts, by attempt. A wait that ran out closes none, nor does a start that was refused. */
export function decisionsOf(events: readonly JobEvent[]): ReadonlyMap<number, StoredDecision> {
  const ended = events.filter(isEnded).filter(({ name }) => name.startsWith("attempt."));
  return new Map(ended.map(({ data }) => [data.attempt, data.decision]));
}

export type EndedAttempt = Pick<AttemptRow, "attempt" | "outcome" | "failure">;

export const COMPLETED = "completed";
export const WAITING = "waiting for children";
export const CANCELLED = "cancelled";
const LOGICAL = "logical: ";

export function attemptReason({ outcome, failure }: EndedAttempt, decision: StoredDecision | undefined): string {
  if (decision?.kind === "cancel") return CANCELLED;
  const message = failure === null ? "" : failureText(failure);
  if (decision?.kind === "fail" && decision.reason === "budget") {
    return decision.detail === "reported" ? `budget: ${message}` : `budget: ${budgetWord(decision.detail)} exceeded`;
  }
  switch (outcome) {
    case "completed":
      // A result that a condition sends round again is not what was wanted of it.
      return decision === undefined || decision.kind === "succeed" ? COMPLETED : transient(message);
    case "waiting":
      return WAITING;
    case "timeout":
      return transient("timeout");
    case "lost":
      return transient("worker lost");
    case "interrupted":
    case "released":
      return transient(`${outcome}, nothing charged`);
  }
  const isFinal = decision?.kind === "fail" && (decision.reason === "rejected" || decision.reason === "invalid");
  if (failure === null) return transient(outcome);
  if (failure.class !== "transient" || isFinal) return `${LOGICAL}${message}`;
  if (failure.kind === "oom") return transient("OOMKilled");
  // A malformed result.json after a good end is one of kind `result`. Either way the message says what is wrong with it.
  const hasNone = (failure.kind === "exit" || failure.kind === "signal") && failure.code !== "malformed_result";
  return transient(hasNone ? "pod failed without result.json" : message);
}

function transient(what: string): string {
  return `transient: ${what}`;
}

/** Which of a task's budgets it was; the time for all retries is one that no manifest can set. */
function budgetWord(detail: string | null | undefined): string {
  if (detail === "tokens") return "maxTokens";
  return detail === "costUsd" ? "maxCostUsd" : "maxElapsed";
}

/** What went wrong, as `lastFailureReason`: "exit code 7: entrypoint crash". Null for an end that is no failure. */
export function failureReason(attempt: EndedAttempt, decision: StoredDecision | undefined): string | null {
  const reason = attemptReason(attempt, decision);
  if (reason === COMPLETED || reason === WAITING || reason === CANCELLED) return null;
  if (attempt.outcome === "interrupted" || attempt.outcome === "released") return null;
  if (attempt.outcome === "lost") return "worker lost";
  if (reason.startsWith("budget: ")) return reason;
  if (reason.startsWith(LOGICAL)) return reason.slice(LOGICAL.length);
  return attempt.failure === null ? reason : failureText(attempt.failure);
}

/** What was used up when no retry was left; null where none had been granted, so that none is exhausted. Lost workers, and
 *  rules, may have a budget of their own. */
export function usedUp({ step, reason, charge }: StoredDecision, maxAttempts: number): string | null {
  if (step !== 8 && reason !== "lost") return null;
  const to = charge?.to ?? "maxAttempts";
  if (to === "maxAttempts") return maxAttempts > 1 ? `all ${maxAttempts} runs are used` : null;
  const limit = charge?.limit ?? 0;
  if (limit === 0) return null;
  const granted = to === "workerLost" ? "granted after a lost worker" : `of ${to}`;
  return limit === 1 ? `the one retry ${granted} is used` : `all ${limit} retries ${granted} are used`;
}

/** Instants as manifests write them, in whole seconds: `2026-02-09T19:22:56Z`. */
export function wholeSeconds(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : `${date.toISOString().slice(0, 19)}Z`;
}
