/** What running attempts say they have used, against the budget of their job. */
import { spentBudget } from "../core/budget.ts";
import { addUsage, type Usage } from "../core/job.ts";
import type { Policy } from "../core/policy.ts";

/** Has a running job, by what its earlier attempts used and what this one said so far, spent its budget? */
export function isOverspent(policy: Policy, before: Usage | null, live: Usage | null): boolean {
  const { tokens, costUsd } = policy.budget;
  if (tokens === null && costUsd === null) return false;
  // One that spends nothing itself may finish, as after a redrive of a job whose budget was spent before.
  if (live === null || live.tokensIn + live.tokensOut + live.costUsd === 0) return false;
  return spentBudget(policy, addUsage(before, live)) !== null;
}
