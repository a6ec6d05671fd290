import { expect, it } from "vitest";
import type { PlaybookProblem } from "./problem.ts";
import { locateProblems, problemText } from "./problem-text.ts";

const problem = (path: PlaybookProblem["path"], severity: PlaybookProblem["severity"] = "error"): PlaybookProblem => ({
  ...{ code: "unknown_step", severity, path, offset: null, message: 'unknown step "x"' },
});

it("shows problems in the order of the text, and those without a position by their path", () => {
  const lines: Record<string, number> = { b: 7, a: 3 };
  const located = locateProblems(
    [problem(["b", 2, "x y"]), problem(["a"], "warning"), problem(["c", 0, "next"])],
    ([name]) => (lines[name as string] === undefined ? null : { line: lines[name as string] as number, column: 5 }),
  );
  expect(located.map((each) => problemText(each, "f.yaml"))).toEqual([
    'f.yaml: error: c[0].next: unknown step "x" [unknown_step]',
    'f.yaml:3:5: warning: unknown step "x" [unknown_step]',
    'f.yaml:7:5: error: unknown step "x" [unknown_step]',
  ]);
});
