/** Checks the input of a run by the rules of its playbook, and fills in defaults. All mistakes are reported at once. */
import { isPlain, nearest } from "../check.ts";
import { show } from "../errors.ts";
import type { InputRule } from "./playbook.ts";
import type { SourcePath } from "./problem.ts";

/** A mistake in the input of a run. `message` has the name of the input.
 *  @example
 *  const problem: InputProblem = { path: ["days"], message: "days: must be a whole number; got \"3\"" }; */
export interface InputProblem {
  readonly path: SourcePath;
  readonly message: string;
}

export interface CheckedInputs {
  /** With defaults filled in. The input as it is where there are no rules. */
  readonly value: Readonly<Record<string, unknown>>;
  readonly problems: readonly InputProblem[];
}

const MAX_PROBLEMS = 100;

/** `rules` null accepts any object. `input` is JSON; undefined and null are an empty object. */
export function checkInputs(rules: Readonly<Record<string, InputRule>> | null, input: unknown): CheckedInputs {
  const given = input ?? {};
  if (!isPlain(given)) {
    return { value: {}, problems: [{ path: [], message: `the input must be an object; got ${show(given)}` }] };
  }
  const values = given as Readonly<Record<string, unknown>>;
  if (rules === null) return { value: values, problems: [] };
  const names = Object.keys(rules);
  const problems: InputProblem[] = [];
  for (const name of Object.keys(values)) {
    if (Object.hasOwn(rules, name)) continue;
    if (problems.length >= MAX_PROBLEMS) break;
    const near = name.length <= 100 ? nearest(name, names) : null;
    const known = names.length === 0 ? "there are no inputs" : `known: ${names.slice(0, 12).join(", ")}`;
    const hint = near === null ? known : `did you mean "${near}"?`;
    problems.push({ path: [name], message: `unknown input ${show(name)}; ${hint}` });
  }
  const filled: [string, unknown][] = Object.entries(values);
  for (const [name, rule] of Object.entries(rules)) {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    if (value !== undefined) {
      for (const problem of checkValue(rule, value, [name])) {
        if (problems.length < MAX_PROBLEMS) problems.push({ ...problem, message: `${name}: ${problem.message}` });
      }
    } else if (rule.default !== undefined) filled.push([name, rule.default]);
    else if (rule.required === true && problems.length < MAX_PROBLEMS) {
      problems.push({ path: [name], message: `${name}: is missing; must be ${kindOf(rule)}` });
    }
  }
  return { value: Object.fromEntries(filled), problems };
}

/** Messages begin with `must be`, or with the index of an item. */
export function* checkValue(rule: InputRule, value: unknown, path: SourcePath): Generator<InputProblem> {
  const refuse = (must: string, shown = show(value)) => ({ path, message: `must be ${must}; got ${shown}` });
  if (rule.type !== undefined && !IS[rule.type](value)) {
    yield refuse(kindOf(rule));
    return;
  }
  if (rule.enum !== undefined && !rule.enum.some((each) => isSame(each, value))) {
    yield refuse(`one of ${rule.enum.map(show).join(", ").slice(0, 300)}`);
  }
  const size = typeof value === "string" || Array.isArray(value) ? value.length : value;
  if (typeof size === "number") {
    const what = Array.isArray(value) ? " items" : typeof value === "string" ? " characters" : "";
    const shown = what === "" ? show(value) : `${size}${what}`;
    if (rule.min !== undefined && size < rule.min) yield refuse(`at least ${rule.min}${what}`, shown);
    if (rule.max !== undefined && size > rule.max) yield refuse(`at most ${rule.max}${what}`, shown);
  }
  if (rule.items === undefined || !Array.isArray(value)) return;
  for (const [index, each] of value.entries()) {
    for (const problem of checkValue(rule.items, each, [...path, index])) {
      yield { ...problem, message: `item ${index + 1} ${problem.message}` };
    }
  }
}

const IS: Readonly<Record<NonNullable<InputRule["type"]>, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  integer: (value) => Number.isSafeInteger(value),
  number: (value) => typeof value === "number" && Number.isFinite(value),
  boolean: (value) => typeof value === "boolean",
  object: isPlain,
  array: Array.isArray,
};

const KINDS: Readonly<Record<NonNullable<InputRule["type"]>, string>> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  object: "an object",
  array: "a list",
};

function kindOf(rule: InputRule): string {
  return rule.type === undefined ? "a value" : KINDS[rule.type];
}

/** Both are JSON. The order of keys does not matter. */
function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every(
    (key) => Object.hasOwn(b, key) && isSame((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]),
  );
}
