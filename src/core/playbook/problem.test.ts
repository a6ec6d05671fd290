import { expect, it } from "vitest";
import { PROBLEM_CODES } from "./problem.ts";

it("has one code for each kind of mistake, in the form of all codes", () => {
  expect(new Set(PROBLEM_CODES).size).toBe(PROBLEM_CODES.length);
  for (const code of PROBLEM_CODES) expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
});
