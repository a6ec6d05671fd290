/** Decides what follows an attempt. Pure: the same job, outcome, instant and draw give the same decision. Reports,
 *  lost leases, timeouts, queue expiry and budgets all come through here, so the rules exist once. The steps are those
 *  of docs/lifecycle.md (`DECISION_STEPS`); the first that applies decides. This is the one place where counters are
 *  raised. */

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

/** What an outcome counts as.
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

/** What the run was charged to. `left` is what remains of it.
 *  @example
 *  const left = (charge: Charge) => `${charge.used} of ${charge.limit} ${charge.to}`; */
export interface Charge {
  readonly to: string;
  readonly used: number;
  readonly limit: number;
  readonly left: number;
}

/** How long a retry waits, and how that came about.
 *  @example
 *  const shown = ({ baseMs, delayMs }: Delay) => `${delayMs} ms (${baseMs} ms before jitter)`; */
export interface Delay {
  readonly baseMs: number;
  /** The share drawn by jitter, from -j to +j. */
  readonly jitter: number;
  readonly delayMs: number;
  /** The time the failure asked for, at most `retryAfterMax`; only where the policy honours it. */
  readonly retryAfterMs?: number;
}

/** The counters of a job that a decision may move.
 *  @example
 *  const { failures, losses }: Counters = running; */
export type Counters = Pick<
  Job,
  "failures" | "losses" | "defers" | "handbacks" | "streak" | "streakSession" | "evidence" | "ruleCounts"
>;

interface DecisionParts {
  readonly step: DecisionStep;
  readonly class: DecisionClass;
  /** What of the policy or of the outcome decided; absent where the step alone says it. */
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

/** After so many interruptions and releases in a row something is wrong with more than one worker. */
export const MAX_HANDBACKS = 20;
/** A released job waits a little, so that it does not come straight back to a worker that cannot have it. */
export const RELEASE_DELAY_MS = 1_000;
/** A deferral never comes back at once, whatever the backoff says. */
export const MIN_DEFER_MS = 1_000;

type DecisionFacts = Omit<DecisionParts, "step" | "match">;

/** Decides what follows an attempt: the one place that does. Pure: time and chance are arguments.
 *  `budgets` are those that cover the job, the nearest first, with what this attempt spent, and without what it held.
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
    return { kind: "cancel", step: "cancel", class: classOf(outcome), ...rested(job) };
  }
  const spent = outOfBudget(job, outcome, budgets);
  if (spent !== null) {
    const facts = { ...rested(job), class: classOf(outcome) };
    return { kind: "fail", reason: "budget", ...spent, step: "budget", ...facts };
  }
  switch (outcome.kind) {
    case "over_budget": {
      const { shortage } = outcome;
      const facts = { ...rested(job), class: "over_budget", detail: shortage.part, shortage } as const;
      return { kind: "fail", reason: "budget", step: "budget", ...facts };
    }
    case "waiting":
      return { kind: "block", step: "children", class: "waiting", ...rested(job) };
    case "interrupted":
    case "released":
      return handBack(job, outcome, now, random);
    case "deadline":
      return {
        ...rested(job),
        ...{ kind: "fail", reason: "unschedulable", detail: "deadline" },
        ...{ step: "deadline", class: "queue_timeout" },
      };
    case "lost":
      return lose(job, outcome, now, random);
    case "completed":
    case "failed":
    case "timeout":
    case "queue_timeout":
      return judged(job, outcome, now, random);
  }
}

/** By its own usage alone, by what its task reports, or, where another attempt is in question, by all that the budgets that
 *  cover it have spent. What waits, was handed back or never started is judged by those when it is to start again. */
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

/** The task itself reports that its budget is spent, whatever we counted: it knows what it was granted. */
function isReportedSpent(outcome: Outcome): boolean {
  return (outcome.kind === "failed" || outcome.kind === "timeout") && outcome.failure.class === "budget";
}

/** A condition that erred is noted: someone who waits for a poll wants to know why there was none. */
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

/** Nothing charged, and every streak ended. */
function rested(job: Job): { charge: null; counters: Counters } {
  return { charge: null, counters: count(job, {}) };
}

/** The job's counters with some of them moved; streaks end unless the caller goes on with one. */
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
  // A run that our shutdown cut off had begun: a job that must not run twice cannot have it back.
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
  if (poison !== null && streak.streak >= poison.losses && isCondemned(job, streak, outcome)) {
    const losses = job.losses + 1;
    const charge = lossCharge(job, losses);
    return {
      ...{ kind: "fail", reason: "poison", detail: `${streak.streak} quick losses in a row` },
      ...{ step: "poison", class: "lost", charge, counters: count(job, { losses, ...streak }) },
    };
  }
  return chargeLoss(job, streak, { by: "loss", why: outcome.why }, now, random);
}

/** Only by a loss that it was alone in, and only if all of them together leave too little chance that it is innocent. */
function isCondemned(job: Job, { streak, evidence }: Streak, { crash }: Outcome & { kind: "lost" }): boolean {
  return streak > job.streak && (crash?.beside ?? 0) === 0 && evidence >= DECISIVE;
}

/** A loss counts towards poison when the run was not seen alive for long, once per session, and unless something other than
 *  the worker's jobs is known to have ended it. */
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

function judged(job: Job, outcome: FailureOutcome, now: number, random: number): Decision {
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

/** Which counter a retry raises: the rule's own, the deferrals, or the job's failures. */
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

/** `Retry-After` lengthens the backoff of a charged retry; of a deferral it takes the backoff's place. */
function withRetryAfter(job: Job, asked: number | null, delay: Delay, deferred: boolean): Delay {
  const { honourRetryAfter, retryAfterMaxMs } = job.policy;
  const heard = honourRetryAfter && asked !== null && asked >= 0;
  const retryAfterMs = heard ? Math.round(Math.min(asked, retryAfterMaxMs)) : null;
  const floor = deferred ? MIN_DEFER_MS : 0;
  if (retryAfterMs === null) return delay.delayMs >= floor ? delay : { ...delay, delayMs: floor };
  const wanted = deferred ? retryAfterMs : Math.max(retryAfterMs, delay.delayMs);
  return { ...delay, delayMs: Math.max(floor, wanted), retryAfterMs };
}

/** A retry, unless it would come too late. */
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
