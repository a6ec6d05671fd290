/** A decision in sentences: what was decided and why, whether the attempt counts, the delay, and what an operator can do
 *  about a failed job. */
import { shortageText } from "../decision/budget.ts";
import { type Charge, type Delay, MAX_HANDBACKS } from "../decision/decide.ts";
import { chanceText } from "../decision/evidence.ts";
import type { Failure } from "../decision/failure.ts";
import { type Match, matchLine, matchName, matchPart } from "../decision/match.ts";
import { showMs } from "../duration.ts";
import { counted, quoted, showAt, showText } from "../format.ts";
import type { JobEvent, StoredDecision } from "../job/event.ts";
import type { FailReason, JobProgressFields, Usage } from "../job/job.ts";

/** An event that carries a decision: the end of an attempt, or of a wait that was too long. */
export type DecidedEvent = Extract<JobEvent, { data: { decision: StoredDecision } }>;
export type ShownFailure = Omit<Failure, "stack">;

/** Who requested something, and when. */
export interface CommandOrigin {
  readonly at: number;
  readonly by: string | null;
}

/** A decision with the facts that its event does not contain. */
export interface DecisionInHistory {
  readonly event: DecidedEvent;
  /** The job after the event. */
  readonly after: JobProgressFields;
  /** A `defer` rule granted the retry. */
  readonly deferred: boolean;
  readonly cancel: CommandOrigin | null;
  /** A lost attempt may not be repeated either: the policy allows one attempt. */
  readonly isAtMostOnce: boolean;
}

export function isDecided(event: JobEvent): event is DecidedEvent {
  return "decision" in event.data;
}

/** Whether a loss ended a job whose policy allows one attempt and no repetition after a loss, as `atMostOnce` does. */
export function endsAtMostOnce({ data }: DecidedEvent, maxAttempts: number): boolean {
  const { charge } = data.decision;
  return maxAttempts === 1 && charge?.to === "workerLost" && charge.limit === 0;
}

/** The decision as indented lines, for below the line about what ended. */
export function decisionLines(decided: DecisionInHistory): string[] {
  const { decision, failure } = decided.event.data;
  if (decision.kind === "succeed") return lateCancel(decided.cancel);
  const verdict = decision.kind === "fail" ? `fail (${decision.reason})` : decided.deferred ? "defer" : decision.kind;
  const lines = [`  Decision: ${verdict}: ${because(decided)}${otherwise(decided)}. ${counting(decided)}.`];
  if (decision.runAt !== undefined && decision.delay !== undefined) {
    lines.push(`  Next attempt at ${showAt(decision.runAt)}, ${delayText(decision, decision.delay, failure)}.`);
  }
  return lines;
}

function lateCancel(cancel: CommandOrigin | null): string[] {
  if (cancel === null) return [];
  return [`  The cancel requested ${originText(cancel)} came too late: the task had completed.`];
}

/** Why it was decided so, as a clause. */
export function because({ event, after, deferred, cancel, isAtMostOnce }: DecisionInHistory): string {
  const { decision, failure } = event.data;
  switch (decision.step) {
    case "completed":
      return "the task completed";
    case "cancel":
      return cancel === null ? "a cancel was requested" : `a cancel was requested ${originText(cancel)}`;
    case "budget":
      return decision.shortage === undefined
        ? budgetText(decision.detail, after.usage)
        : shortageText(decision.shortage);
    case "children":
      return "it waits for its children";
    case "deadline":
      return "its deadline for starting has passed";
    case "poison":
      return `stopped by the poison guard: ${decision.detail} in different sessions${proofText(event, after)}`;
    case "exhausted":
      return isAtMostOnce ? lostOnce(decision) : usedUp(decision);
    case "elapsed":
      return "the next attempt would start later than maxElapsed allows";
    case "handback":
    case "not_retryable":
    case "retry":
      return matchClause(decision, deferred ? "defer" : decision.kind, failure);
  }
}

/** Why the losses are attributed to the job. */
function proofText(event: DecidedEvent, { evidence }: JobProgressFields): string {
  if (event.name !== "attempt.lost" || event.data.crash === undefined) return "";
  return `, the last one alone in its worker; the chance that these workers exited for another reason is ${chanceText(evidence)}`;
}

/** The parts of a policy that a failure matches by itself. */
const NAMED: ReadonlySet<Match["by"]> = new Set(["rule", "preset", "list", "exitCodes", "condition"]);

/** What such a part would have decided if attempts or time were left. */
function otherwise({ event }: DecisionInHistory): string {
  const { decision, failure } = event.data;
  const isLoss = decision.class === "lost" && decision.step === "exhausted";
  const isNamed = decision.match !== undefined && NAMED.has(decision.match.by);
  if (isLoss || !isNamed || (decision.step !== "exhausted" && decision.step !== "elapsed")) return "";
  return ` (otherwise it would be retried: ${matchClause(decision, "retry", failure)})`;
}

/** `at 2026-10-01T03:00:00.000Z by "ops"`, without a name where none is known. */
export function originText({ at, by }: CommandOrigin): string {
  return `at ${showAt(at)}${by === null ? "" : ` by ${quoted(by)}`}`;
}

function budgetText(detail: string | null | undefined, usage: Usage | null): string {
  if (detail === "reported") return "the task reported that its budget is exceeded";
  const unit = detail === "costUsd" ? "cost" : "token";
  return `its ${unit} budget is used up${usage === null ? "" : ` (${usageText(usage)} in all attempts)`}`;
}

export function usageText({ tokensIn, tokensOut, costUsd }: Usage): string {
  return `${counted(tokensIn, "token")} in, ${counted(tokensOut, "token")} out, ${costUsd} USD`;
}

function lostOnce({ match }: StoredDecision): string {
  const cause =
    match?.by === "interrupted"
      ? "it was interrupted"
      : match?.by === "handbacks"
        ? `it was ${matchName(match)}`
        : "it was lost";
  return `${cause} and is set to run at most once`;
}

function usedUp(decision: StoredDecision): string {
  const { match, charge } = decision;
  if (charge == null) return "its attempts are used up";
  if (decision.class === "queue_timeout") return `no worker started it in time, and ${usedUpText(charge)}`;
  if (decision.class !== "lost") return usedUpText(charge);
  const shared = charge.to === "maxAttempts" ? ", including lost ones" : "";
  const cause = match?.by === "handbacks" ? `${matchClause(decision, "retry", undefined)}; ` : "";
  return `${cause}${usedUpText(charge)}${shared}`;
}

function usedUpText({ to, used, limit }: Charge): string {
  if (to === "workerLost") return `lost ${counted(used, "time")}; workerLost allows ${retries(limit)}`;
  if (to !== "maxAttempts") return `${to} matched ${counted(used, "time")} and allows ${retries(limit)}`;
  return limit === 1 ? "its only attempt is used up" : `all ${limit} attempts are used up`;
}

function retries(limit: number): string {
  return limit === 0 ? "no retries" : counted(limit, "retry", "retries");
}

/** What matched, and what it is set to do; `then` is its verdict before any limit applies. */
function matchClause(
  { match, conditionError, class: cls }: StoredDecision,
  then: StoredDecision["kind"] | "defer",
  failure: ShownFailure | undefined,
): string {
  if (match === undefined) return "for a reason that this version does not know";
  if (conditionError !== undefined) {
    return `${matchName(match)} could not be evaluated (${showText(conditionError)}), so it is not retried`;
  }
  switch (match.by) {
    case "rule":
      return `${matchName(match)} (rule ${match.index + 1} of the policy) matched this failure${partText(match)}`;
    case "preset":
      return `a rule of preset ${quoted(match.preset)} matched this failure${partText(match)}`;
    case "handbacks":
      return `${matchName(match)}, which counts as a lost worker`;
    case "task":
      if (failure?.code === "malformed_result")
        return "its result.json is not valid, and a retry would not change that";
      return "the task reported that a retry cannot help";
    case "invalidInput":
      return isNotStarted(failure)
        ? "the command could not be started on this worker; not retried"
        : "its input is invalid, and a retry would not change that";
    case "condition":
      if (match.condition === "stopWhen") return "stopWhen is true";
      if (cls === "polled") return "its result matches retryWhen";
      return then === "fail" ? "retryWhen is not true" : "retryWhen is true";
    case "onTimeout":
      return `timeouts are ${then === "fail" ? "not " : ""}retried (onTimeout: ${then})`;
    case "onUnknown":
      return `no rule matched${partText(match)}; unknown failures are ${then === "fail" ? "not " : ""}retried (onUnknown: ${then})`;
    case "queueTimeout":
      return "no worker started it in time, and attempts are left";
    case "exitCodes": {
      const code = failure?.exitCode ?? null;
      if (code === null) return `the failure has no exit code, and ${match.list} is set`;
      return `exit code ${code} is ${match.code === undefined ? "not in" : "in"} ${match.list}`;
    }
    case "list":
      if (match.entry === undefined) return `${match.list} matched its message`;
      return `${match.list} ${quoted(match.entry)} matched ${quoted(match.line ?? "")}`;
    case "loss":
      return "lost attempts are retried";
    case "interrupted":
      return "its worker was shutting down";
    case "released":
      return "the attempt had not started";
  }
}

/** The program or its working directory does not exist on the worker, or cannot be used. */
function isNotStarted(failure: ShownFailure | undefined): boolean {
  if (failure?.name === "SpawnError") return failure.code !== "E2BIG"; // The input itself is too long.
  return failure?.name === "WorkingDirectoryError";
}

/** The conditions of a rule with the values that matched, and the line in which a part of a message was found. */
function partText(match: Match): string {
  const [part, line] = [matchPart(match), matchLine(match)];
  if (part === null) return "";
  return line === null ? ` (${showText(part)})` : `: ${showText(part)} matched ${quoted(line)}`;
}

/** Whether the attempt counts against a limit, and what is left of that: `Attempt 2 of 5; 3 left`. */
function counting({ event, after, deferred }: DecisionInHistory): string {
  const { decision, attempt } = event.data;
  const { charge } = decision;
  if (charge != null) {
    const { to, used, limit, left } = charge;
    if (to === "workerLost")
      return `Not counted towards maxAttempts${decision.kind === "retry" ? ` (${lossCount(charge)})` : ""}`;
    if (to !== "maxAttempts") return `Counted only by ${to}: match ${used}, ${left} of ${limit} retries left`;
    if (event.name === "job.queue_timeout") return `Counted as attempt ${used} of ${limit}; ${left} left`;
    const share = after.chapter === 1 ? `counted as ${used} of ${limit}` : `${used} of ${limit} since the redrive`;
    return attempt === used
      ? `Attempt ${attempt} of ${limit}; ${left} left`
      : `Attempt ${attempt}, ${share}; ${left} left`;
  }
  if (deferred) return `Not counted as an attempt (deferral ${after.defers})`;
  if (after.handbacks === 0) return "Not counted as an attempt";
  return `Not counted as an attempt (handed back ${counted(after.handbacks, "time")} in a row; ${MAX_HANDBACKS} count as a loss)`;
}

/** `retry 1 of 100 after losses`. */
export function lossCount({ used, limit }: Pick<Charge, "used" | "limit">): string {
  return `retry ${used} of ${limit} after losses`;
}

function delayText({ step }: StoredDecision, delay: Delay, failure: ShownFailure | undefined): string {
  if (step === "handback") {
    return delay.delayMs === 0 ? "immediately" : `${showMs(delay.delayMs)} later and not in the same session`;
  }
  const parts = [delay.baseMs === 0 ? "no backoff" : `backoff ${showMs(delay.baseMs)}`];
  if (delay.jitter !== 0) parts.push(`jitter ${percent(delay.jitter)}`);
  const requested = failure?.retryAfterMs ?? null;
  if (requested !== null) parts.push(`Retry-After ${showMs(requested)}${honoured(requested, delay.retryAfterMs)}`);
  return `${delay.delayMs === 0 ? "immediately" : `${showMs(delay.delayMs)} later`} (${parts.join(", ")})`;
}

function honoured(requestedMs: number, usedMs: number | undefined): string {
  if (usedMs === undefined) return ", ignored by this policy";
  return usedMs < requestedMs ? `, limited to ${showMs(usedMs)}` : "";
}

function percent(ratio: number): string {
  const rounded = Number((ratio * 100).toFixed(1)); // may be -0, which prints as "0"
  return `${rounded > 0 ? "+" : ""}${rounded} %`;
}

// Why a job ran again, as data: one entry for each retry and for each redrive. Dialects translate the terms. An attempt
// that was handed back or that waits for children is not a retry.

export interface RetryRecord {
  readonly at: number;
  /** The attempt that ended; null after a queue timeout and for a redrive. */
  readonly attempt: number | null;
  /** The class of the end (`failure`, `timeout`, `lost`, `queue_timeout`, `polled`), or `redrive`. */
  readonly cause: string;
  /** The rule, list, condition or switch that granted it; null for a redrive. */
  readonly match: Match | null;
  readonly failure: ShownFailure | null;
}

/** A retry with its place in the text. */
export interface RetryWithLine extends RetryRecord {
  /** The index of the last line about it. */
  readonly line: number;
}

/** Null for an event that does not lead to a retry. */
export function retryIn(event: JobEvent): RetryRecord | null {
  if (event.name === "job.redriven") {
    return { at: event.at, attempt: null, cause: "redrive", match: null, failure: null };
  }
  if (!isDecided(event)) return null;
  const { attempt, decision, failure = null } = event.data;
  if (decision.kind !== "retry" || decision.class === "handback") return null;
  const ended = event.name === "job.queue_timeout" ? null : attempt;
  return { at: event.at, attempt: ended, cause: decision.class, match: decision.match ?? null, failure };
}

/** Of a job that attempts run: a run fails at a step, and has no attempts. */
export type AttemptFailReason = Exclude<FailReason, "step">;

/** What an operator can do about a failed job, in full sentences: the reader may never have seen this reason before. */
export function adviceOn(
  reason: AttemptFailReason,
  { event, isAtMostOnce }: DecisionInHistory,
  { kind, queue }: { readonly kind: string; readonly queue: string },
): string {
  const { decision, failure } = event.data;
  const { charge, detail } = decision;
  switch (reason) {
    case "exhausted": {
      const more = charge == null || charge.to === "maxAttempts" ? "maxAttempts" : `maxRetries of ${charge.to}`;
      return `Fix the cause, then redrive it; a redrive resets the attempt count. To allow later jobs more attempts, raise ${more}.`;
    }
    case "lost": {
      if (isAtMostOnce) return "Check whether the work was done, then redrive or discard the job.";
      const more = charge == null || charge.to === "maxAttempts" ? "maxAttempts" : "workerLost.maxRetries";
      return `Find out why the workers named above exited (memory, preemption, a deploy, the network), then redrive it. To allow later jobs more attempts, raise ${more}.`;
    }
    case "rejected":
      return "Fix what the failure reports, then redrive it. If such failures should be retried, change the policy: for this job with the redrive, for later jobs where they are submitted.";
    case "invalid":
      if (isNotStarted(failure))
        return "Install the program, make it executable or create the directory, then redrive the job.";
      return "A redrive would fail the same way. Submit the job again with a valid input, and discard this one.";
    case "timeout":
      return "Find out what made it slow, then redrive it. If it needs longer, redrive it with a longer timeout.";
    case "budget":
      if (detail === "elapsed")
        return "Fix the cause, then redrive it; the time limit for its retries (maxElapsed) starts again.";
      if (detail === "reported")
        return "Raise the budget that the task checks, then redrive it, or submit it again with a larger one.";
      return "Usage is counted across redrives, and a budget covers all descendants of its job. To grant more, redrive it with --budget, or submit it again with a larger budget.";
    case "unschedulable":
      if (detail === "deadline") {
        return "Redrive it with a later deadline, or discard it. A redrive with the same deadline would end the same way.";
      }
      return `Start a worker that takes kind ${quoted(kind)} from queue ${quoted(queue)} and has the labels of the job (if any), or resume the queue if it is paused; then redrive it.`;
    case "poison":
      return "It probably crashes its workers. Check their logs and memory before you redrive it: a redrive may crash workers again.";
  }
}
