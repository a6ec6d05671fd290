/** Budgets of tokens and money. They are spent by all attempts of a job together, whatever became of each. */
import type { Usage } from "./job.ts";
import type { Policy } from "./policy.ts";

/** Which budget is used up ("tokens" or "costUsd"), or null. */
export function spentBudget(policy: Policy, usage: Usage | null): "tokens" | "costUsd" | null {
  if (usage === null) return null;
  const { tokens, costUsd } = policy.budget;
  if (tokens !== null && usage.tokensIn + usage.tokensOut >= tokens) return "tokens";
  return costUsd !== null && usage.costUsd >= costUsd ? "costUsd" : null;
}
