import { describe, expect, it } from "vitest";
import { checkInputs } from "./input-check.ts";
import type { InputRule } from "./playbook.ts";

const RULES: Readonly<Record<string, InputRule>> = {
  city: { type: "string", required: true, min: 2, max: 5 },
  days: { type: "integer", default: 3, min: 1, max: 7 },
  mode: { enum: ["fast", { a: [1] }] },
  list: { type: "array", max: 2, items: { type: "array", items: { type: "number" } } },
  free: {},
};

describe("the input of a run", () => {
  it("gets the defaults of its playbook, and keeps the rest as it is", () => {
    const { value, problems } = checkInputs(RULES, { city: "Oslo", mode: { a: [1] }, list: [[1.5]], free: null });
    expect(problems).toEqual([]);
    expect(value).toEqual({ city: "Oslo", days: 3, mode: { a: [1] }, list: [[1.5]], free: null });
  });

  it("is any object without rules", () => {
    expect(checkInputs(null, { x: 1 })).toEqual({ value: { x: 1 }, problems: [] });
    expect(checkInputs(null, undefined)).toEqual({ value: {}, problems: [] });
    expect(checkInputs(null, [1]).problems).toEqual([{ path: [], message: "the input must be an object; got [1]" }]);
  });

  it.each<[unknown, string[]]>([
    [{}, ["city: is missing; must be text"]],
    [
      { city: "x", days: 8 },
      ["city: must be at least 2 characters; got 1 characters", "days: must be at most 7; got 8"],
    ],
    [{ city: "Oslo", days: "3" }, ['days: must be a whole number; got "3"']],
    [{ city: "Oslo", days: 1.5 }, ["days: must be a whole number; got 1.5"]],
    [{ city: null }, ["city: must be text; got null"]],
    [{ city: "Oslo", mode: { a: [2] } }, ['mode: must be one of "fast", {"a":[1]}; got {"a":[2]}']],
    [
      { city: "Oslo", list: [[1], ["x"], []] },
      ["list: must be at most 2 items; got 3 items", 'list: item 2 item 1 must be a number; got "x"'],
    ],
    [{ cyti: "Oslo" }, ['unknown input "cyti"; did you mean "city"?', "city: is missing; must be text"]],
    [{ city: "Oslo", constructor: 1 }, ['unknown input "constructor"; known: city, days, mode, list, free']],
  ])("%j is refused with all that is wrong", (input, messages) => {
    expect(checkInputs(RULES, input).problems.map(({ message }) => message)).toEqual(messages);
  });
});
