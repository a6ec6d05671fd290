/** What jobs have used of tokens and money, and what is left of the budgets that cover them, for people. */
import { budgetText, limitText } from "../core/budget.ts";
import type { Usage } from "../core/job.ts";
import type { JobInfo } from "../core/views.ts";

export function usageText({ tokensIn, tokensOut, costUsd }: Usage): string {
  const tokens = tokensIn + tokensOut === 0 ? [] : [`${tokensIn} tokens in, ${tokensOut} out`];
  return [...tokens, ...(costUsd === 0 ? [] : [`${costUsd} USD`])].join(", ") || "nothing";
}

/** Its own budget, and each above it with the job that has it. */
export function budgetFacts({ id, budgets }: JobInfo): [string, string][] {
  return budgets.map((budget) =>
    budget.jobId === id
      ? ["Budget", `${budgetText(budget)} (with all below)`]
      : ["Budget above", `${budget.jobId}: ${budgetText(budget)}`],
  );
}

/** In short: what the job itself used, and its own budget. */
export function spentText({ id, usage, budgets }: JobInfo): string {
  const own = budgets.find(({ jobId }) => jobId === id);
  const used = usage === null ? [] : [`used ${usageText(usage)}`];
  return [...used, ...(own === undefined ? [] : [`budget: ${budgetText(own)}`])].join("; ");
}

/** What a resubmitted job starts with, and what the one before it has spent. */
export function budgetNotes(before: JobInfo, after: JobInfo): string[] {
  const own = after.budgets.find(({ jobId }) => jobId === after.id);
  const spent = before.usage === null ? "" : `; ${before.id} has used ${usageText(before.usage)}`;
  const former = before.budgets.find(({ jobId }) => jobId === before.id);
  const left = former === undefined ? spent : `; that of ${before.id}: ${budgetText(former)}`;
  const above = after.budgets.filter((budget) => budget !== own);
  return [
    ...(own === undefined ? [] : [`it starts with a budget of ${limitText(own.limit)}${left}`]),
    ...above.map((budget) => `it is under the budget of ${budget.jobId}: ${budgetText(budget)}`),
  ];
}
