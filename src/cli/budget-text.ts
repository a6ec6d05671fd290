/** What jobs have used of tokens and money, and what is left of the budgets that cover them, for people. */
import { budgetText, limitText } from "../core/budget.ts";
import { addUsage, money, type Usage } from "../core/job.ts";
import type { JobInfo } from "../core/views.ts";

export function usageText({ tokensIn, tokensOut, costUsd }: Usage): string {
  const tokens = tokensIn + tokensOut === 0 ? [] : [`${tokensIn} tokens in, ${tokensOut} out`];
  return [...tokens, ...(costUsd === 0 ? [] : [`${money(costUsd)} USD`])].join(", ") || "nothing";
}

/** By attempts that have ended, and by the running one as far as it has reported. */
export function usedBy({ usage, liveUsage }: JobInfo): Usage | null {
  return addUsage(usage, liveUsage);
}

/** With what of it is of the running attempt. */
export function usageFact(job: JobInfo): string | null {
  const used = usedBy(job);
  if (used === null) return null;
  const all = `${used.tokensIn} tokens in, ${used.tokensOut} out, ${money(used.costUsd)} USD`;
  return job.liveUsage === null ? all : `${all}; of this ${usageText(job.liveUsage)} in progress`;
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
export function spentText(job: JobInfo): string {
  const own = job.budgets.find(({ jobId }) => jobId === job.id);
  const usage = usedBy(job);
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
