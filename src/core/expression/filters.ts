/** The filters and tests of conditions. All work counts against the budget of the evaluation. */
import { countedText, type EvaluationBudget, isTruthy, lengthOf } from "./values.ts";

export type Test = (value: unknown) => boolean;

export interface Filter {
  /** Without it, none is required. */
  readonly minArgs?: number;
  readonly maxArgs: number;
  readonly apply: (value: unknown, args: readonly unknown[], work: EvaluationBudget) => unknown;
}

export const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["default", { maxArgs: 2, apply: orDefault }],
  ["float", { maxArgs: 1, apply: (value, [fallback = 0]) => toNumber(value) ?? fallback }],
  ["int", { maxArgs: 1, apply: (value, [fallback = 0]) => truncate(toNumber(value)) ?? fallback }],
  ["length", { maxArgs: 0, apply: (value, _, work) => lengthOf(value, work) }],
  ["lower", { maxArgs: 0, apply: (value, _, work) => countedText(value, work).toLowerCase() }],
  ["trim", { maxArgs: 0, apply: (value, _, work) => countedText(value, work).trim() }],
  ["upper", { maxArgs: 0, apply: (value, _, work) => countedText(value, work).toUpperCase() }],
]);

const isNoneTest: Test = (value) => value === null || value === undefined;

export const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["defined", (value) => value !== undefined],
  ["undefined", (value) => value === undefined],
  ...["none", "None", "null"].map((name) => [name, isNoneTest] as const),
  ...["true", "True"].map((name) => [name, (value: unknown) => value === true] as const),
  ...["false", "False"].map((name) => [name, (value: unknown) => value === false] as const),
  ["boolean", (value) => typeof value === "boolean"],
  ["number", (value) => typeof value === "number"],
  ["string", (value) => typeof value === "string"],
]);

/** Narrower than `Number`, which also accepts `0x10` and the empty text. */
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;
const MAX_NUMBER_LENGTH = 400;

/** As in Jinja: replaces a missing value; with a true second argument, every falsy value. */
function orDefault(value: unknown, [fallback = "", falsy]: readonly unknown[], work: EvaluationBudget): unknown {
  return value === undefined || (isTruthy(falsy, work) && !isTruthy(value, work)) ? fallback : value;
}

export function toNumber(value: unknown): number | null {
  let number = Number.NaN;
  if (typeof value === "number" || typeof value === "boolean") number = Number(value);
  else if (typeof value === "string" && value.length <= MAX_NUMBER_LENGTH && NUMBER.test(value.trim())) {
    number = Number(value);
  }
  return Number.isFinite(number) ? number : null;
}

function truncate(value: number | null): number | null {
  return value === null ? null : Math.trunc(value);
}
