import { describe, expect, it } from "vitest";
import { failure } from "../../core/decision/failure.ts";
import { attemptLine, type ProgressAttempt } from "./progress.ts";

const STORY = {
  ...{ attempt: 2, startedAt: 1_000, endedAt: 2_500, outcome: "failed", verdict: "retry", because: "it may help" },
  ...{ failure: failure({ kind: "exit", message: "exit code 7", exitCode: 7 }), delay: { delayMs: 2_000 } },
  charge: { to: "maxAttempts", used: 2, limit: 5 },
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
    [{ verdict: "fail" }, "attempt 2/5 failed: exit code 7; giving up"],
    [{ verdict: "fail", charge: null }, "attempt 2 failed: exit code 7; giving up"],
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
      "attempt 2 lost: its worker exited or was cut off (not counted as an attempt; workerLost 1/100); retrying now",
    ],
    [
      { charge: { to: "rules[0]", used: 1, limit: 3 } },
      "attempt 2 failed: exit code 7 (not counted as an attempt; rules[0] 1/3); retrying in 2.0 s",
    ],
    [
      { attempt: 4, outcome: "lost", failure: null, charge: { to: "maxAttempts", used: 2, limit: 5 } },
      "attempt 4 lost: its worker exited or was cut off (counted as 2/5); retrying in 2.0 s",
    ],
  ])("shows how the attempt is counted: %j", (parts, text) => {
    expect(line(parts)).toBe(text);
  });

  it("is not printed while the attempt runs", () => {
    expect(line({ endedAt: null })).toBeNull();
  });
});
