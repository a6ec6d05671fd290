/** What a job has spent of what its policy grants: attempts in one redrive, tokens and money in its whole life. */
import type { Job, Usage } from "./job.ts";
import type { Policy } from "./policy.ts";
import { counted } from "./show.ts";

/** What was charged to `maxAttempts` so far. Every charge, and every place that shows one, counts by it. */
export function chargedAttempts({ failures, losses, policy }: Pick<Job, "failures" | "losses" | "policy">) {
  const shared = policy.workerLost.charge === "shared";
  return { used: shared ? failures + losses : failures, limit: policy.maxAttempts };
}

/** "4 of 5 charged", and the losses, which may have a budget of their own. */
export function chargedText(
  { used, limit }: { readonly used: number; readonly limit: number },
  losses: number,
): string {
  return `${used} of ${limit} charged${losses === 0 ? "" : `, ${counted(losses, "loss", "losses")}`}`;
}

/** Which budget is used up ("tokens" or "costUsd"), or null. */
export function spentBudget(policy: Policy, usage: Usage | null): "tokens" | "costUsd" | null {
  if (usage === null) return null;
  const { tokens, costUsd } = policy.budget;
  if (tokens !== null && usage.tokensIn + usage.tokensOut >= tokens) return "tokens";
  return costUsd !== null && usage.costUsd >= costUsd ? "costUsd" : null;
}
