/** Evaluates the checked tree of a condition, with the filters and tests a condition may use. Knows nothing of the
 *  library that parsed it, nor of positions. How values compare and combine is decided in `expression-values.ts`. */
import {
  type Arithmetic,
  calculate,
  EvaluationError,
  isEqual,
  isIn,
  isLess,
  isTruthy,
  lengthOf,
  MAX_WORK,
  member,
  plain,
  spend,
  textOf,
  type Work,
} from "./expression-values.ts";

type Comparison = "in" | "not in" | "==" | "!=" | "<" | "<=" | ">" | ">=";
export type BinaryOperator = "and" | "or" | Comparison | Arithmetic;

/** JSON, so a tree can be stored, sent and compared. */
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
  readonly apply: (value: unknown, args: readonly unknown[], work: Work) => unknown;
}

export const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["default", { maxArgs: 2, apply: orDefault }],
  ["float", { maxArgs: 1, apply: (value, [fallback = 0]) => toNumber(value) ?? fallback }],
  ["int", { maxArgs: 1, apply: (value, [fallback = 0]) => truncate(toNumber(value)) ?? fallback }],
  ["length", { maxArgs: 0, apply: (value, _, work) => lengthOf(value, work) }],
  ["lower", { maxArgs: 0, apply: (value, _, work) => chargedText(value, work).toLowerCase() }],
  ["trim", { maxArgs: 0, apply: (value, _, work) => chargedText(value, work).trim() }],
  ["upper", { maxArgs: 0, apply: (value, _, work) => chargedText(value, work).toUpperCase() }],
]);

const isNone: Test = (value) => value === null || value === undefined;

export const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["defined", (value) => value !== undefined],
  ["undefined", (value) => value === undefined],
  ...["none", "None", "null"].map((name) => [name, isNone] as const),
  ...["true", "True"].map((name) => [name, (value: unknown) => value === true] as const),
  ...["false", "False"].map((name) => [name, (value: unknown) => value === false] as const),
  ["boolean", (value) => typeof value === "boolean"],
  ["number", (value) => typeof value === "number"],
  ["string", (value) => typeof value === "string"],
]);

/** Narrower than `Number`, which also takes `0x10` and the empty text; no double needs more characters to be read. */
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;
const MAX_NUMBER_LENGTH = 400;

const TRUE_TEXTS: ReadonlySet<string> = new Set(["true", "yes", "1"]);

/** The value of a tree; throws an `EvaluationError` where it has none. */
export function evaluate(tree: ConditionNode, variables: Variables): unknown {
  return evaluateNode(tree, variables, { left: MAX_WORK });
}

/** Whether a value makes a condition true. Narrower than truthiness: a list, or 2, is more often a mistake. */
export function isTrue(value: unknown): boolean {
  if (typeof value !== "string") return value === true || value === 1;
  const text = value.trim();
  return text.length <= 4 && TRUE_TEXTS.has(text.toLowerCase());
}

function evaluateNode(node: ConditionNode, variables: Variables, work: Work): unknown {
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
  throw new EvaluationError("the condition was not made by parseCondition");
}

function binary({ operator, left, right }: BinaryNode, value: (node: ConditionNode) => unknown, work: Work): unknown {
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

/** As in Jinja: None is a value and stays, unless the second argument asks to replace whatever is falsy. */
function orDefault(value: unknown, [fallback = "", falsy]: readonly unknown[], work: Work): unknown {
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

function chargedText(value: unknown, work: Work): string {
  const text = textOf(value);
  spend(work, text.length);
  return text;
}
