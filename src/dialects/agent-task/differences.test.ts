/** What a person reads of a changed command: positions, and no values. */
import { expect, it } from "vitest";
import type { ReadEntry } from "../dialect.ts";
import { taskDifferences } from "./differences.ts";

const entry = (...argv: string[]): ReadEntry => ({
  task: "exec",
  input: { argv, env: {} },
  options: { annotations: {} },
});
const told = (a: ReadEntry, b: ReadEntry) => taskDifferences(a, b).map(({ text }) => text);

it("a changed command is printed by positions, without its arguments", () => {
  expect(told(entry("a", "--key=one"), entry("a", "--key=two"))).toEqual(["spec.command[1]: another value"]);
  expect(told(entry("a", "b"), entry("a"))).toEqual(["spec.command[1]: set -> none"]);
  const many = told(entry("a"), entry(..."abcdefgh"));
  expect([many.length, many[0], many.at(-1)]).toEqual([
    ...[6, "spec.command[1]: none -> set", "spec.command: 2 more arguments differ"],
  ]);
});
