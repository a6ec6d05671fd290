/** Conditions: Jinja expressions such as `{{ status_code >= 500 or error != None }}`, with or without the braces.
 *  `@huggingface/jinja` parses; its tree is turned into our own, and only what is listed here can be turned.
 *  A condition has no calls, loops or assignments, and always ends soon. Only true, 1, "true", "yes" and "1" are true.
 *  Not promised: to be all of Jinja, or to agree with it where `expression-values.ts` says otherwise. */
import { parse } from "@huggingface/jinja";
import { deepFreeze } from "../check.ts";
import { ConfigError } from "../errors.ts";
import { type BinaryOperator, type ConditionNode, EvaluationError, evaluate, FILTERS, isTrue } from "./evaluate.ts";
import { CONSTANTS, type ConditionPlace, checkTokens, cut, MAX_DEPTH, quote, refusal, type Token } from "./tokens.ts";

/** A condition that was checked. Opaque: made by `parseCondition`, read by `evaluateCondition`.
 *  @example
 *  const condition: Condition = parseCondition("attempt < 3 and status_code == 503"); */
export interface Condition {
  readonly source: string;
  readonly tree: ConditionNode;
}

/** The names a condition of a policy may use; one that has no value at the time is None.
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
  // Earlier names of `job_id` and `kind`. Stored policies have them, so they stay.
  "execution_id",
  "node_id",
  "exit_code",
  "signal",
  "failure",
] as const;

const MAX_LENGTH = 1_000;
const MAX_NODES = 100;

/** The part of the library's tree that can be turned into ours. Its own types do not resolve under `nodenext`. */
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

/** Its value is the index of its token, see `parseTokens`. */
interface Identifier {
  type: "Identifier";
  value: string;
}

/** Checks a condition; throws a `ConfigError` that gives the position of what it refuses.
 *  @example
 *  const condition = parseCondition("status_code in [502, 503]", "retry.retryWhen"); */
export function parseCondition(
  source: string,
  path = "condition",
  names: readonly string[] = CONDITION_VARIABLES,
): Condition {
  if (typeof source !== "string") throw new ConfigError({ path, given: source, allowed: "a condition as text" });
  const place = { source, path };
  if (source.length > MAX_LENGTH) throw refusal(place, `longer than ${MAX_LENGTH} characters`, MAX_LENGTH);
  if (/^\s*\{\{(?!.*\}\})/s.test(source)) throw refusal(place, 'the "}}" is missing', source.trimEnd().length);
  const body = withoutBraces(source);
  const tokens = cut(body, place);
  checkTokens(tokens, names, place);
  checkCount(tokens, place);
  const tree = treeOf(parseTokens(tokens, body.length, place), tokens, place);
  return deepFreeze({ source, tree });
}

/** Whether a condition holds. Never throws: what cannot be evaluated is false, with the reason in `error`.
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
    // Anything else was thrown by the variables (a Proxy, say), and even its message may be a trap.
    const known = error instanceof EvaluationError || error instanceof ConfigError;
    return { value: false, error: known ? error.message : "the condition or its variables cannot be read" };
  }
}

/** Policies give their conditions as text, and the same few come with every job: parsing costs 25 evaluations. */
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

/** The expression between the braces, at the positions it has in the source. Any other braces are refused later. */
function withoutBraces(source: string): string {
  const trimmed = source.trim();
  if (trimmed.length < 4 || !trimmed.startsWith("{{") || !trimmed.endsWith("}}")) return source;
  let start = source.indexOf("{{") + 2;
  let end = source.lastIndexOf("}}");
  // `{{-` and `-}}` trim the text around an expression; here there is none.
  if (source[start] === "-") start += 1;
  if (source[end - 1] === "-" && end > start) end -= 1;
  return " ".repeat(start) + source.slice(start, end);
}

/** The library's tree. It keeps no positions, so each word is handed over as the index of its token, and the token it
 *  looked at last is where it got stuck. */
function parseTokens(tokens: readonly Token[], end: number, place: ConditionPlace): JinjaNode {
  const reach = { last: 0 };
  const brace = (type: string, at: number): Token => ({ type, value: "", role: "sign", at, negated: false });
  const all = [brace("OpenExpression", 0), ...tokens, brace("CloseExpression", end)];
  const handed = all.map((token, index) => new HandedToken(token, index, reach));
  try {
    return (parse(handed) as { body: [JinjaNode] }).body[0];
  } catch {
    const { value, at } = all[reach.last] as Token;
    throw refusal(place, reach.last === all.length - 1 ? "unexpected end" : `unexpected ${quote(value)}`, at);
  }
}

/** A token as the library gets it. A class: objects that are spread and given an accessor each cost ten times as much, and a
 *  policy may have hundreds of tokens. */
class HandedToken {
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

/** Each of these becomes a node at least: what has too many is refused before it is parsed. */
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

  /** `around` is the position of the nearest node above that has one. */
  function convert(node: JinjaNode, depth: number, around: number): ConditionNode {
    const at = node.type === "Identifier" ? tokenOf(node).at : "operator" in node ? node.operator.at : around;
    nodes += 1;
    if (nodes > MAX_NODES) throw refusal(place, `more than ${MAX_NODES} nodes`, at);
    if (depth > MAX_DEPTH) throw refusal(place, `nested deeper than ${MAX_DEPTH}`, at);
    const next = (part: JinjaNode) => convert(part, depth + 1, at);
    // `a or b or c` is a list to people, not `(a or b) or c`.
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
    // What is left: a member of a filter's arguments (`a | default('b').c`), or what a new version of the library adds.
    throw refusal(place, "a form that is not allowed", at);
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
