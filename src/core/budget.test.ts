import { describe, expect, it } from "vitest";
import { spentBudget } from "./budget.ts";
import { addUsage, type Usage } from "./job.ts";
import { testJob } from "./testing-job.ts";

const used = (tokensIn: number, tokensOut: number, costUsd: number): Usage => ({ tokensIn, tokensOut, costUsd });

describe("spentBudget", () => {
  it.each<[string, { tokens: number | null; costUsd: number | null }, Usage | null, "tokens" | "costUsd" | null]>([
    ["has nothing to spend without a budget", { tokens: null, costUsd: null }, used(1e9, 1e9, 1e9), null],
    ["is not spent by a job that used nothing", { tokens: 100, costUsd: 1 }, null, null],
    ["is not spent one token before the limit", { tokens: 100, costUsd: null }, used(60, 39, 0), null],
    ["is spent at the limit, tokens in and out together", { tokens: 100, costUsd: null }, used(60, 40, 0), "tokens"],
    ["is spent beyond the limit", { tokens: 100, costUsd: null }, used(0, 101, 0), "tokens"],
    ["is not spent a cent before the limit", { tokens: null, costUsd: 0.5 }, used(0, 0, 0.49), null],
    ["is spent when the money is", { tokens: null, costUsd: 0.5 }, used(0, 0, 0.5), "costUsd"],
    ["is spent by money although tokens are left", { tokens: 100, costUsd: 0.5 }, used(1, 1, 2), "costUsd"],
    ["names the tokens when both are spent", { tokens: 100, costUsd: 0.5 }, used(100, 0, 2), "tokens"],
    ["is not spent while both have something left", { tokens: 100, costUsd: 0.5 }, used(99, 0, 0.1), null],
  ])("%s", (_, budget, usage, expected) => {
    expect(spentBudget(testJob({ policy: { budget } }).policy, usage)).toBe(expected);
  });
});

it("adds up money without the traces of binary fractions", () => {
  const three = [0.3, 0.3, 0.3].reduce<Usage | null>((sum, costUsd) => addUsage(sum, used(0, 0, costUsd)), null);
  expect(three).toEqual(used(0, 0, 0.9));
});
