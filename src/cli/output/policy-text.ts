/** Retry policies, usage and budgets as text for people. */

import { backoffMs } from "../../core/decision/backoff.ts";
import { budgetText, limitText } from "../../core/decision/budget.ts";
import { showMs } from "../../core/duration.ts";
import { counted } from "../../core/format.ts";
import { addUsage, money, type Usage } from "../../core/job/job.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { Backoff, Policy } from "../../core/policy/policy.ts";

/** Delays that are shown one by one. */
const SHOWN = 3;
/** The middle of the random range: no jitter. */
const MIDDLE = 0.5;

export function attemptsText({ maxAttempts, workerLost }: Policy): string {
  const own = `${maxAttempts} in all`;
  const hasOwnLosses = workerLost.charge === "own" && workerLost.maxRetries > 0;
  if (!hasOwnLosses) return maxAttempts === 1 ? `${own}, no retry` : own;
  const lost = `${counted(workerLost.maxRetries, "retry", "retries")} after lost workers`;
  return maxAttempts === 1 ? `${own}, no retry of failures; ${lost}` : `${own}; ${lost}`;
}

/** `30 s, 1 min, 2 min, … capped at 5 min, ±25 %`; null without retries. */
export function backoffText({ maxAttempts, backoff, workerLost }: Policy): string | null {
  const retries = maxAttempts - 1;
  if (retries > 0) return delaysText(backoff, retries);
  return workerLost.charge === "own" && workerLost.maxRetries > 0
    ? `after lost workers: ${delaysText(workerLost.backoff, workerLost.maxRetries)}`
    : null;
}

function delaysText(backoff: Backoff, retries: number): string {
  if (backoff.type === "none") return "none, at once";
  const delay = (r: number) => backoffMs(backoff, r, MIDDLE).delayMs;
  const count = Math.min(retries, SHOWN);
  const delays = Array.from({ length: count }, (_, i) => delay(i + 1));
  const last = delay(retries);
  const isSteady = delays.every((each) => each === last);
  const listed = isSteady ? `${showMs(last)}${retries > 1 ? " each" : ""}` : delays.map(showMs).join(", ");
  const most = `${last === backoff.maxMs ? "capped at" : "up to"} ${showMs(last)}`;
  const rest = isSteady || retries <= count ? "" : `, … ${most}`;
  const jitter = backoff.jitter === 0 ? "" : `, ±${Number((backoff.jitter * 100).toFixed(1))} %`;
  return `${listed}${rest}${jitter}`;
}

/** Null without a budget. */
export function policyBudgetText({ budget: { tokens, costUsd } }: Policy): string | null {
  return tokens === null && costUsd === null ? null : limitText({ tokens, costUsd });
}

export function usageText({ tokensIn, tokensOut, costUsd }: Usage): string {
  const tokens = tokensIn + tokensOut === 0 ? [] : [`${counted(tokensIn, "token")} in, ${tokensOut} out`];
  return [...tokens, ...(costUsd === 0 ? [] : [`${money(costUsd)} USD`])].join(", ") || "nothing";
}

/** Used by attempts that have ended, and by the running one as far as it has reported. */
export function usedBy({ usage, liveUsage }: JobInfo): Usage | null {
  return addUsage(usage, liveUsage);
}

/** Includes the share of the running attempt. */
export function usageFact(job: JobInfo): string | null {
  const used = usedBy(job);
  if (used === null) return null;
  const all = `${counted(used.tokensIn, "token")} in, ${used.tokensOut} out, ${money(used.costUsd)} USD`;
  return job.liveUsage === null ? all : `${all}; of which ${usageText(job.liveUsage)} by the running attempt`;
}

/** The job's own budget, and each budget above it with its job. */
export function budgetFacts({ id, budgets }: JobInfo): [string, string][] {
  return budgets.map((budget) =>
    budget.jobId === id
      ? ["Budget", `${budgetText(budget)} (with all descendants)`]
      : ["Parent budget", `${budget.jobId}: ${budgetText(budget)}`],
  );
}

/** Short: what the job itself used, and its own budget. */
export function spentText(job: JobInfo): string {
  const own = job.budgets.find(({ jobId }) => jobId === job.id);
  const usage = usedBy(job);
  const used = usage === null ? [] : [`used ${usageText(usage)}`];
  return [...used, ...(own === undefined ? [] : [`budget: ${budgetText(own)}`])].join("; ");
}

/** The budget of a resubmitted job, and what the original has spent. */
export function budgetNotes(before: JobInfo, after: JobInfo): string[] {
  const own = after.budgets.find(({ jobId }) => jobId === after.id);
  const spent = before.usage === null ? "" : `; ${before.id} has used ${usageText(before.usage)}`;
  const former = before.budgets.find(({ jobId }) => jobId === before.id);
  const left = former === undefined ? spent : `; that of ${before.id}: ${budgetText(former)}`;
  const above = after.budgets.filter((budget) => budget !== own);
  return [
    ...(own === undefined ? [] : [`the new job starts with a budget of ${limitText(own.limit)}${left}`]),
    ...above.map((budget) => `the budget of ${budget.jobId} applies too: ${budgetText(budget)}`),
  ];
}
