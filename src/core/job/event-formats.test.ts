import { describe, expect, it } from "vitest";
import type { StoredDecision } from "./event.ts";
import { currentEvent, type DecisionOfFormat1, decisionOfFormat1 } from "./event-formats.ts";

type Told = Partial<DecisionOfFormat1> & Pick<DecisionOfFormat1, "step" | "matched">;

const failed = { kind: "fail", reason: "rejected" } as const;
const found = (part: string, line?: string) =>
  line === undefined ? { matchedPart: part } : { matchedPart: part, matchedText: line };

describe("a decision of format 1", () => {
  // biome-ignore format: a table, one row a line
  it.each<[Told, Pick<StoredDecision, "step" | "match">]>([
    // Where the step alone says it.
    [{ kind: "succeed", step: 1, matched: "completed" }, { step: "completed" }],
    [{ kind: "cancel", step: 2, matched: "cancel requested" }, { step: "cancel" }],
    [{ kind: "fail", reason: "budget", step: 3, matched: "budget" }, { step: "budget" }],
    [{ kind: "block", step: 4, matched: "waits for children" }, { step: "children" }],
    [{ kind: "fail", reason: "unschedulable", step: 5, matched: "deadline" }, { step: "deadline" }],
    [{ kind: "fail", reason: "poison", step: 6, matched: "poison guard" }, { step: "poison" }],
    // Handed back and lost.
    [{ step: 4, matched: "interrupted" }, { step: "handback", match: { by: "interrupted" } }],
    [{ step: 4, matched: "released" }, { step: "handback", match: { by: "released" } }],
    [{ kind: "fail", reason: "lost", step: 6, matched: "lease_expired" }, { step: "exhausted", match: { by: "loss", why: "lease_expired" } }],
    [{ kind: "fail", reason: "lost", step: 6, matched: "interrupted" }, { step: "exhausted", match: { by: "interrupted" } }],
    [{ step: 10, matched: "worker_gone" }, { step: "retry", match: { by: "loss", why: "worker_gone" } }],
    [{ step: 10, matched: "killed" }, { step: "retry", match: { by: "loss", why: "killed" } }],
    [{ step: 10, matched: "handed back 20 times in a row" }, { step: "retry", match: { by: "handbacks", count: 20 } }],
    // What the policy says of failures.
    [{ ...failed, step: 7, matched: "the task said no" }, { step: "not_retryable", match: { by: "task" } }],
    [{ ...failed, step: 7, matched: "invalid input" }, { step: "not_retryable", match: { by: "invalidInput" } }],
    [{ ...failed, step: 7, matched: "rules[12]" }, { step: "not_retryable", match: { by: "rule", index: 12 } }],
    [{ step: 10, matched: "rules[0]", ...found("exitCode 75") }, { step: "retry", match: { by: "rule", index: 0, conditions: "exitCode 75" } }],
    [{ step: 10, matched: "rules[1]", ...found('message "reset"', "it was reset") }, { step: "retry", match: { by: "rule", index: 1, conditions: 'message "reset"', line: "it was reset" } }],
    [{ ...failed, step: 7, matched: "preset default", ...found("status 404") }, { step: "not_retryable", match: { by: "preset", preset: "default", conditions: "status 404" } }],
    [{ ...failed, step: 7, matched: "stopWhen" }, { step: "not_retryable", match: { by: "condition", condition: "stopWhen" } }],
    [{ step: 10, matched: "retryWhen" }, { step: "retry", match: { by: "condition", condition: "retryWhen" } }],
    [{ step: 10, matched: "onTimeout" }, { step: "retry", match: { by: "onTimeout" } }],
    [{ step: 10, matched: "queue timeout" }, { step: "retry", match: { by: "queueTimeout" } }],
    [{ ...failed, step: 7, matched: "noRetryOnExitCodes", ...found("2") }, { step: "not_retryable", match: { by: "exitCodes", list: "noRetryOnExitCodes", code: 2 } }],
    [{ ...failed, step: 7, matched: "retryOnExitCodes" }, { step: "not_retryable", match: { by: "exitCodes", list: "retryOnExitCodes" } }],
    [{ step: 10, matched: "retryOn", ...found("reset", "reset by peer") }, { step: "retry", match: { by: "list", list: "retryOn", entry: "reset", line: "reset by peer" } }],
    [{ ...failed, step: 7, matched: "noRetryOn" }, { step: "not_retryable", match: { by: "list", list: "noRetryOn" } }],
    [{ kind: "fail", reason: "exhausted", step: 8, matched: "onUnknown" }, { step: "exhausted", match: { by: "onUnknown" } }],
    [{ kind: "fail", reason: "budget", step: 9, matched: "onUnknown" }, { step: "elapsed", match: { by: "onUnknown" } }],
    [{ step: 10, matched: "onUnknown", ...found('this version does not know lines "a-2", lines "b-1"') }, { step: "retry", match: { by: "onUnknown", unknownLists: ["a-2", "b-1"] } }],
    // Never written by a released version.
    [{ step: 10, matched: "circuit open" }, { step: "retry" }],
  ])("%j", (told, now) => {
    const common = { kind: "retry", class: "failure", charge: null, runAt: 7, conditionError: "no" } as const;
    const { matched: _m, matchedPart: _p, matchedText: _t, ...rest } = { ...common, ...told };
    expect(decisionOfFormat1({ ...common, ...told })).toStrictEqual({ ...rest, ...now });
  });
});

describe("an event", () => {
  const event = (data: object, jobId: string | null = "job_1") =>
    ({ seq: 9, jobId, n: 3, at: 5, name: "attempt.failed", data }) as never;

  it("of format 1 is read as one of format 2, whatever else it holds", () => {
    const decision = { kind: "retry", step: 10, class: "failure", matched: "onUnknown" };
    const counters = { failures: 1 };
    const now = { kind: "retry", step: "retry", class: "failure", match: { by: "onUnknown" } };
    expect(currentEvent(event({ v: 1, attempt: 1, decision, counters }))).toStrictEqual(
      event({ v: 2, attempt: 1, decision: now, counters }),
    );
    expect(currentEvent(event({ v: 1, attempt: 1, session: "s" }))).toStrictEqual(
      event({ v: 2, attempt: 1, session: "s" }),
    );
  });

  it("of another format, or of no job, stays as it is", () => {
    for (const other of [event({ v: 2 }), event({ v: 3, decision: {} }), event({ v: 1 }, null)]) {
      expect(currentEvent(other)).toBe(other);
    }
  });
});
