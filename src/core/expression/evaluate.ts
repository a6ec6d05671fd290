/** Evaluates a parsed condition, or an expression of a template, in bounded time. Numbers are doubles, and the length of a text is
 *  in UTF-16 units. Otherwise as in Python, except that None and missing are equal, that values without an order (None,
 *  booleans, two types) are neither less nor greater, and that booleans cannot be added. */
import { type Filter, TESTS, type Test } from "./filters.ts";
import { TEMPLATE_FILTERS } from "./template-filters.ts";
import {
  type Arithmetic,
  calculate,
  type EvaluationBudget,
  EvaluationError,
  FORBIDDEN,
  isEqual,
  isIn,
  isLess,
  isTruthy,
  MAX_WORK,
  MissingError,
  member,
  plain,
  put,
  slice,
  spend,
  textOf,
  unwrapped,
} from "./values.ts";

type Comparison = "in" | "not in" | "==" | "!=" | "<" | "<=" | ">" | ">=";
export type BinaryOperator = "and" | "or" | Comparison | Arithmetic;

/** Plain JSON. Only templates have dicts, slices and ternaries. */
export type ConditionNode =
  | { readonly kind: "literal"; readonly value: string | number | boolean | null }
  | { readonly kind: "list"; readonly items: readonly ConditionNode[] }
  | { readonly kind: "dict"; readonly entries: readonly (readonly [ConditionNode, ConditionNode])[] }
  /** `at` is its position in the text of a template. */
  | { readonly kind: "name"; readonly name: string; readonly at?: number }
  | MemberNode
  | SliceNode
  | { readonly kind: "unary"; readonly operator: "not" | "-"; readonly operand: ConditionNode }
  | BinaryNode
  | { readonly kind: "ternary"; readonly test: ConditionNode; readonly yes: ConditionNode; readonly no: ConditionNode }
  | { readonly kind: "test"; readonly test: string; readonly negated: boolean; readonly operand: ConditionNode }
  | FilterNode;

interface MemberNode {
  readonly kind: "member";
  readonly object: ConditionNode;
  readonly key: ConditionNode;
}

interface SliceNode {
  readonly kind: "slice";
  readonly object: ConditionNode;
  readonly start: ConditionNode | null;
  readonly stop: ConditionNode | null;
  readonly step: ConditionNode | null;
}

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

/** What an expression is evaluated with. `scope` is asked for the names in the expression only. */
interface Surroundings {
  readonly scope: (name: string) => unknown;
  readonly work: EvaluationBudget;
}

const TRUE_TEXTS: ReadonlySet<string> = new Set(["true", "yes", "1"]);

/** The cost of an expression in a template, whatever it does; it may have been parsed for this. */
const STARTED = 500;

/** The value of a condition's tree; throws `EvaluationError` if it has none. */
export function evaluate(tree: ConditionNode, variables: Variables): unknown {
  const scope = (name: string) => (Object.hasOwn(variables, name) ? plain(variables[name]) : undefined);
  return evaluateNode(tree, { scope, work: { left: MAX_WORK, isTemplate: false, isStrict: false } }, false);
}

/** The value of an expression of a template; throws `EvaluationError` if it has none. */
export function evaluateExpression(
  tree: ConditionNode,
  scope: (name: string) => unknown,
  work: EvaluationBudget,
): unknown {
  spend(work, STARTED);
  return unwrapped(evaluateNode(tree, { scope, work }, false));
}

/** Whether a value makes a condition true. Narrower than truthiness: a list, or 2, is usually a mistake. */
export function isTrue(value: unknown): boolean {
  if (typeof value !== "string") return value === true || value === 1;
  const text = value.trim();
  return text.length <= 4 && TRUE_TEXTS.has(text.toLowerCase());
}

/** `isCovered`: something around the node provides for a missing value. */
function evaluateNode(node: ConditionNode, around: Surroundings, isCovered: boolean): unknown {
  const { work } = around;
  const value = (part: ConditionNode) => unwrapped(evaluateNode(part, around, isCovered));
  const covered = (part: ConditionNode) => unwrapped(evaluateNode(part, around, true));
  switch (node.kind) {
    case "literal":
      return node.value;
    case "list":
      return node.items.map(value);
    case "dict":
      return dict(node.entries, value, work);
    case "name":
    case "member": {
      const found = node.kind === "name" ? around.scope(node.name) : memberOf(node, around, isCovered);
      if (found === undefined && work.isStrict && !isCovered) throw new MissingError(`${pathText(node)} is undefined`);
      return found;
    }
    case "slice": {
      const end = (part: ConditionNode | null) => (part === null ? null : value(part));
      return slice(value(node.object), end(node.start), end(node.stop), end(node.step), work);
    }
    case "unary":
      if (node.operator === "not") return !isTruthy(value(node.operand), work);
      return calculate("-", 0, value(node.operand), work);
    case "binary":
      return binary(node, node.operator === "or" ? covered(node.left) : value(node.left), value, work);
    case "ternary":
      return value(isTruthy(covered(node.test), work) ? node.yes : node.no);
    case "test":
      return (TESTS.get(node.test) as Test)(covered(node.operand)) !== node.negated;
    case "filter": {
      const operand = node.filter === "default" ? covered(node.operand) : value(node.operand);
      return (TEMPLATE_FILTERS.get(node.filter) as Filter).apply(operand, node.args.map(value), work);
    }
    default:
      return unknownKind(node);
  }
}

function memberOf({ object, key }: MemberNode, around: Surroundings, isCovered: boolean): unknown {
  const of = evaluateNode(object, around, isCovered);
  return member(of, unwrapped(evaluateNode(key, around, isCovered)), around.work.isTemplate);
}

function dict(
  entries: readonly (readonly [ConditionNode, ConditionNode])[],
  value: (node: ConditionNode) => unknown,
  work: EvaluationBudget,
): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const [key, item] of entries) {
    const name = textOf(value(key), work);
    if (FORBIDDEN.has(name)) throw new EvaluationError(`the key ${name} is not allowed`);
    put(object, name, value(item));
  }
  return object;
}

/** `orders.items[0].id`, for messages. */
function pathText(node: ConditionNode): string {
  if (node.kind === "name") return node.name;
  if (node.kind !== "member") return "(…)";
  const of = pathText(node.object);
  if (node.key.kind !== "literal") return `${of}[…]`;
  const { value } = node.key;
  return typeof value === "string" && /^[A-Za-z_]\w*$/.test(value)
    ? `${of}.${value}`
    : `${of}[${JSON.stringify(value)}]`;
}

function unknownKind(_: never): never {
  throw new EvaluationError("the condition is not from parseCondition");
}

function binary(
  { operator, right }: BinaryNode,
  a: unknown,
  value: (node: ConditionNode) => unknown,
  work: EvaluationBudget,
): unknown {
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
