import { describe, expect, it } from "vitest";
import { testRule } from "../job/testing-job.ts";
import type { Rule, RuleCondition } from "../policy/policy.ts";
import { matchOf } from "./classify.ts";
import { type Failure, failure } from "./failure.ts";

const ruleMatches = (rule: Rule, cause: Failure, attempt: number) => matchOf(rule, cause, attempt) !== null;

describe("a rule", () => {
  const cause = failure({
    kind: "http",
    message: "503 Service Unavailable",
    name: "FetchError",
    code: "EHTTP",
    exitCode: 7,
    signal: "SIGTERM",
    status: 503,
  });
  const bare = failure({ kind: "error", message: "it broke" });

  it.each<[keyof RuleCondition, Partial<RuleCondition>, Partial<RuleCondition>]>([
    ["kind", { kind: ["oom", "http"] }, { kind: ["oom", "exit"] }],
    ["exitCode", { exitCode: [1, 7] }, { exitCode: [1, 8] }],
    ["signal", { signal: ["SIGKILL", "SIGTERM"] }, { signal: ["SIGKILL"] }],
    ["error", { error: ["TypeError", "FetchError"] }, { error: ["TypeError"] }],
    ["message", { message: ["nothing", "service unavail"] }, { message: ["nothing"] }],
    [
      "status",
      { status: [[500, 503]] },
      {
        status: [
          [400, 499],
          [504, 599],
        ],
      },
    ],
    ["attempt", { attempt: [1, 2] }, { attempt: [1, 3] }],
  ])("matches on %s by any of its list", (_, yes, no) => {
    expect(ruleMatches(testRule(yes, "fail"), cause, 2)).toBe(true);
    expect(ruleMatches(testRule(no, "fail"), cause, 2)).toBe(false);
  });

  it.each<[Partial<RuleCondition>]>([
    [{ exitCode: [0] }],
    [{ signal: ["SIGKILL"] }],
    [{ error: ["Error"] }],
    [{ status: [[100, 599]] }],
  ])("does not match a failure that has nothing of the sort: %o", (condition) => {
    expect(ruleMatches(testRule(condition, "fail"), bare, 1)).toBe(false);
  });

  it("includes both ends of a range of statuses", () => {
    const range = testRule({ status: [[500, 504]] }, "fail");
    const statuses = [499, 500, 504, 505].map((status) => ruleMatches(range, failure({ ...cause, status }), 1));
    expect(statuses).toEqual([false, true, true, false]);
  });

  it("looks for parts in the code too", () => {
    expect(ruleMatches(testRule({ message: ["ehttp"] }, "fail"), cause, 1)).toBe(true);
  });

  it("matches only when all given fields do", () => {
    expect(ruleMatches(testRule({ kind: ["http"], status: [[503, 503]] }, "fail"), cause, 1)).toBe(true);
    expect(ruleMatches(testRule({ kind: ["http"], status: [[500, 500]] }, "fail"), cause, 1)).toBe(false);
    expect(ruleMatches(testRule({ kind: ["exit"], status: [[503, 503]] }, "fail"), cause, 1)).toBe(false);
    expect(ruleMatches(testRule({}, "fail"), cause, 1)).toBe(true);
  });

  it("names the conditions with the values that matched, and the line of a part", () => {
    const partOf = (condition: Partial<RuleCondition>, of = cause) => matchOf(testRule(condition, "retry"), of, 2);
    expect(partOf({ exitCode: [6, 7], signal: ["SIGTERM"] })).toEqual({
      ...{ part: "exitCode 7, signal SIGTERM", line: null },
    });
    expect(partOf({ status: [[500, 599]], attempt: [1, 2] })?.part).toBe("attempt 2, status 500-599");
    expect(partOf({ status: [[503, 503]], kind: ["http"] })?.part).toBe("kind http, status 503");
    const long = failure({ kind: "error", message: `${"x".repeat(500)}\nDeadlock found${" y".repeat(500)}` });
    expect(partOf({ message: ["no", "deadlock"] }, long)).toMatchObject({
      ...{ part: 'message "deadlock"', line: expect.stringMatching(/^Deadlock found y.* y…$/) },
    });
    expect(partOf({ message: ["deadlock"] }, long)?.line?.length).toBeLessThan(250);
    expect(partOf({})).toEqual({ part: "", line: null });
  });
});
