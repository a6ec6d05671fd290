/** Evaluates a parsed condition in bounded time. Only own data properties of plain objects and items of lists are read, so no
 *  method or getter of an object runs, and all work counts against a budget. Numbers are doubles, and the length of a text is
 *  in UTF-16 units. Otherwise as in Python, except that None and missing are equal, that values without an order (None,
 *  booleans, two types) are neither less nor greater, and that booleans cannot be added. */

/** A condition has no value; the message is for its author. */
export class EvaluationError extends Error {}

/** The work that is left for an evaluation, in characters of text. */
interface EvaluationBudget {
  left: number;
}

/** Enough to read the longest result (1 MiB) almost four times: 5 to 25 ms at worst, and microseconds normally. */
const MAX_WORK = 4_000_000;

/** The cost of an item of a list, or of a key, in characters. */
const ITEM = 40;

/** V8 searches for longer texts in more than linear time: half a million characters in a million took 63 s. */
const MAX_SEARCHED = 200;

/** Only cycles are nested this deep. */
const MAX_VALUE_DEPTH = 200;

const FORBIDDEN: ReadonlySet<unknown> = new Set(["__proto__", "constructor", "prototype"]);

type Arithmetic = "+" | "-" | "*" | "/" | "//" | "%" | "~";

function spend(work: EvaluationBudget, amount: number): void {
  work.left -= amount;
  if (work.left < 0) throw new EvaluationError("the values are too large for a condition");
}

/** The value if JSON can hold it; functions, dates and instances count as missing. */
function plain(value: unknown): unknown {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
  if (value === null || Array.isArray(value) || isObject(value)) return value;
  return undefined;
}

function isObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Not by identity with Object.prototype, so that objects of another realm count too.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** `object.key` or `object[key]`; undefined where it does not exist. */
function member(object: unknown, key: unknown): unknown {
  const whole = Number.isInteger(key);
  if (Array.isArray(object)) {
    return whole ? own(object, (key as number) < 0 ? object.length + (key as number) : (key as number)) : undefined;
  }
  if (!isObject(object) || FORBIDDEN.has(key)) return undefined;
  return whole || typeof key === "string" ? own(object, key as string | number) : undefined;
}

/** A copy, made without the methods of the list, which may be replaced. */
function itemsOf(list: readonly unknown[]): unknown[] {
  return Array.from({ length: list.length }, (_, i) => own(list, i));
}

/** Through the descriptor, so that no getter runs. */
function own(object: object, key: string | number): unknown {
  return plain(Object.getOwnPropertyDescriptor(object, key)?.value);
}

function isTruthy(value: unknown, work: EvaluationBudget): boolean {
  return typeof value === "object" && value !== null ? lengthOf(value, work) > 0 : Boolean(value);
}

function lengthOf(value: unknown, work: EvaluationBudget): number {
  if (value === null || value === undefined) return 0;
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  if (typeof value !== "object") throw new EvaluationError(`${describe(value)} has no length`);
  return keysOf(value, work).length;
}

function keysOf(object: object, work: EvaluationBudget): string[] {
  const keys = Object.keys(object);
  spend(work, keys.length * ITEM);
  return keys;
}

function isEqual(a: unknown, b: unknown, work: EvaluationBudget, depth = 0): boolean {
  spend(work, ITEM);
  if (depth > MAX_VALUE_DEPTH) throw new EvaluationError("the values are nested too deep for a condition");
  if (isNone(a) || isNone(b)) return isNone(a) && isNone(b);
  if (typeof a === "string" && typeof b === "string") return isSameText(a, b, work);
  if (isNumeric(a) && isNumeric(b)) return Number(a) === Number(b);
  if (typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a)) {
    const other = b as unknown[];
    if (a.length !== other.length) return false;
    for (let i = 0; i < a.length; i++) if (!isEqual(own(a, i), own(other, i), work, depth + 1)) return false;
    return true;
  }
  const [left, right] = [a as object, b as object];
  const keys = keysOf(left, work);
  if (keys.length !== keysOf(right, work).length) return false;
  return keys.every((key) => Object.hasOwn(right, key) && isEqual(own(left, key), own(right, key), work, depth + 1));
}

function isNone(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

/** As in Python, true is 1 and false is 0. */
function isNumeric(value: unknown): value is number | boolean {
  return typeof value === "number" || typeof value === "boolean";
}

function isSameText(a: string, b: string, work: EvaluationBudget): boolean {
  if (a.length !== b.length) return false;
  spend(work, a.length);
  return a === b;
}

/** `a < b`, or `a <= b`: two numbers or two texts. */
function isLess(a: unknown, b: unknown, orEqual: boolean, work: EvaluationBudget): boolean {
  if (typeof a === "number" && typeof b === "number") return orEqual ? a <= b : a < b;
  if (typeof a !== "string" || typeof b !== "string") return false;
  spend(work, Math.min(a.length, b.length));
  return orEqual ? a <= b : a < b;
}

/** `item in container`: an item of a list, a part of a text, a key of an object; nothing is in None. */
function isIn(item: unknown, container: unknown, work: EvaluationBudget): boolean {
  if (isNone(container)) return false;
  if (Array.isArray(container)) {
    for (let i = 0; i < container.length; i++) if (isEqual(item, own(container, i), work)) return true;
    return false;
  }
  if (typeof container === "object") {
    return typeof item === "string" && !FORBIDDEN.has(item) && Object.hasOwn(container, item);
  }
  if (typeof container !== "string") throw new EvaluationError(`"in" cannot search ${describe(container)}`);
  if (typeof item !== "string" || item.length > container.length) return false;
  if (item.length > MAX_SEARCHED) throw new EvaluationError(`"in" searches for at most ${MAX_SEARCHED} characters`);
  spend(work, container.length);
  return container.includes(item);
}

function calculate(operator: Arithmetic, a: unknown, b: unknown, work: EvaluationBudget): unknown {
  if (operator === "~") return join(textOf(a), textOf(b), work);
  if (operator === "+" && typeof a === "string" && typeof b === "string") return join(a, b, work);
  if (operator === "+" && Array.isArray(a) && Array.isArray(b)) {
    spend(work, (a.length + b.length) * ITEM);
    return [...itemsOf(a), ...itemsOf(b)];
  }
  if (typeof a !== "number" || typeof b !== "number") {
    throw new EvaluationError(`cannot calculate ${describe(a)} ${operator} ${describe(b)}`);
  }
  const value = calculateNumbers(operator, a, b);
  if (!Number.isFinite(value)) throw new EvaluationError(`${a} ${operator} ${b} is too large`);
  return value;
}

function join(a: string, b: string, work: EvaluationBudget): string {
  spend(work, a.length + b.length);
  return a + b;
}

function calculateNumbers(operator: Exclude<Arithmetic, "~">, a: number, b: number): number {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
  }
  if (b === 0) throw new EvaluationError("division by zero");
  if (operator === "/") return a / b;
  // Rounded towards minus infinity, and with the sign of the divisor, as in Python.
  if (operator === "//") return Math.floor(a / b);
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

/** A value as text, for `~` and text filters; None and missing are empty, so that `error | lower` is safe. */
function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (isNone(value)) return "";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  throw new EvaluationError(`${describe(value)} is not text`);
}

function describe(value: unknown): string {
  if (isNone(value)) return "None";
  if (Array.isArray(value)) return "a list";
  return { string: "text", number: "a number", boolean: "true or false" }[typeof value as string] ?? "an object";
}

type Comparison = "in" | "not in" | "==" | "!=" | "<" | "<=" | ">" | ">=";
export type BinaryOperator = "and" | "or" | Comparison | Arithmetic;

/** Plain JSON. */
export type ConditionNode =
  | { readonly kind: "literal"; readonly value: string | number | boolean | null }
  | { readonly kind: "list"; readonly items: readonly ConditionNode[] }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "member"; readonly object: ConditionNode; readonly key: ConditionNode }
  | { readonly kind: "unary"; readonly operator: "not" | "-"; readonly operand: ConditionNode }
  | BinaryNode
  | { readonly kind: "test"; readonly test: string; readonly negated: boolean; readonly operand: ConditionNode }
  | FilterNode;

interface BinaryNode {
  readonly kind: "binary";
  readonly operator: BinaryOperator;
  readonly left: ConditionNode;
  readonly right: ConditionNode;
}

interface FilterNode {
  readonly kind: "filter";
  readonly filter: string;
  readonly operand: ConditionNode;
  readonly args: readonly ConditionNode[];
}

type Variables = Readonly<Record<string, unknown>>;
type Test = (value: unknown) => boolean;

interface Filter {
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

const TRUE_TEXTS: ReadonlySet<string> = new Set(["true", "yes", "1"]);

/** The value of a tree; throws `EvaluationError` if it has none. */
export function evaluate(tree: ConditionNode, variables: Variables): unknown {
  return evaluateNode(tree, variables, { left: MAX_WORK });
}

/** Whether a value makes a condition true. Narrower than truthiness: a list, or 2, is usually a mistake. */
export function isTrue(value: unknown): boolean {
  if (typeof value !== "string") return value === true || value === 1;
  const text = value.trim();
  return text.length <= 4 && TRUE_TEXTS.has(text.toLowerCase());
}

function evaluateNode(node: ConditionNode, variables: Variables, work: EvaluationBudget): unknown {
  const value = (part: ConditionNode) => evaluateNode(part, variables, work);
  switch (node.kind) {
    case "literal":
      return node.value;
    case "list":
      return node.items.map(value);
    case "name":
      return Object.hasOwn(variables, node.name) ? plain(variables[node.name]) : undefined;
    case "member":
      return member(value(node.object), value(node.key));
    case "unary":
      if (node.operator === "not") return !isTruthy(value(node.operand), work);
      return calculate("-", 0, value(node.operand), work);
    case "binary":
      return binary(node, value, work);
    case "test":
      return (TESTS.get(node.test) as Test)(value(node.operand)) !== node.negated;
    case "filter":
      return (FILTERS.get(node.filter) as Filter).apply(value(node.operand), node.args.map(value), work);
    default:
      return unknownKind(node);
  }
}

function unknownKind(_: never): never {
  throw new EvaluationError("the condition is not from parseCondition");
}

function binary(
  { operator, left, right }: BinaryNode,
  value: (node: ConditionNode) => unknown,
  work: EvaluationBudget,
): unknown {
  const a = value(left);
  if (operator === "and") return isTruthy(a, work) ? value(right) : a;
  if (operator === "or") return isTruthy(a, work) ? a : value(right);
  const b = value(right);
  switch (operator) {
    case "==":
      return isEqual(a, b, work);
    case "!=":
      return !isEqual(a, b, work);
    case "in":
      return isIn(a, b, work);
    case "not in":
      return !isIn(a, b, work);
    case "<":
      return isLess(a, b, false, work);
    case "<=":
      return isLess(a, b, true, work);
    case ">":
      return isLess(b, a, false, work);
    case ">=":
      return isLess(b, a, true, work);
    default:
      return calculate(operator, a, b, work);
  }
}

/** As in Jinja: replaces a missing value; with a true second argument, every falsy value. */
function orDefault(value: unknown, [fallback = "", falsy]: readonly unknown[], work: EvaluationBudget): unknown {
  return value === undefined || (isTruthy(falsy, work) && !isTruthy(value, work)) ? fallback : value;
}

function toNumber(value: unknown): number | null {
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

function countedText(value: unknown, work: EvaluationBudget): string {
  const text = textOf(value);
  spend(work, text.length);
  return text;
}
