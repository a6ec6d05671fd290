import { describe, expect, it } from "vitest";
import { failure } from "../../core/decision/failure.ts";
import { attemptLine, type ProgressAttempt } from "./progress.ts";

const STORY = {
  ...{ attempt: 2, startedAt: 1_000, endedAt: 2_500, outcome: "failed", verdict: "retry", because: "it may help" },
  ...{ failure: failure({ kind: "exit", message: "exit code 7", exitCode: 7 }), delay: { delayMs: 2_000 } },
  charge: { to: "maxAttempts", used: 2, limit: 5 },
};
const line = (parts: object = {}) => attemptLine({ ...STORY, ...parts } as unknown as ProgressAttempt);

describe("the line of a run", () => {
  it.each([
    [{}, "run 2, 2 of 5 charged: exit code 7, retrying in 2.0 s because it may help"],
    [{ delay: { delayMs: 850 } }, "run 2, 2 of 5 charged: exit code 7, retrying in 850 ms because it may help"],
    [{ delay: { delayMs: 90_000 } }, "run 2, 2 of 5 charged: exit code 7, retrying in 1.5 min because it may help"],
    [{ delay: null }, "run 2, 2 of 5 charged: exit code 7, retrying now because it may help"],
    [{ verdict: "fail" }, "run 2, 2 of 5 charged: exit code 7, giving up because it may help"],
    [{ verdict: "cancel", charge: null }, "run 2: exit code 7, cancelled"],
    [{ outcome: "completed", verdict: "succeed", charge: null }, "run 2: succeeded after 1.5 s, done"],
    [{ outcome: "waiting", verdict: "block", charge: null, failure: null }, "run 2: waiting for its children"],
    [{ outcome: "interrupted", charge: null }, "run 2: interrupted, nothing is charged"],
    [
      { outcome: "lost", charge: { to: "workerLost", used: 1, limit: 100 }, delay: { delayMs: 0 } },
      "run 2, 1 of 100 charged to workerLost: lost: the process that ran it is gone, retrying now because it may help",
    ],
  ])("with %j is told so", (parts, text) => {
    expect(line(parts)).toBe(text);
  });

  it("is not told while it runs", () => {
    expect(line({ endedAt: null })).toBeNull();
  });
});
