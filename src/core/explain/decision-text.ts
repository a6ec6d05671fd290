/** One decision in words: what ended, which rule decided and why, the delay, what was charged, and what to do about a
 *  failed job. */
import { shortageText } from "../decision/budget.ts";
import { type Charge, type Delay, MAX_HANDBACKS } from "../decision/decide.ts";
import { chanceText } from "../decision/evidence.ts";
import type { Failure } from "../decision/failure.ts";
import { type Match, matchLine, matchName, matchPart } from "../decision/match.ts";
import { showMs } from "../duration.ts";
import { counted, quoted, showAt, showText } from "../format.ts";
import type { JobEvent, StoredDecision } from "../job/event.ts";
import type { FailReason, JobProgressFields, Usage } from "../job/job.ts";

// A stored decision in words: what was decided and why, what was charged, how the delay came about.

/** An event that carries a decision: the end of an attempt, or of a wait that was too long. */
export type DecidedEvent = Extract<JobEvent, { data: { decision: StoredDecision } }>;
export type ShownFailure = Omit<Failure, "stack">;

/** Who asked for something, and when. */
export interface CommandOrigin {
  readonly at: number;
  readonly by: string | null;
}

/** A decided event with what its own data leaves out. */
export interface DecisionInHistory {
  readonly event: DecidedEvent;
  /** The job once the event had been applied. */
  readonly after: JobProgressFields;
  /** A `defer` rule granted the retry. */
  readonly deferred: boolean;
  readonly cancel: CommandOrigin | null;
}

export function isDecided(event: JobEvent): event is DecidedEvent {
  return "decision" in event.data;
}

/** The decision as lines that stand, indented, below what they decide on. */
export function tellDecision(decided: DecisionInHistory): string[] {
  const { decision, failure } = decided.event.data;
  if (decision.kind === "succeed") return tooLate(decided.cancel);
  const verdict = decision.kind === "fail" ? `fail as ${decision.reason}` : decided.deferred ? "defer" : decision.kind;
  const lines = [`  Decision: ${verdict}, because ${because(decided)}${otherwise(decided)}; ${charged(decided)}.`];
  if (decision.runAt !== undefined && decision.delay !== undefined) {
    lines.push(`  Next run due at ${showAt(decision.runAt)}, ${delayed(decision, decision.delay, failure)}.`);
  }
  return lines;
}

function tooLate(cancel: CommandOrigin | null): string[] {
  if (cancel === null) return [];
  return [`  The cancel requested at ${showAt(cancel.at)} came too late: the work was done.`];
}

/** The clause that follows "because". */
export function because({ event, after, deferred, cancel }: DecisionInHistory): string {
  const { decision, failure } = event.data;
  switch (decision.step) {
    case "completed":
      return "the task completed";
    case "cancel":
      return cancel === null ? "a cancel had been requested" : `a cancel was requested ${askedBy(cancel)}`;
    case "budget":
      return decision.shortage === undefined
        ? budgetWords(decision.detail, after.usage)
        : shortageText(decision.shortage);
    case "children":
      return "its children are to end first";
    case "deadline":
      return "its deadline for starting had passed";
    case "poison":
      return `the poison guard stopped it: ${decision.detail} in different sessions${proofWords(event, after)}`;
    case "exhausted":
      return usedUp(decision);
    case "elapsed":
      return "the next run would have come later than maxElapsed after the first start of this chapter";
    case "handback":
    case "not_retryable":
    case "retry":
      return matchWords(decision, deferred ? "defer" : decision.kind, failure);
  }
}

/** Why the losses are the job's doing. */
function proofWords(event: DecidedEvent, { evidence }: JobProgressFields): string {
  if (event.name !== "attempt.lost" || event.data.crash === undefined) return "";
  return `, the last of them while it was alone in its worker; that workers die by themselves in such a row has a chance of ${chanceText(evidence)}`;
}

/** A spent budget hides what the policy would have said without it. */
function otherwise({ event }: DecisionInHistory): string {
  const { decision, failure } = event.data;
  const isLoss = decision.class === "lost" && decision.step === "exhausted";
  if (isLoss || (decision.step !== "exhausted" && decision.step !== "elapsed")) return "";
  return ` (else it would be retried, as ${matchWords(decision, "retry", failure)})`;
}

export function askedBy({ at, by }: CommandOrigin): string {
  return `at ${showAt(at)} by ${by === null ? "someone who gave no name" : quoted(by)}`;
}

function budgetWords(detail: string | null | undefined, usage: Usage | null): string {
  if (detail === "reported") return "the task itself reported that its budget is exceeded";
  const what = detail === "costUsd" ? "money" : "tokens";
  return `its budget of ${what} is used up${usage === null ? "" : ` (${usageWords(usage)} over all attempts)`}`;
}

export function usageWords({ tokensIn, tokensOut, costUsd }: Usage): string {
  return `${tokensIn} tokens in, ${tokensOut} tokens out, ${costUsd} USD`;
}

function usedUp(decision: StoredDecision): string {
  const { match, charge } = decision;
  if (charge == null) return "what it may be charged is used up";
  if (decision.class !== "lost") return chargeWords(charge);
  const shared = charge.to === "maxAttempts" ? ", lost ones included" : "";
  const cause = match?.by === "handbacks" ? `${matchWords(decision, "retry", undefined)}, and ` : "";
  return `${cause}${chargeWords(charge)}${shared}`;
}

function chargeWords({ to, used, limit }: Charge): string {
  if (to === "workerLost")
    return `it was lost ${counted(used, "time")} and ${grants(limit)} granted after lost workers`;
  if (to !== "maxAttempts") return `${to} matched ${counted(used, "time")} and ${grants(limit)} granted by it`;
  return limit === 1 ? "the only run it may be charged is used up" : `all ${limit} runs it may be charged are used up`;
}

function grants(limit: number): string {
  if (limit === 0) return "no retry is";
  return limit === 1 ? "only 1 retry is" : `only ${limit} retries are`;
}

/** What the matched rule, list, condition or switch says; `then` is its own verdict, before any budget. */
function matchWords(
  { match, conditionError, class: cls }: StoredDecision,
  then: StoredDecision["kind"] | "defer",
  failure: ShownFailure | undefined,
): string {
  if (match === undefined) return "of something that this version does not know";
  if (conditionError !== undefined) {
    return `${matchName(match)} could not be evaluated (${showText(conditionError)}), which means no retry`;
  }
  switch (match.by) {
    case "rule":
      return `${matchName(match)}, rule ${match.index + 1} of its policy, matched this failure${partText(match)}`;
    case "preset":
      return `a rule of the preset ${quoted(match.preset)} matched this failure${partText(match)}`;
    case "handbacks":
      return `it was ${matchName(match)}, which counts as a lost worker`;
    case "task":
      if (failure?.code === "malformed_result")
        return "its result.json cannot be used, which another run would not change";
      return "the task itself said that another run cannot help";
    case "invalidInput":
      return "its input can never work";
    case "condition":
      if (match.condition === "stopWhen") return "stopWhen is true";
      if (cls === "polled") return "its result matches retryWhen";
      return then === "fail" ? "retryWhen is not true" : "retryWhen is true";
    case "onTimeout":
      return `onTimeout is set to ${then}`;
    case "onUnknown":
      return `onUnknown is set to ${then}, and no rule, list or condition matched this failure${partText(match)}`;
    case "queueTimeout":
      return "a job that nobody started in time is queued again while its budget lasts";
    case "exitCodes": {
      const code = failure?.exitCode ?? null;
      const exit = code === null ? "a failure without an exit code" : `exit code ${code}`;
      return `${exit} is ${match.code === undefined ? "not in" : "in"} ${match.list}`;
    }
    case "list":
      if (match.entry === undefined) return `its message has a part that ${match.list} lists`;
      return `${match.list} ${quoted(match.entry)} matched ${quoted(match.line ?? "")}`;
    case "loss":
      return "a lost worker is not the job's fault";
    case "interrupted":
      return "the worker was shutting down";
    case "released":
      return "it had not been started";
  }
}

/** Of a rule: its conditions with the values that matched, and the line in which a part of a message was found. */
function partText(match: Match): string {
  const [part, line] = [matchPart(match), matchLine(match)];
  if (part === null) return "";
  return line === null ? ` (${showText(part)})` : `: ${showText(part)} matched ${quoted(line)}`;
}

/** What the decision cost, "run 7, 4 of 5 charged" for the job's own budget. */
function charged({ event, after, deferred }: DecisionInHistory): string {
  const { decision, attempt } = event.data;
  const { charge } = decision;
  if (charge != null) {
    const { to, used, limit, left } = charge;
    if (to === "workerLost") return `loss ${used}, ${left} of ${limit} retries after lost workers left`;
    if (to !== "maxAttempts") return `charged to ${to} alone: match ${used}, ${left} of its ${limit} retries left`;
    return `${event.name === "job.queue_timeout" || event.name === "job.over_budget" ? "" : `run ${attempt}, `}${used} of ${limit} charged, ${left} left`;
  }
  if (deferred) return `nothing charged (deferral ${after.defers} of this chapter)`;
  if (after.handbacks === 0) return "nothing charged";
  return `nothing charged (handed back ${counted(after.handbacks, "time")} in a row; number ${MAX_HANDBACKS} counts as a loss)`;
}

function delayed({ step }: StoredDecision, delay: Delay, failure: ShownFailure | undefined): string {
  if (step === "handback")
    return delay.delayMs === 0 ? "at once" : `${showMs(delay.delayMs)} later and not in the same session`;
  const parts = [delay.baseMs === 0 ? "no backoff" : `backoff ${showMs(delay.baseMs)}`];
  if (delay.jitter !== 0) parts.push(`jitter ${percent(delay.jitter)}`);
  const asked = failure?.retryAfterMs ?? null;
  if (asked !== null) parts.push(`Retry-After ${showMs(asked)}${honoured(asked, delay.retryAfterMs)}`);
  return `${delay.delayMs === 0 ? "at once" : `${showMs(delay.delayMs)} later`} (${parts.join(", ")})`;
}

function honoured(askedMs: number, takenMs: number | undefined): string {
  if (takenMs === undefined) return ", not honoured by this policy";
  return takenMs < askedMs ? `, cut to ${showMs(takenMs)}` : "";
}

function percent(ratio: number): string {
  const rounded = Number((ratio * 100).toFixed(1)); // of either sign where it rounds to zero: "0 %" then
  return `${rounded > 0 ? "+" : ""}${rounded} %`;
}

// Why a job was run again, as data: one entry for each retry that was granted and for each redrive. In neutral terms;
// a dialect may have a term of its own for it. Attempts that were handed back unharmed, or wait for children, are no
// retries.

export interface RetryRecord {
  readonly at: number;
  /** The attempt that ended; null where none did: nobody started it in time, or a person asked for another. */
  readonly attempt: number | null;
  /** What the end counted as (`failure`, `timeout`, `lost`, `queue_timeout`, `polled`), or `redrive`. */
  readonly cause: string;
  /** The rule, list, condition or switch that granted it; null for a redrive. */
  readonly match: Match | null;
  readonly failure: ShownFailure | null;
}

/** A retry with its place in a story. */
export interface RetryWithLine extends RetryRecord {
  /** The last line about it, as an index of the story's lines. */
  readonly line: number;
}

/** Null for an event that grants no retry. */
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

// What an operator can do about a job that failed for good: the way on depends on why it ended.

/** Long sentences on purpose: they are read once, at night, by someone who has never seen this reason before. */
export function adviceOn(
  reason: FailReason,
  { event }: DecisionInHistory,
  { kind, queue }: { readonly kind: string; readonly queue: string },
): string {
  const { charge, detail } = event.data.decision;
  switch (reason) {
    case "exhausted": {
      const more = charge == null || charge.to === "maxAttempts" ? "maxAttempts" : `maxRetries of ${charge.to}`;
      return `Fix the cause and redrive it: that opens a new chapter with a fresh budget. To grant later jobs more runs, raise ${more}.`;
    }
    case "lost": {
      const more = charge == null || charge.to === "maxAttempts" ? "maxAttempts" : "workerLost.maxRetries";
      return `Look on the workers named above for what ended them (memory, preemption, a deploy, the network), then redrive it. To grant later jobs more runs, raise ${more}.`;
    }
    case "rejected":
      return "Correct what the failure names, then redrive it. If such a failure ought to be retried, change the policy: for this job with the redrive, for later ones where they are submitted.";
    case "invalid":
      return "A redrive would fail the same way: submit it again with a correct input, and discard this one.";
    case "timeout":
      return "Find out what made it slow, then redrive it. If it needs longer, redrive it with a longer timeout.";
    case "budget":
      if (detail === "elapsed")
        return "Fix the cause and redrive it: the time its retries may take (maxElapsed) starts anew.";
      if (detail === "reported")
        return "Raise the budget that the task itself goes by, then redrive it, or submit it again with a larger one.";
      return "What was used counts over all redrives, and a budget covers all jobs below the one that has it. To grant more, redrive it with --budget, or submit it again with a larger budget.";
    case "unschedulable":
      if (detail === "deadline") {
        return "The deadline stays passed, so a plain redrive would end the same way: redrive it with a later deadline, or discard it.";
      }
      return `Start a worker that takes kind ${quoted(kind)} from queue ${quoted(queue)} with the labels the job asks for (if any), or resume the queue if it is paused; then redrive it.`;
    case "poison":
      return "It probably brings its workers down. Look at their logs and memory first: a redrive exposes workers to it again.";
  }
}
