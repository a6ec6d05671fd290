/** Conditions: Jinja expressions such as `{{ status_code >= 500 or error != None }}`, with or without the braces.
 *  `@huggingface/jinja` parses them; its tree is converted to our own, and other forms are refused. A condition has no calls,
 *  loops or assignments, and its evaluation is bounded. Only true, 1, "true", "yes" and "1" are true. It is a subset of Jinja,
 *  with the differences listed in `evaluate.ts`. */
import { parse } from "@huggingface/jinja";
import { deepFreeze } from "../check.ts";
import { ConfigError } from "../errors.ts";
import { type BinaryOperator, type ConditionNode, evaluate, isTrue } from "./evaluate.ts";
import { FILTERS } from "./filters.ts";
import { CONSTANTS, type ConditionPlace, checkTokens, cut, MAX_DEPTH, quote, refusal, type Token } from "./tokens.ts";
import { EvaluationError } from "./values.ts";

/** A checked condition, made by `parseCondition` for `evaluateCondition`.
 *  @example
 *  const condition: Condition = parseCondition("attempt < 3 and status_code == 503"); */
export interface Condition {
  readonly source: string;
  readonly tree: ConditionNode;
}

/** The names that a condition of a policy may use; a name without a value is None.
 *  @example
 *  console.log(`a condition may use ${CONDITION_VARIABLES.join(", ")}`); */
export const CONDITION_VARIABLES = [
  "result",
  "data",
  "status_code",
  "error",
  "success",
  "attempt",
  "job_id",
  "kind",
  // Earlier names of `job_id` and `kind`, used by stored policies.
  "execution_id",
  "node_id",
  "exit_code",
  "signal",
  "failure",
] as const;

export const MAX_LENGTH = 1_000;
export const MAX_NODES = 100;

/** The part of the library's tree that can be converted. Its own types do not resolve under `nodenext`. */
type JinjaNode =
  | { type: "IntegerLiteral" | "FloatLiteral"; value: number }
  | { type: "StringLiteral"; value: string }
  | { type: "ArrayLiteral" | "TupleLiteral"; value: JinjaNode[] }
  | Identifier
  | { type: "MemberExpression"; object: JinjaNode; property: JinjaNode; computed: boolean }
  | { type: "UnaryExpression"; operator: Token; argument: JinjaNode }
  | { type: "BinaryExpression"; operator: Token; left: JinjaNode; right: JinjaNode }
  | { type: "TestExpression"; operand: JinjaNode; negate: boolean; test: Identifier }
  | { type: "FilterExpression"; operand: JinjaNode; filter: JinjaNode }
  | { type: "CallExpression"; callee: JinjaNode; args: JinjaNode[] };

/** Its value is the index of its token; see `parseTokens`. */
interface Identifier {
  type: "Identifier";
  value: string;
}

/** Parses a condition; throws a `ConfigError` with the position of a mistake.
 *  @example
 *  const condition = parseCondition("status_code in [502, 503]", "retry.retryWhen"); */
export function parseCondition(
  source: string,
  path = "condition",
  names: readonly string[] = CONDITION_VARIABLES,
): Condition {
  if (typeof source !== "string") throw new ConfigError({ path, given: source, allowed: "a condition as text" });
  const place = { source, path };
  if (source.length > MAX_LENGTH) throw refusal(place, `is longer than ${MAX_LENGTH} characters`, MAX_LENGTH);
  if (/^\s*\{\{(?!.*\}\})/s.test(source)) throw refusal(place, 'missing "}}"', source.trimEnd().length);
  const body = withoutBraces(source);
  const tokens = cut(body, place);
  checkTokens(tokens, names, place);
  checkCount(tokens, place);
  const tree = treeOf(parseTokens(tokens, body.length, place), tokens, place);
  return deepFreeze({ source, tree });
}

/** Whether a condition is true. Never throws: what cannot be evaluated is false, with the reason in `error`.
 *  @example
 *  evaluateCondition("attempt < 3", { attempt: 2 }); // { value: true, error: null } */
export function evaluateCondition(
  condition: Condition | string,
  variables: Readonly<Record<string, unknown>>,
): { value: boolean; error: string | null } {
  try {
    const { tree } = typeof condition === "string" ? parsedBefore(condition) : condition;
    return { value: isTrue(evaluate(tree, variables)), error: null };
  } catch (error) {
    // Other errors come from the variables, such as a Proxy, and even reading their message may run code.
    const known = error instanceof EvaluationError || error instanceof ConfigError;
    return { value: false, error: known ? error.message : "the condition or its variables are not readable" };
  }
}

/** Policies have conditions as text, mostly the same few; parsing costs as much as 25 evaluations. */
const parsed = new Map<string, Condition>();
const MAX_PARSED = 500;

function parsedBefore(source: string): Condition {
  let condition = parsed.get(source);
  if (condition === undefined) {
    condition = parseCondition(source);
    if (parsed.size >= MAX_PARSED) parsed.clear();
    parsed.set(source, condition);
  }
  return condition;
}

/** The expression between the braces, at its position in the source. Other braces are refused later. */
function withoutBraces(source: string): string {
  const trimmed = source.trim();
  if (trimmed.length < 4 || !trimmed.startsWith("{{") || !trimmed.endsWith("}}")) return source;
  let start = source.indexOf("{{") + 2;
  let end = source.lastIndexOf("}}");
  // `{{-` and `-}}` would trim the text around an expression.
  if (source[start] === "-") start += 1;
  if (source[end - 1] === "-" && end > start) end -= 1;
  return " ".repeat(start) + source.slice(start, end);
}

/** The library's tree. It keeps no positions, so each word is passed as the index of its token, and the last token that the
 *  parser read is the place of an error. */
function parseTokens(tokens: readonly Token[], end: number, place: ConditionPlace): JinjaNode {
  const reach = { last: 0 };
  const brace = (type: string, at: number): Token => ({ type, value: "", role: "sign", at, negated: false });
  const all = [brace("OpenExpression", 0), ...tokens, brace("CloseExpression", end)];
  const tracked = all.map((token, index) => new TrackedToken(token, index, reach));
  try {
    return (parse(tracked) as { body: [JinjaNode] }).body[0];
  } catch {
    const { value, at } = all[reach.last] as Token;
    throw refusal(place, reach.last === all.length - 1 ? "unexpected end" : `unexpected ${quote(value)}`, at);
  }
}

/** A token for the library, which records that it was read. A class costs a tenth of an object with an accessor, and a policy
 *  may have hundreds of tokens. */
class TrackedToken {
  readonly value: string;
  readonly role: Token["role"];
  readonly at: number;
  readonly negated: boolean;
  readonly #type: string;
  readonly #index: number;
  readonly #reach: { last: number };

  constructor(token: Token, index: number, reach: { last: number }) {
    this.value = token.type === "Identifier" && token.role !== "keyword" ? String(index - 1) : token.value;
    this.role = token.role;
    this.at = token.at;
    this.negated = token.negated;
    this.#type = token.type;
    this.#index = index;
    this.#reach = reach;
  }

  get type(): string {
    if (this.#index > this.#reach.last) this.#reach.last = this.#index;
    return this.#type;
  }
}

/** Each of these tokens becomes a node, so too many are refused before the parser runs. */
function checkCount(tokens: readonly Token[], place: ConditionPlace): void {
  let leaves = 0;
  for (const { role, at } of tokens) {
    if (role === "sign" || role === "keyword" || role === "filter" || role === "test") continue;
    leaves += 1;
    if (leaves > MAX_NODES) throw refusal(place, `more than ${MAX_NODES} nodes`, at);
  }
}

function treeOf(root: JinjaNode, tokens: readonly Token[], place: ConditionPlace): ConditionNode {
  let nodes = 0;
  const tokenOf = (word: Identifier) => tokens[Number(word.value)] as Token;

  /** `around` is the position of the nearest parent that has one. */
  function convert(node: JinjaNode, depth: number, around: number): ConditionNode {
    const at = node.type === "Identifier" ? tokenOf(node).at : "operator" in node ? node.operator.at : around;
    nodes += 1;
    if (nodes > MAX_NODES) throw refusal(place, `more than ${MAX_NODES} nodes`, at);
    if (depth > MAX_DEPTH) throw refusal(place, `nested deeper than ${MAX_DEPTH}`, at);
    const next = (part: JinjaNode) => convert(part, depth + 1, at);
    // `a or b or c` counts as one level, not as `(a or b) or c`.
    const first = (part: JinjaNode, operator: string) =>
      part.type === "BinaryExpression" && part.operator.value === operator ? convert(part, depth, at) : next(part);
    switch (node.type) {
      case "IntegerLiteral":
      case "FloatLiteral":
      case "StringLiteral":
        return { kind: "literal", value: node.value };
      case "ArrayLiteral":
      case "TupleLiteral":
        return { kind: "list", items: node.value.map(next) };
      case "Identifier":
        return word(tokenOf(node));
      case "MemberExpression":
        return { kind: "member", object: next(node.object), key: next(node.property) };
      case "UnaryExpression":
        return { kind: "unary", operator: node.operator.value as "not" | "-", operand: next(node.argument) };
      case "BinaryExpression": {
        const operator = (node.operator.negated ? "not in" : node.operator.value) as BinaryOperator;
        return { kind: "binary", operator, left: first(node.left, operator), right: next(node.right) };
      }
      case "TestExpression":
        return { kind: "test", test: tokenOf(node.test).value, negated: node.negate, operand: next(node.operand) };
      case "FilterExpression": {
        const called = node.filter.type === "CallExpression" ? node.filter : { callee: node.filter, args: [] };
        if (called.callee.type !== "Identifier") break;
        const { value: filter, at: filterAt } = tokenOf(called.callee);
        const maxArgs = FILTERS.get(filter)?.maxArgs as number;
        if (called.args.length > maxArgs) throw refusal(place, `too many arguments for ${filter}`, filterAt);
        return { kind: "filter", filter, operand: next(node.operand), args: called.args.map(next) };
      }
    }
    // A member of a filter's arguments (`a | default('b').c`), or a form that a new version of the library adds.
    throw refusal(place, "unsupported expression", at);
  }
  return convert(root, 1, 0);
}

function word(token: Token): ConditionNode {
  if (token.role === "name") return { kind: "name", name: token.value };
  return {
    kind: "literal",
    value: token.role === "constant" ? (CONSTANTS.get(token.value) as boolean | null) : token.value,
  };
}
