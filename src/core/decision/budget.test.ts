import { describe, expect, it } from "vitest";
import { addUsage, type Usage } from "../job/job.ts";
import { testJob } from "../job/testing-job.ts";
import {
  attemptText,
  type BudgetNow,
  type BudgetShortage,
  budgetText,
  heldBy,
  leftOf,
  limitText,
  NO_AMOUNT,
  noStart,
  redrivenBudgets,
  shortageText,
  spentAbove,
  spentBudget,
} from "./budget.ts";

const used = (tokensIn: number, tokensOut: number, costUsd: number): Usage => ({ tokensIn, tokensOut, costUsd });

describe("attemptText", () => {
  const blank = { attempt: 2, used: 2, limit: 5, losses: 0, isOpen: false, chapter: 1 };
  it.each<[Partial<typeof blank>, string]>([
    [{}, "2 of 5"],
    [{ used: 1, isOpen: true }, "2 of 5"],
    [{ used: 1 }, "2 (1 of 5 counted)"],
    [{ attempt: 0, used: 0 }, "0 of 5"],
    [{ losses: 2 }, "2 of 5 (2 losses)"],
    [{ attempt: 7, used: 3, isOpen: true, losses: 1 }, "7 (3 of 5 counted, 1 loss)"],
    [{ attempt: 6, used: 0, chapter: 2 }, "6 (0 of 5 since the redrive)"],
    [{ attempt: 6, used: 0, chapter: 2, isOpen: true }, "6 (1 of 5 since the redrive)"],
    [{ attempt: 9, used: 2, chapter: 2, isOpen: true, losses: 1 }, "9 (3 of 5 since the redrive, 1 loss)"],
  ])("%j: %s", (parts, text) => {
    expect(attemptText({ ...blank, ...parts })).toBe(text);
  });
});

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

describe("what is left of a budget", () => {
  const now = (parts: Partial<BudgetNow> = {}): BudgetNow => ({
    ...{ jobId: "job_p", limit: { tokens: 100, costUsd: 1 }, spent: { tokens: 10, costUsd: 0.1 } },
    ...{ live: { tokens: 20, costUsd: 0.2 }, reserved: { tokens: 30, costUsd: 0.3 }, ...parts },
  });
  const estimated = (costUsd: number) =>
    testJob({ policy: { budget: { tokens: null, costUsd: null, estimate: { tokens: null, costUsd } } } });

  it("is what is neither spent, nor used by running attempts, nor reserved", () => {
    expect(leftOf(now())).toEqual({ tokens: 40, costUsd: 0.4 });
    expect(leftOf(now({ limit: { tokens: null, costUsd: 0.5 } }))).toEqual({ tokens: null, costUsd: -0.1 });
    expect(budgetText(now())).toBe(
      "30 of 100 tokens spent, 30 reserved, 40 left; 0.3 of 1 USD spent, 0.3 reserved, 0.4 left",
    );
    expect(budgetText(now({ limit: { tokens: null, costUsd: 0.2 }, reserved: NO_AMOUNT }))).toBe(
      "0.3 of 0.2 USD spent, 0 left",
    );
  });

  it("must be more than nothing, and as much as the estimate, for a start; a job's own budget does not count", () => {
    expect(noStart(testJob(), [now()])).toBe(null);
    expect(noStart(estimated(0.4), [now()])).toBe(null);
    expect(noStart(estimated(0.41), [now()])).toMatchObject({
      jobId: "job_p",
      part: "costUsd",
      left: 0.4,
      wanted: 0.41,
    });
    const none = now({ spent: { tokens: 50, costUsd: 0 } });
    expect(noStart(testJob(), [now({ jobId: "job_near" }), none])).toMatchObject({
      jobId: "job_p",
      part: "tokens",
      left: 0,
    });
    expect(noStart(testJob(), [{ ...none, jobId: testJob().id }])).toBe(null);
  });

  it("names what others have reserved where a start does not fit", () => {
    const limit = { tokens: null, costUsd: 1 };
    const full = now({ limit, spent: NO_AMOUNT, live: NO_AMOUNT, reserved: { tokens: 0, costUsd: 1 } });
    expect(shortageText(noStart(testJob(), [full]) as BudgetShortage)).toBe(
      "the budget of job_p (1 USD, 0 spent, 1 reserved) has nothing left",
    );
  });

  it("is named with the estimate where a start needs more", () => {
    expect(shortageText(noStart(estimated(0.41), [now()]) as BudgetShortage)).toBe(
      "the budget of job_p (1 USD, 0.3 spent, 0.3 reserved) has 0.4 left, and an attempt is estimated at 0.41",
    );
  });

  it("after a redrive moves with the policy, and keeps what was granted beside it", () => {
    const job = testJob({ policy: { budget: { tokens: 100, costUsd: null } } });
    const own = now({ jobId: job.id, limit: { tokens: 150, costUsd: null } });
    const under = (tokens: number | null, costUsd: number | null) =>
      redrivenBudgets(job, testJob({ policy: { budget: { tokens, costUsd } } }).policy, [own])[0]?.limit;
    expect(under(300, null)).toEqual({ tokens: 350, costUsd: null });
    expect(under(100, 0.5)).toEqual({ tokens: 150, costUsd: 0.5 });
    expect(under(null, null)).toEqual({ tokens: null, costUsd: null });
    const granted = redrivenBudgets(job, job.policy, [now()], { costUsd: 0.5 });
    expect(granted.find(({ jobId }) => jobId === "job_p")?.limit).toEqual({ tokens: 100, costUsd: 1.5 });
  });

  it.each([
    [{ tokens: null, costUsd: null }, "no limit"],
    [{ tokens: 1_000, costUsd: null }, "1000 tokens"],
    [{ tokens: 1, costUsd: null }, "1 token"],
    [{ tokens: 1_000, costUsd: 1 }, "1000 tokens and 1 USD"],
  ])("is shown beside its limit: %j", (limit, text) => {
    expect(limitText(limit)).toBe(text);
  });

  it("is not used up by the reservations of running attempts", () => {
    expect(spentAbove([now({ reserved: { tokens: 900, costUsd: 9 } })])).toBe(null);
    expect(spentAbove([now({ live: { tokens: 90, costUsd: 0 } })])).toMatchObject({ part: "tokens", used: 100 });
  });

  it("is held by an attempt as much as it was estimated at, or more if it has used more", () => {
    const { policy } = estimated(0.4);
    expect(heldBy(policy, null)).toEqual({ live: NO_AMOUNT, reserved: { tokens: 0, costUsd: 0.4 } });
    expect(heldBy(policy, used(1, 2, 0.3)).reserved).toEqual({ tokens: 0, costUsd: 0.1 });
    expect(heldBy(policy, used(1, 2, 0.5))).toEqual({ live: { tokens: 3, costUsd: 0.5 }, reserved: NO_AMOUNT });
    const tokens = testJob({
      policy: { budget: { tokens: null, costUsd: null, estimate: { tokens: 5, costUsd: null } } },
    });
    expect(heldBy(tokens.policy, used(1, 2, 0.5)).reserved).toEqual({ tokens: 2, costUsd: 0 });
    expect(heldBy(testJob().policy, used(1, 2, 0.5)).reserved).toEqual(NO_AMOUNT);
  });
});

it("adds up money without the traces of binary fractions", () => {
  const three = [0.3, 0.3, 0.3].reduce<Usage | null>((sum, costUsd) => addUsage(sum, used(0, 0, costUsd)), null);
  expect(three).toEqual(used(0, 0, 0.9));
});
