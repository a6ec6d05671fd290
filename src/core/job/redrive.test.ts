import { describe, expect, it } from "vitest";
import type { BackoffInput, PolicyInput } from "../policy/policy.ts";
import { resolvePolicy } from "../policy/resolve-policy.ts";
import {
  type ChangedTerms,
  changedTerms,
  type RedriveChanges,
  redrivenTerms,
  showTerms,
  toRedriveTerms,
} from "./redrive.ts";

const termsOf = (retry: PolicyInput) => ({
  policy: resolvePolicy(retry),
  ...{ timeoutMs: 5_000, priority: 5, expireInMs: null, deadlineAt: null },
});

describe("the terms of a redriven job", () => {
  const own: PolicyInput = {
    ...{ maxAttempts: 4, budget: { tokens: 9, costUsd: 1 }, stopWhen: "{{ attempt > 2 }}" },
    backoff: { initial: "2s", max: "10s", jitter: 0 },
  };
  const exponential = (fields: object) => ({ backoff: { ...resolvePolicy(own).backoff, ...fields } });

  it.each<[string, RedriveChanges, object | null]>([
    ["nothing", {}, null],
    ["what it had already", { timeout: "5s", retry: { maxAttempts: 4 } }, null],
    ["a number of attempts", { retry: 2 }, { policy: { maxAttempts: 2 } }],
    ["one attempt", { retry: false }, { policy: { maxAttempts: 1 } }],
    ["one limit of a budget", { retry: { budget: { costUsd: 3 } } }, { policy: { budget: { tokens: 9, costUsd: 3 } } }],
    ["a cap", { retry: { backoff: { max: "3s" } } }, { policy: exponential({ maxMs: 3_000 }) }],
    [
      "a first delay above the cap",
      { retry: { backoff: { initial: "5m" } } },
      { policy: exponential({ initialMs: 300_000, maxMs: 300_000 }) },
    ],
    ["no backoff", { retry: { backoff: { type: "none" } } }, { policy: { backoff: { type: "none" } } }],
    [
      "all but the policy",
      { timeout: "1m", priority: 0, expireIn: "1h", deadline: new Date(7) },
      { timeoutMs: 60_000, priority: 0, expireInMs: 3_600_000, deadlineAt: 7 },
    ],
  ])("with %s", (_name, changes, changed) => {
    const before = termsOf(own);
    const after = redrivenTerms(before, toRedriveTerms(changes));
    expect(changedTerms(before, after as typeof before)).toEqual(changed);
  });

  it("come from a preset alone, where one is named", () => {
    const after = redrivenTerms(termsOf(own), toRedriveTerms({ retry: { preset: "opal" } }));
    expect(after).toMatchObject({ policy: resolvePolicy({ preset: "opal" }), timeoutMs: 5_000 });
  });

  it("begin afresh where the backoff before was none", () => {
    const backoff: BackoffInput = { initial: "3s" };
    const after = redrivenTerms(termsOf({ backoff: { type: "none" } }), toRedriveTerms({ retry: { backoff } }));
    expect(after).toMatchObject({ policy: { backoff: resolvePolicy({ backoff }).backoff } });
  });

  it("are refused where they do not fit the job's own", () => {
    const before = termsOf({ backoff: { min: "5s" } });
    expect(redrivenTerms(before, toRedriveTerms({ retry: { backoff: { max: "1s" } } }))).toMatch(/at least min/);
  });

  it.each<[object, RegExp]>([
    [{ retries: 2 }, /redrive\.retries/],
    [{ retry: true }, /redrive\.retry/],
    [{ retry: { maxAttemps: 2 } }, /redrive\.retry\.maxAttemps/],
    [{ timeout: 0 }, /redrive\.timeout/],
    [{ priority: 10 }, /redrive\.priority/],
    [{ deadline: "tomorrow" }, /redrive\.deadline/],
    [{ queue: "other" }, /redrive\.queue/],
  ])("%j is refused", (changes, message) => {
    expect(() => toRedriveTerms(changes as RedriveChanges)).toThrow(message);
  });
});

describe("changed terms as text", () => {
  const { backoff } = resolvePolicy({ backoff: { initial: "1s", max: "5m", jitter: 0.25 } });
  it.each<[ChangedTerms, string]>([
    [
      { policy: { maxAttempts: 1_000, backoff } },
      "maxAttempts 1000, backoff (exponential 1 s to 5 min, factor 2, jitter 25 %)",
    ],
    [
      { policy: { backoff }, timeoutMs: 1_000 },
      "backoff (exponential 1 s to 5 min, factor 2, jitter 25 %), timeout 1 s",
    ],
    [{ policy: { backoff: { type: "none" } } }, "backoff (none)"],
  ])("%j", (changed, text) => {
    expect(showTerms(changed)).toBe(text);
  });
});
