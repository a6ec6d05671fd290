import { expect, it } from "vitest";
import type { StepInfo } from "../../core/api/runs.ts";
import { endLine, FollowedLoops, loopLine, startLine } from "./run-lines.ts";

const step = (parts: Partial<StepInfo>): StepInfo => ({
  ...{ n: 1, step: "fetch", type: "http", visit: 1, item: null, try: 1, state: "succeeded", job: "j", jobState: null },
  ...{ attempt: 1, maxAttempts: 3, nextRunAt: null, reason: null, failure: null, waitsUntil: null },
  ...{ startedAt: 1_000, endedAt: 2_500 },
  ...parts,
});
const failure = { message: "exit code 7\nat line 2" } as StepInfo["failure"];

it.each([
  [step({}), "✓ fetch: succeeded, 1.5 s"],
  [step({ attempt: 3 }), "✓ fetch: succeeded after 3 attempts, 1.5 s"],
  [step({ state: "failed", failure }), "✗ fetch: failed, 1.5 s: exit code 7 at line 2"],
  [step({ state: "handled", failure }), "! fetch: failed, 1.5 s: exit code 7 at line 2; handled"],
  [step({ state: "skipped" }), "– fetch: skipped"],
  [step({ state: "cancelled" }), "⊘ fetch: cancelled"],
  [step({ state: "open" }), null],
  [step({ type: null }), null],
])("shows the end of a step: %#", (row, line) => {
  expect(endLine("fetch", row, null, false)).toBe(line);
});

it("shows starts, with the time of a wait and the items of a loop", () => {
  expect(startLine("fetch", step({ state: "open" }), null, 0)).toBe("▸ fetch: http");
  expect(startLine("w", step({ state: "waiting", type: "wait", waitsUntil: 60_000 }), null, 0)).toBe(
    "▸ w: wait, due in 1 min",
  );
  expect(startLine("end", step({ type: null }), null, 0)).toBeNull();
  expect(startLine("l", step({}), { n: 1, total: 10, succeeded: 0, failed: 0 }, 0)).toBe("▸ l: 10 items");
});

it("counts the items of each visit of a loop, and again after a redrive", () => {
  const loops = new FollowedLoops();
  const item = (at: number, state: "succeeded" | "failed") =>
    loops.apply({ do: "end", n: 3 + at, step: 0, visit: 1, item: at, state });
  loops.apply({ do: "start", n: 1, step: 0, visit: 1, items: 3 });
  item(0, "succeeded");
  item(1, "failed");
  expect(loopLine(item(2, "failed") ?? { n: 0, total: 0, succeeded: 0, failed: 0 })).toBe("1/3 ✓ 2 ✗");
  loops.apply({ do: "reloop", n: 1, step: 0, visit: 1, items: [1, 2], try: 2 });
  item(1, "succeeded");
  expect(loops.of(0, 1)).toEqual({ n: 1, total: 3, succeeded: 2, failed: 0 });
  expect(loops.of(0, 2)).toBeNull();
  expect(loops.apply({ do: "end", n: 9, step: 4, visit: 1, state: "succeeded" })).toBeNull();
});
