import { describe, expect, it } from "vitest";
import { failure } from "../../core/decision/failure.ts";
import { attemptLine, type ProgressAttempt } from "./progress.ts";

const STORY = {
  ...{
    attempt: 2,
    startedAt: 1_000,
    endedAt: 2_500,
    outcome: "failed",
    verdict: "retry",
    because: "it may help",
    match: null,
  },
  ...{ failure: failure({ kind: "exit", message: "exit code 7", exitCode: 7 }), delay: { delayMs: 2_000 } },
  charge: { to: "maxAttempts", used: 2, limit: 5 },
};
const NOT_RETRIED = {
  ...{ verdict: "fail", step: "not_retryable", because: "exit code 7 is in noRetryOnExitCodes" },
};
const line = (parts: object = {}) => attemptLine({ ...STORY, ...parts } as unknown as ProgressAttempt);

describe("the line of an attempt", () => {
  it.each([
    [{}, "attempt 2/5 failed: exit code 7; retrying in 2.0 s"],
    [{ delay: { delayMs: 850 } }, "attempt 2/5 failed: exit code 7; retrying in 850 ms"],
    [{ delay: { delayMs: 90_000 } }, "attempt 2/5 failed: exit code 7; retrying in 1.5 min"],
    [{ delay: null }, "attempt 2/5 failed: exit code 7; retrying now"],
    [
      { failure: failure({ kind: "exit", message: "exit code 75: reset: by peer", exitCode: 75 }) },
      "attempt 2/5 failed: exit code 75 (reset: by peer); retrying in 2.0 s",
    ],
    [{ verdict: "fail", step: "exhausted" }, "attempt 2/5 failed: exit code 7; no attempts left"],
    [
      { ...NOT_RETRIED, match: { by: "exitCodes", list: "noRetryOnExitCodes", code: 7 } },
      "attempt 2/5 failed: exit code 7; not retried: exit code 7 is in noRetryOnExitCodes",
    ],
    [
      { ...NOT_RETRIED, match: { by: "list", list: "noRetryOn", entry: "denied", line: "long" } },
      'attempt 2/5 failed: exit code 7; not retried: noRetryOn "denied" matched',
    ],
    [
      { ...NOT_RETRIED, match: { by: "rule", index: 0, conditions: "exitCode 7" } },
      "attempt 2/5 failed: exit code 7; not retried: rules[0] (exitCode 7) matched",
    ],
    [
      { verdict: "fail", step: "budget", charge: null, because: "its token budget is used up" },
      "attempt 2 failed: exit code 7; not retried: its token budget is used up",
    ],
    [
      { ...NOT_RETRIED, match: { by: "invalidInput" }, because: "it could not be started; not retried" },
      "attempt 2/5 failed: exit code 7; not retried",
    ],
    [
      { ...NOT_RETRIED, match: { by: "onUnknown" } },
      "attempt 2/5 failed: exit code 7; not retried: no rule matched (onUnknown: fail)",
    ],
    [{ verdict: "cancel", charge: null }, "attempt 2 cancelled: exit code 7"],
    [{ outcome: "timed_out" }, "attempt 2/5 timed out after 1.5 s; retrying in 2.0 s"],
    [{ outcome: "completed", verdict: "succeed", charge: null }, "attempt 2 succeeded after 1.5 s"],
    [
      { outcome: "polled", failure: null },
      "attempt 2/5 completed after 1.5 s, not done yet by retryWhen; retrying in 2.0 s",
    ],
  ])("with %j is short", (parts, text) => {
    expect(line(parts)).toBe(text);
  });

  it.each([
    [
      { outcome: "waiting", verdict: "block", charge: null, failure: null },
      "attempt 2 is waiting for its children (not counted as an attempt)",
    ],
    [
      { outcome: "interrupted", charge: null, failure: null, delay: null },
      "attempt 2 interrupted by the shutdown of its worker (not counted as an attempt); retrying now",
    ],
    [
      { outcome: "lost", charge: { to: "workerLost", used: 1, limit: 100 }, failure: null, delay: { delayMs: 0 } },
      "attempt 2 lost; not counted towards maxAttempts (retry 1 of 100 after losses); retrying now",
    ],
    [
      { charge: { to: "rules[0]", used: 1, limit: 3 } },
      "attempt 2 failed: exit code 7 (not counted as an attempt; rules[0] 1/3); retrying in 2.0 s",
    ],
    [
      { chapter: 2, charge: { to: "maxAttempts", used: 1, limit: 5 } },
      "attempt 2 (1 of 5 since the redrive) failed: exit code 7; retrying in 2.0 s",
    ],
    [
      { attempt: 4, outcome: "lost", failure: null, charge: { to: "maxAttempts", used: 2, limit: 5 } },
      "attempt 4 lost (counted as 2/5); retrying in 2.0 s",
    ],
    [
      {
        ...{ outcome: "lost", failure: null, charge: { to: "workerLost", used: 1, limit: 0 } },
        ...{ verdict: "fail", step: "exhausted", because: "it was lost and is set to run at most once" },
      },
      "attempt 2 lost; not retried: it was lost and is set to run at most once",
    ],
  ])("shows how the attempt is counted: %j", (parts, text) => {
    expect(line(parts)).toBe(text);
  });

  it("is not printed while the attempt runs", () => {
    expect(line({ endedAt: null })).toBeNull();
  });
});
