/** Decides what follows an attempt, a lost lease, a timeout, an expiry or a spent budget. Pure: the same job, outcome, instant
 *  and random number give the same decision. The first of the steps that applies decides (`DECISION_STEPS`,
 *  docs/lifecycle.md). Only this module raises counters. */

import type { FailReason, Job } from "../job/job.ts";
import type { Backoff } from "../policy/policy.ts";
import { backoffMs } from "./backoff.ts";
import {
  amountOf,
  type BudgetNow,
  type BudgetShortage,
  chargedAttempts,
  NO_BUDGETS,
  spentAbove,
  spentPart,
} from "./budget.ts";
import { classify, type FailureOutcome, polled } from "./classify.ts";
import { DECISIVE, evidenceOf } from "./evidence.ts";
import type { DecisionStep, Match } from "./match.ts";
import type { Outcome } from "./outcome.ts";

/** The class of an outcome.
 *  @example
 *  const isLoss = (cls: DecisionClass) => cls === "lost"; */
export type DecisionClass =
  | "completed"
  | "polled"
  | "failure"
  | "timeout"
  | "queue_timeout"
  | "lost"
  | "handback"
  | "over_budget"
  | "waiting";

/** The limit that an attempt counts against, with the new count and what is left.
 *  @example
 *  const left = (charge: Charge) => `${charge.used} of ${charge.limit} ${charge.to}`; */
export interface Charge {
  readonly to: string;
  readonly used: number;
  readonly limit: number;
  readonly left: number;
}

/** The delay of a retry, and what it was computed from.
 *  @example
 *  const shown = ({ baseMs, delayMs }: Delay) => `${delayMs} ms (${baseMs} ms before jitter)`; */
export interface Delay {
  readonly baseMs: number;
  /** The drawn jitter, from -j to +j. */
  readonly jitter: number;
  readonly delayMs: number;
  /** The time that the failure requested, at most `retryAfterMax`; only where the policy honours it. */
  readonly retryAfterMs?: number;
}

/** The counters of a job that a decision may change.
 *  @example
 *  const { failures, losses }: Counters = running; */
export type Counters = Pick<
  Job,
  "failures" | "losses" | "defers" | "handbacks" | "streak" | "streakSession" | "evidence" | "ruleCounts"
>;

interface DecisionParts {
  readonly step: DecisionStep;
  readonly class: DecisionClass;
  /** The part of the policy or of the outcome that decided; absent where the step is enough. */
  readonly match?: Match;
  readonly charge: Charge | null;
  readonly counters: Counters;
  /** Why a condition could not be evaluated. */
  readonly conditionError?: string;
}
/** What follows an attempt, and why.
 *  @example
 *  const decision: Decision = decide(running, outcome, Date.now(), 0.5);
 *  if (decision.kind === "retry") console.log(decision.runAt); */
export type Decision =
  | (DecisionParts & { readonly kind: "succeed" })
  | (DecisionParts & { readonly kind: "cancel" })
  | (DecisionParts & {
      readonly kind: "fail";
      readonly reason: FailReason;
      readonly detail: string | null;
      readonly shortage?: BudgetShortage;
    })
  | (DecisionParts & { readonly kind: "block" })
  | (DecisionParts & { readonly kind: "retry"; readonly runAt: number; readonly delay: Delay });

/** This many interruptions and releases in a row count as a loss. */
export const MAX_HANDBACKS = 20;
/** The delay of a released job, so that a worker that cannot run it does not claim it again immediately. */
export const RELEASE_DELAY_MS = 1_000;
/** The least delay of a deferral. */
export const MIN_DEFER_MS = 1_000;

type DecisionFacts = Omit<DecisionParts, "step" | "match">;

/** Decides what follows an attempt. Pure: time and randomness are arguments. `budgets` are those that cover the job, the nearest
 *  first, with the usage of this attempt and without its reservation.
 *  @example
 *  const decision = decide(running, outcome, Date.now(), Math.random());
 *  console.log(decision.kind, decision.step, decision.match); */
export function decide(
  job: Job,
  outcome: Outcome,
  now: number,
  random: number,
  budgets: readonly BudgetNow[] = NO_BUDGETS,
): Decision {
  if (outcome.kind === "completed") {
    const again = polled(job, outcome);
    if (!again.value) return succeed(job, again.error);
  }
  if (job.cancelRequestedAt !== null) {
    return { kind: "cancel", step: "cancel", class: classOf(outcome), ...uncounted(job) };
  }
  const spent = outOfBudget(job, outcome, budgets);
  if (spent !== null) {
    const facts = { ...uncounted(job), class: classOf(outcome) };
    return { kind: "fail", reason: "budget", ...spent, step: "budget", ...facts };
  }
  switch (outcome.kind) {
    case "over_budget": {
      const { shortage } = outcome;
      const facts = { ...uncounted(job), class: "over_budget", detail: shortage.part, shortage } as const;
      return { kind: "fail", reason: "budget", step: "budget", ...facts };
    }
    case "waiting":
      return { kind: "block", step: "children", class: "waiting", ...uncounted(job) };
    case "interrupted":
    case "released":
      return handBack(job, outcome, now, random);
    case "deadline":
      return {
        ...uncounted(job),
        kind: "fail",
        reason: "unschedulable",
        detail: "deadline",
        step: "deadline",
        class: "queue_timeout",
      };
    case "lost":
      return lose(job, outcome, now, random);
    case "completed":
    case "failed":
    case "timeout":
    case "queue_timeout":
      return decideFailure(job, outcome, now, random);
  }
}

/** Why the budget forbids another attempt: by the job's own usage, by the report of its task, or by the budgets that cover it.
 *  The latter are checked for a job that waits, was handed back or never started only when it is about to start again. */
function outOfBudget(job: Job, outcome: Outcome, budgets: readonly BudgetNow[]) {
  const own = budgets.find(({ jobId }) => jobId === job.id)?.limit ?? job.policy.budget;
  const part = job.usage === null ? null : spentPart(own, amountOf(job.usage));
  if (part !== null) return { detail: part };
  if (isReportedSpent(outcome)) return { detail: "reported" };
  if (budgets.length === 0 || !SPENDING.has(outcome.kind)) return null;
  const shortage = spentAbove(budgets);
  return shortage === null ? null : { detail: shortage.part, shortage };
}

/** Outcomes after which another attempt would spend more. */
const SPENDING: ReadonlySet<Outcome["kind"]> = new Set(["completed", "failed", "timeout", "lost"]);

/** The task reports that its budget is spent, whatever usage was counted. */
function isReportedSpent(outcome: Outcome): boolean {
  return (outcome.kind === "failed" || outcome.kind === "timeout") && outcome.failure.class === "budget";
}

/** An error of the condition is recorded, to show why the result was not polled again. */
function succeed(job: Job, conditionError: string | null): Decision {
  const made = { step: "completed", class: "completed", charge: null, counters: count(job, {}) } as const;
  return conditionError === null ? { kind: "succeed", ...made } : { kind: "succeed", conditionError, ...made };
}

function classOf(outcome: Outcome): DecisionClass {
  switch (outcome.kind) {
    case "completed":
      return "polled";
    case "failed":
      return "failure";
    case "deadline":
      return "queue_timeout";
    case "interrupted":
    case "released":
      return "handback";
    default:
      return outcome.kind;
  }
}

/** Does not count, and ends every streak. */
function uncounted(job: Job): { charge: null; counters: Counters } {
  return { charge: null, counters: count(job, {}) };
}

/** The counters of the job with some of them changed; streaks end unless the caller continues one. */
function count(job: Job, moved: Partial<Counters>): Counters {
  const { failures, losses, defers, ruleCounts, handbacks, streak, streakSession, evidence } = moved;
  return {
    failures: failures ?? job.failures,
    losses: losses ?? job.losses,
    defers: defers ?? job.defers,
    ruleCounts: ruleCounts ?? job.ruleCounts,
    handbacks: handbacks ?? 0,
    streak: streak ?? 0,
    streakSession: streakSession ?? null,
    evidence: evidence ?? 0,
  };
}

function handBack(job: Job, outcome: Outcome & { kind: "interrupted" | "released" }, now: number, random: number) {
  // An interrupted attempt had started, so a job that must not run twice is not queued again.
  if (outcome.kind === "interrupted" && isAtMostOnce(job))
    return chargeLoss(job, NO_STREAK, { by: "interrupted" }, now, random);
  const handbacks = job.handbacks + 1;
  if (handbacks >= MAX_HANDBACKS) {
    return chargeLoss(job, NO_STREAK, { by: "handbacks", count: MAX_HANDBACKS }, now, random);
  }
  const delayMs = outcome.kind === "released" ? RELEASE_DELAY_MS : 0;
  const facts: DecisionFacts = { class: "handback", charge: null, counters: count(job, { handbacks }) };
  const delay: Delay = { baseMs: delayMs, jitter: 0, delayMs };
  return retryAt(now, delay, { step: "handback", match: { by: outcome.kind }, ...facts });
}

type Streak = Pick<Counters, "streak" | "streakSession" | "evidence">;

const NO_STREAK: Streak = { streak: 0, streakSession: null, evidence: 0 };

function isAtMostOnce({ policy: { maxAttempts, workerLost } }: Job): boolean {
  return maxAttempts === 1 && workerLost.charge === "own" && workerLost.maxRetries === 0;
}

function lose(job: Job, outcome: Outcome & { kind: "lost" }, now: number, random: number): Decision {
  const streak = lossStreak(job, outcome, now);
  const poison = job.policy.workerLost.poison;
  if (poison !== null && streak.streak >= poison.losses && isPoison(job, streak, outcome)) {
    const losses = job.losses + 1;
    const charge = lossCharge(job, losses);
    return {
      kind: "fail",
      reason: "poison",
      detail: `${streak.streak} quick losses in a row`,
      step: "poison",
      class: "lost",
      charge,
      counters: count(job, { losses, ...streak }),
    };
  }
  return chargeLoss(job, streak, { by: "loss", why: outcome.why }, now, random);
}

/** Whether the evidence is enough to stop the job: the last loss was one where it ran alone, and all of them together leave a
 *  negligible chance of another cause. */
function isPoison(job: Job, { streak, evidence }: Streak, { crash }: Outcome & { kind: "lost" }): boolean {
  return streak > job.streak && (crash?.beside ?? 0) === 0 && evidence >= DECISIVE;
}

/** A loss counts towards poison if it was soon after the start, once per session, and unless another cause is known. */
function lossStreak(job: Job, outcome: Outcome & { kind: "lost" }, now: number): Streak {
  const guard = job.policy.workerLost.poison;
  if (guard === null) return NO_STREAK;
  const seenMs =
    outcome.renewedAt === null || job.startedAt === null ? 0 : Math.max(0, outcome.renewedAt - job.startedAt);
  if (seenMs > guard.withinMs) return NO_STREAK;
  const { crash, session } = outcome;
  const again = job.streak > 0 && job.streakSession === session;
  if (again || crash?.excuse !== undefined) {
    return { streak: job.streak, streakSession: job.streakSession, evidence: job.evidence };
  }
  const ranMs = job.startedAt === null ? 0 : now - job.startedAt;
  const found = crash === undefined ? DECISIVE : crash.others === undefined ? 0 : evidenceOf(ranMs, crash.others);
  return { streak: job.streak + 1, streakSession: session, evidence: job.evidence + found };
}

function lossCharge(job: Job, losses: number): Charge {
  const { workerLost } = job.policy;
  if (workerLost.charge === "own") return charged("workerLost", losses, workerLost.maxRetries);
  const { used, limit } = chargedAttempts({ ...job, losses });
  return charged("maxAttempts", used, limit);
}

function chargeLoss(job: Job, streak: Streak, match: Match, now: number, random: number): Decision {
  const losses = job.losses + 1;
  const { workerLost, backoff, maxAttempts } = job.policy;
  const shared = workerLost.charge === "shared";
  const charge = lossCharge(job, losses);
  const facts: DecisionFacts = { class: "lost", charge, counters: count(job, { losses, ...streak }) };
  const usedUp = shared ? charge.used >= maxAttempts : losses > workerLost.maxRetries;
  if (usedUp) return { kind: "fail", reason: "lost", detail: null, step: "exhausted", match, ...facts };
  const delay = backoffMs(shared ? backoff : workerLost.backoff, shared ? charge.used : losses, random);
  return withinElapsed(job, now, delay, { step: "retry", match, ...facts });
}

function decideFailure(job: Job, outcome: FailureOutcome, now: number, random: number): Decision {
  const verdict = classify(job, outcome);
  const { policy } = job;
  const { match } = verdict;
  const cls = classOf(outcome);
  const noted = verdict.conditionError === null ? {} : { conditionError: verdict.conditionError };

  if (verdict.kind === "fail") {
    const { charge, counters } = chargeFailure(job);
    const reason = verdict.reason as FailReason;
    const step = "not_retryable";
    return { kind: "fail", reason, detail: null, step, match, class: cls, charge, counters, ...noted };
  }

  const spent = chargeVerdict(job, verdict.rule, verdict.kind === "defer");
  const { charge, counters } = spent;
  if (spent.usedUp) {
    const reason = endReason(job, outcome);
    return { kind: "fail", reason, detail: null, step: "exhausted", match, class: cls, charge, counters };
  }

  const backoff: Backoff = verdict.rule?.rule.backoff ?? policy.backoff;
  const delay = withRetryAfter(job, verdict.failure.retryAfterMs, backoffMs(backoff, spent.r, random), spent.deferred);
  return withinElapsed(job, now, delay, { step: "retry", match, class: cls, charge, counters });
}

interface ChargedRetry {
  readonly charge: Charge | null;
  readonly counters: Counters;
  /** The number of the retry about to happen, within its class. */
  readonly r: number;
  readonly usedUp: boolean;
  readonly deferred: boolean;
}

/** Which counter a retry raises: that of the rule, the deferrals, or the failures of the job. */
function chargeVerdict(job: Job, match: ReturnType<typeof classify>["rule"], defer: boolean): ChargedRetry {
  const own = match?.rule.maxRetries ?? null;
  const spent = defer && job.defers >= job.policy.maxDefers;
  if (match !== null && own !== null && !spent) {
    const r = (job.ruleCounts?.[match.index] ?? 0) + 1;
    const defers = job.defers + (defer ? 1 : 0);
    const counters = count(job, { defers, ruleCounts: { ...job.ruleCounts, [match.index]: r } });
    return { charge: charged(`rules[${match.index}]`, r, own), counters, r, usedUp: r > own, deferred: defer };
  }
  if (defer && !spent) {
    const r = job.defers + 1;
    return { charge: null, counters: count(job, { defers: r }), r, usedUp: false, deferred: true };
  }
  return chargeFailure(job);
}

function chargeFailure(job: Job): ChargedRetry {
  const failures = job.failures + 1;
  const { used, limit } = chargedAttempts({ failures, losses: job.losses, policy: job.policy });
  const charge = charged("maxAttempts", used, limit);
  return { charge, counters: count(job, { failures }), r: used, usedUp: used >= limit, deferred: false };
}

function charged(to: string, used: number, limit: number): Charge {
  return { to, used, limit, left: Math.max(0, limit - used) };
}

function endReason(job: Job, outcome: FailureOutcome): FailReason {
  if (outcome.kind === "timeout") return "timeout";
  return outcome.kind === "queue_timeout" && job.firstStartedAt === null ? "unschedulable" : "exhausted";
}

/** `Retry-After` extends the backoff of a retry, and replaces that of a deferral. */
function withRetryAfter(job: Job, requested: number | null, delay: Delay, deferred: boolean): Delay {
  const { honourRetryAfter, retryAfterMaxMs } = job.policy;
  const isHonoured = honourRetryAfter && requested !== null && requested >= 0;
  const retryAfterMs = isHonoured ? Math.round(Math.min(requested, retryAfterMaxMs)) : null;
  const floor = deferred ? MIN_DEFER_MS : 0;
  if (retryAfterMs === null) return delay.delayMs >= floor ? delay : { ...delay, delayMs: floor };
  const delayMs = deferred ? retryAfterMs : Math.max(retryAfterMs, delay.delayMs);
  return { ...delay, delayMs: Math.max(floor, delayMs), retryAfterMs };
}

/** A retry, unless it would exceed `maxElapsed`. */
function withinElapsed(job: Job, now: number, delay: Delay, made: DecisionParts): Decision {
  const { maxElapsedMs } = job.policy;
  const runAt = now + delay.delayMs;
  if (maxElapsedMs !== null && job.firstStartedAt !== null && runAt > job.firstStartedAt + maxElapsedMs) {
    return { ...made, kind: "fail", reason: "budget", detail: "elapsed", step: "elapsed" };
  }
  return retryAt(now, delay, made);
}

function retryAt(now: number, delay: Delay, made: DecisionParts): Decision {
  return { ...made, kind: "retry", runAt: now + delay.delayMs, delay };
}
