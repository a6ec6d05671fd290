import { describe, expect, it } from "vitest";
import type { PolicyInput } from "../../core/policy/policy.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { attemptsText, backoffText, policyBudgetText } from "./policy-text.ts";

const SHARED = { workerLost: { charge: "shared" } } as const;
const times = (initial: string, max: string) => ({ initial, max, jitter: 0 }) as never;

describe("the policy of a job without attempts", () => {
  it.each<[PolicyInput, string, string | null, string | null]>([
    [{ preset: "agent", maxAttempts: 8 }, "8 in all", "30 s, 1 min, 2 min, … capped at 5 min, ±25 %", null],
    [{ preset: "agent", maxAttempts: 2 }, "2 in all", "30 s, ±25 %", null],
    [{ preset: "agent", maxAttempts: 1, budget: { tokens: 9 } }, "1 in all, no retry", null, "9 tokens"],
    [{ preset: "opal", maxAttempts: 4 }, "4 in all", "8 s, 15 s, 15 s", null],
    [{ ...SHARED, maxAttempts: 5, backoff: times("1s", "1h") }, "5 in all", "1 s, 2 s, 4 s, … up to 8 s", null],
    [{ ...SHARED, maxAttempts: 9, backoff: { type: "fixed", delay: "5s", jitter: 0 } }, "9 in all", "5 s each", null],
    [{ ...SHARED, maxAttempts: 3, backoff: { type: "none" } }, "3 in all", "none, at once", null],
    [
      { preset: "fluster", maxAttempts: 1, budget: { tokens: 100, costUsd: 0.5 } },
      ...(["1 in all, no retry of failures; 100 retries after lost workers"] as const),
      ...(["after lost workers: none, at once", "100 tokens and 0.5 USD"] as const),
    ],
  ])("%j", (input, attempts, backoff, budget) => {
    const policy = resolvePolicy(input);
    expect([attemptsText(policy), backoffText(policy), policyBudgetText(policy)]).toEqual([attempts, backoff, budget]);
  });
});
