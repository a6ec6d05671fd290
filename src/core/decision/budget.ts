/** The attempts of a job that count since its last redrive, and its budgets of tokens and money, which cover the job and all of
 *  its descendants across redrives. */

import { counted } from "../format.ts";
import { type Job, money, type Usage } from "../job/job.ts";
import type { Policy } from "../policy/policy.ts";

/** How many attempts count against `maxAttempts` so far. Decisions and displays use this count. */
export function chargedAttempts({ failures, losses, policy }: Pick<Job, "failures" | "losses" | "policy">) {
  const shared = policy.workerLost.charge === "shared";
  return { used: shared ? failures + losses : failures, limit: policy.maxAttempts };
}

/** The number of the latest attempt, and how many of those since the last redrive count. */
interface AttemptCount {
  readonly attempt: number;
  readonly used: number;
  readonly limit: number;
  readonly losses: number;
  /** The latest attempt runs or succeeded: it does not count as used, but is one of those that may be made. */
  readonly isOpen: boolean;
  readonly chapter: number;
}

/** `2 of 5`, `7 (3 of 5 counted, 1 loss)` where not every attempt counts, or `7 (2 of 5 since the redrive)`. */
export function attemptText({ attempt, used, limit, losses, isOpen, chapter }: AttemptCount): string {
  const lost = losses === 0 ? [] : [counted(losses, "loss", "losses")];
  const made = used + (isOpen ? 1 : 0);
  const isEach = attempt === made;
  const share = chapter === 1 ? `${used} of ${limit} counted` : `${made} of ${limit} since the redrive`;
  const notes = isEach ? lost : [share, ...lost];
  return `${attempt}${isEach ? ` of ${limit}` : ""}${notes.length === 0 ? "" : ` (${notes.join(", ")})`}`;
}

/** `attemptText` of a job as it is. */
export function jobAttemptText(job: Job): string {
  const isOpen = job.state === "running" || job.state === "succeeded";
  const { attempt, losses, chapter } = job;
  return attemptText({ attempt, losses, chapter, isOpen, ...chargedAttempts(job) });
}

/** Tokens, in and out together, and money. */
export interface Amount {
  readonly tokens: number;
  readonly costUsd: number;
}

/** The same, where null means no limit. */
export interface BudgetLimit {
  readonly tokens: number | null;
  readonly costUsd: number | null;
}

export type BudgetPart = keyof Amount;
const PARTS: readonly BudgetPart[] = ["tokens", "costUsd"];
const UNITS: Readonly<Record<BudgetPart, string>> = { tokens: "tokens", costUsd: "USD" };

/** The limit of a budget, an estimate and a grant. */
export const MAX_BUDGET: Amount = Object.freeze({ tokens: Number.MAX_SAFE_INTEGER, costUsd: 1_000_000_000 });

/** The state of a budget: its limit, and what the job and all of its descendants use. */
export interface BudgetNow {
  /** The job that has it. */
  readonly jobId: string;
  /** By its policy and the grants of redrives. */
  readonly limit: BudgetLimit;
  /** By attempts that have ended. */
  readonly spent: Amount;
  /** By running attempts, as far as reported. */
  readonly live: Amount;
  /** The part of the estimates of running attempts that they have not spent yet. */
  readonly reserved: Amount;
}

/** Why an attempt may not start, or a job may not continue. */
export interface BudgetShortage {
  readonly jobId: string;
  readonly part: BudgetPart;
  readonly limit: number;
  /** Spent and live. */
  readonly used: number;
  readonly left: number;
  /** Reserved by other attempts; absent where nothing is. */
  readonly reserved?: number;
  /** The estimate of the attempt; 0 where there is none. */
  readonly wanted: number;
}

export const NO_BUDGETS: readonly BudgetNow[] = Object.freeze([]);
export const NO_AMOUNT: Amount = Object.freeze({ tokens: 0, costUsd: 0 });

export function hasBudget({ budget }: Pick<Policy, "budget">): boolean {
  return budget.tokens !== null || budget.costUsd !== null;
}

export function amountOf(usage: Usage | null): Amount {
  if (usage === null) return NO_AMOUNT;
  return { tokens: usage.tokensIn + usage.tokensOut, costUsd: money(usage.costUsd) };
}

export function addAmount(a: Amount, b: Amount, sign: 1 | -1 = 1): Amount {
  return { tokens: a.tokens + sign * b.tokens, costUsd: money(a.costUsd + sign * b.costUsd) };
}

/** The live usage and the reservation of an attempt in the budgets that cover it. */
export function heldBy(policy: Policy, live: Usage | null): Pick<BudgetNow, "live" | "reserved"> {
  const used = amountOf(live);
  const { estimate } = policy.budget;
  if (estimate === undefined) return { live: used, reserved: NO_AMOUNT };
  return {
    live: used,
    reserved: {
      tokens: Math.max(0, (estimate.tokens ?? 0) - used.tokens),
      costUsd: money(Math.max(0, (estimate.costUsd ?? 0) - used.costUsd)),
    },
  };
}

/** What is left of a budget; below 0 where running attempts have exceeded it. */
export function leftOf({ limit, spent, live, reserved }: BudgetNow): BudgetLimit {
  const left = (part: BudgetPart) =>
    limit[part] === null ? null : (limit[part] as number) - spent[part] - live[part] - reserved[part];
  const cost = left("costUsd");
  return { tokens: left("tokens"), costUsd: cost === null ? null : money(cost) };
}

/** Which part of a limit is used up, or null. */
export function spentPart(limit: BudgetLimit, used: Amount): BudgetPart | null {
  return PARTS.find((part) => limit[part] !== null && used[part] >= (limit[part] as number)) ?? null;
}

/** Which part of the policy's budget this job alone has used up, or null. */
export function spentBudget({ budget }: Policy, usage: Usage | null): BudgetPart | null {
  return usage === null ? null : spentPart(budget, amountOf(usage));
}

/** The nearest budget that is used up, running attempts included, reservations not. */
export function spentAbove(budgets: readonly BudgetNow[]): BudgetShortage | null {
  for (const budget of budgets) {
    const used = addAmount(budget.spent, budget.live);
    const part = spentPart(budget.limit, used);
    if (part !== null) return shortage(budget, part, 0);
  }
  return null;
}

/** Why an attempt of this job may not start: a budget above it has nothing left, or less than the job's estimate. Its own budget
 *  does not matter: a parent whose children have spent it may still complete, and is stopped if it spends more. */
export function noStart(
  { id, policy }: Pick<Job, "id" | "policy">,
  budgets: readonly BudgetNow[],
): BudgetShortage | null {
  const estimate = policy.budget.estimate;
  for (const budget of budgets) {
    if (budget.jobId === id) continue;
    const left = leftOf(budget);
    for (const part of PARTS) {
      const [of, wanted] = [left[part], estimate?.[part] ?? 0];
      if (of !== null && (of <= 0 || wanted > of)) return shortage(budget, part, wanted);
    }
  }
  return null;
}

/** Why a redrive would fail immediately: a budget that covers the job, its own included, has nothing left. */
export function noRedrive(budgets: readonly BudgetNow[]): BudgetShortage | null {
  for (const budget of budgets) {
    const left = leftOf(budget);
    const part = PARTS.find((each) => left[each] !== null && (left[each] as number) <= 0);
    if (part !== undefined) return shortage(budget, part, 0);
  }
  return null;
}

/** The limits with the grant added; without a limit it stays unlimited. */
export function raised({ tokens, costUsd }: BudgetLimit, more: Partial<Amount>): BudgetLimit {
  return {
    tokens: tokens === null ? null : tokens + (more.tokens ?? 0),
    costUsd: costUsd === null ? null : money(costUsd + (more.costUsd ?? 0)),
  };
}

/** Why a grant is refused: no budget has a limit of that part, or one would be too large. */
export function grantTrouble(more: Partial<Amount>, budgets: readonly BudgetNow[]): string | null {
  for (const part of PARTS.filter((each) => more[each] !== undefined)) {
    const limited = budgets.filter(({ limit }) => limit[part] !== null);
    if (limited.length === 0) {
      return `neither the job nor any of its ancestors has a budget${budgets.length === 0 ? "" : ` of ${UNITS[part]}`}`;
    }
    const large = limited.find(({ limit }) => (limit[part] as number) > MAX_BUDGET[part]);
    if (large !== undefined) {
      return `the budget of ${large.jobId} would be ${large.limit[part]} ${UNITS[part]}; the limit is ${MAX_BUDGET[part]}`;
    }
  }
  return null;
}

/** The budgets that cover a job after a redrive: first its own by its new policy, then the others with the grant. A new own
 *  budget starts with the usage of the job itself. */
export function redrivenBudgets(
  { id, usage, policy: before }: Pick<Job, "id" | "usage" | "policy">,
  policy: Policy,
  budgets: readonly BudgetNow[],
  more: Partial<Amount> = {},
): readonly BudgetNow[] {
  const own = budgets.find(({ jobId }) => jobId === id);
  const others = budgets
    .filter((budget) => budget !== own)
    .map((budget) => ({ ...budget, limit: raised(budget.limit, more) }));
  if (own !== undefined) return [{ ...own, limit: movedLimit(own.limit, before.budget, policy.budget) }, ...others];
  if (!hasBudget(policy)) return others;
  const { tokens, costUsd } = policy.budget;
  const spent = { spent: amountOf(usage), live: NO_AMOUNT, reserved: NO_AMOUNT };
  return [{ jobId: id, limit: { tokens, costUsd }, ...spent }, ...others];
}

/** A limit changes by the difference of the policies, so that earlier grants stay. */
function movedLimit(limit: BudgetLimit, before: BudgetLimit, after: BudgetLimit): BudgetLimit {
  const moved = (part: BudgetPart) => {
    const [now, was, is] = [limit[part], before[part], after[part]];
    return now === null || was === null || is === null ? is : now + is - was;
  };
  const costUsd = moved("costUsd");
  return { tokens: moved("tokens"), costUsd: costUsd === null ? null : money(costUsd) };
}

function shortage(budget: BudgetNow, part: BudgetPart, wanted: number): BudgetShortage {
  const used = addAmount(budget.spent, budget.live)[part];
  const limit = budget.limit[part] as number;
  const left = Math.max(0, leftOf(budget)[part] as number);
  const reserved = budget.reserved[part] > 0 ? { reserved: budget.reserved[part] } : {};
  return { jobId: budget.jobId, part, limit, used, ...reserved, left, wanted };
}

/** `0.7 of 1 USD spent, 0.2 reserved, 0.1 left`. */
export function budgetText(budget: BudgetNow): string {
  const left = leftOf(budget);
  const used = addAmount(budget.spent, budget.live);
  const parts = PARTS.filter((part) => budget.limit[part] !== null).map((part) => {
    const unit = UNITS[part];
    const reserved = budget.reserved[part] === 0 ? "" : `, ${budget.reserved[part]} reserved`;
    const rest = Math.max(0, left[part] as number);
    return `${used[part]} of ${budget.limit[part]} ${unit} spent${reserved}, ${rest} left`;
  });
  return parts.join("; ");
}

/** `1 USD`, `1000 tokens and 1 USD`, or `no limit`. */
export function limitText({ tokens, costUsd }: BudgetLimit): string {
  const parts = [
    ...(tokens === null ? [] : [counted(tokens, "token")]),
    ...(costUsd === null ? [] : [`${costUsd} USD`]),
  ];
  return parts.length === 0 ? "no limit" : parts.join(" and ");
}

/** `the budget of job_1 (1 USD, 0.9 spent) has 0.1 left, and an attempt is estimated at 0.4`. */
export function shortageText({ jobId, part, limit, used, reserved, left, wanted }: BudgetShortage): string {
  const held = reserved === undefined ? "" : `, ${reserved} reserved`;
  const rest = wanted > left && left > 0 ? `${left} left, and an attempt is estimated at ${wanted}` : "nothing left";
  return `the budget of ${jobId} (${limit} ${UNITS[part]}, ${used} spent${held}) has ${rest}`;
}
