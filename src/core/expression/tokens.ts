/** Cuts a condition into tokens and checks them before they are parsed: known names, order and depth, with the position of a
 *  mistake. The library's own lexer is not used: its tokens have no positions, and it removes `{% generation %}` even from
 *  inside a text. */

import { nearest } from "../check.ts";
import { ConfigError } from "../errors.ts";
import { FILTERS, TESTS } from "./filters.ts";

/** What a token means. A word is a keyword only where the grammar allows one: `data.in` is a member. */
type Role = "name" | "constant" | "member" | "filter" | "test" | "number" | "text" | "keyword" | "sign";

export interface Token {
  /** The library's name for this type of token. */
  readonly type: string;
  /** As written; a text without its quotes and escapes. */
  readonly value: string;
  readonly role: Role;
  /** Index of its first character in the source. */
  readonly at: number;
  /** For `in`: written as `not in`. */
  readonly negated: boolean;
}

/** The condition and its path, for messages. */
export interface ConditionPlace {
  readonly source: string;
  readonly path: string;
}

export const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ...["true", "True"].map((word) => [word, true] as const),
  ...["false", "False"].map((word) => [word, false] as const),
  ...["none", "None", "null"].map((word) => [word, null] as const),
]);

export const KEYWORDS: ReadonlySet<string> = new Set(["and", "or", "not", "in", "is", "if", "else"]);

// Every alternative is decided by its first characters, so the time is linear; the last one matches any character.
// Digits after a dot are an index (`data.0.1`), not a fraction. Groups: text, number, word, sign.
const TOKEN =
  /\s+|('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|((?<=\.)\d+|\d+(?:\.\d+)?)|([A-Za-z_]\w*)|(\{\{|\}\}|\{%|%\}|\{#|#\}|\*\*|\/\/|[<>=!]=|.)/gsu;

const SIGNS: ReadonlyMap<string, string> = new Map([
  ...["==", "!=", "<=", ">=", "<", ">"].map((sign) => [sign, "ComparisonBinaryOperator"] as const),
  ...["*", "/", "//", "%"].map((sign) => [sign, "MultiplicativeBinaryOperator"] as const),
  ...["+", "-", "~"].map((sign) => [sign, "AdditiveBinaryOperator"] as const),
  ["(", "OpenParen"],
  [")", "CloseParen"],
  ["[", "OpenSquareBracket"],
  ["]", "CloseSquareBracket"],
  [",", "Comma"],
  [".", "Dot"],
  ["|", "Pipe"],
]);

/** Signs of other languages, and those of Jinja. */
const JINJA_SIGNS: ReadonlyMap<string, string> = new Map([
  ["=", "=="],
  ["&", "and"],
  ["!", "not"],
]);

/** The escapes of the library, which also refuses others, such as `\d`. */
export const ESCAPES: ReadonlyMap<string, string> = new Map([
  ...["'", '"', "\\"].map((char) => [char, char] as const),
  ["n", "\n"],
  ["t", "\t"],
  ["r", "\r"],
  ["b", "\b"],
  ["f", "\f"],
  ["v", "\v"],
]);

const ALLOWED =
  "one Jinja expression of literals, names, members, comparison, and, or, not, in, is, arithmetic " +
  `and the filters ${[...FILTERS.keys()].join(", ")}, without calls`;

export function cut(body: string, place: ConditionPlace): Token[] {
  const tokens: Token[] = [];
  const negated = false;
  for (const match of body.matchAll(TOKEN)) {
    const [, text, number, word, sign] = match;
    const at = match.index;
    if (text !== undefined) {
      tokens.push({ type: "StringLiteral", value: textIn(text, at, place), role: "text", at, negated });
    } else if (number !== undefined) {
      tokens.push({ type: "NumericLiteral", value: number, role: "number", at, negated });
    } else if (word !== undefined) {
      const role = roleOf(word, tokens.at(-1), tokens.at(-2));
      tokens.push({ type: "Identifier", value: word, role, at, negated });
      if (word === "in") joinNotIn(tokens);
    } else if (sign !== undefined) {
      tokens.push({ type: typeOf(sign, at, place), value: sign, role: "sign", at, negated });
    }
  }
  return tokens;
}

function textIn(quoted: string, at: number, place: ConditionPlace): string {
  return quoted.slice(1, -1).replace(/\\(.)/gsu, (pair: string, char: string, offset: number) => {
    const value = ESCAPES.get(char);
    if (value === undefined) throw refusal(place, `unknown escape ${quote(pair)}`, at + 1 + offset);
    return value;
  });
}

function roleOf(word: string, previous: Token | undefined, before: Token | undefined): Role {
  if (word === "not" && isKeyword(previous, "is")) return "keyword";
  const wanted = roleAfter(previous, before);
  return wanted ?? (KEYWORDS.has(word) ? "keyword" : CONSTANTS.has(word) ? "constant" : "name");
}

/** The role of the word that must follow a dot, a pipe, `is` or `is not`. */
function roleAfter(previous: Token | undefined, before: Token | undefined): "member" | "filter" | "test" | null {
  if (isSign(previous, ".")) return "member";
  if (isSign(previous, "|")) return "filter";
  return isKeyword(previous, "is") || (isKeyword(previous, "not") && isKeyword(before, "is")) ? "test" : null;
}

/** Joins `not in` to one token: from two, the parser would make an operator without a position. */
function joinNotIn(tokens: Token[]): void {
  const [not, last] = tokens.slice(-2);
  if (isKeyword(not, "not") && isKeyword(last, "in")) tokens.splice(-2, 2, { ...not, value: "in", negated: true });
}

function typeOf(sign: string, at: number, place: ConditionPlace): string {
  const type = SIGNS.get(sign);
  if (type !== undefined) return type;
  const problem = sign === "'" || sign === '"' ? "unterminated text" : `${quote(sign)} is not allowed`;
  throw refusal(place, problem, at, { nearest: JINJA_SIGNS.get(sign) ?? null });
}

function isSign(token: Token | undefined, sign: string): boolean {
  return token?.role === "sign" && token.value === sign;
}

function isKeyword(token: Token | undefined, word: string): token is Token {
  return token?.role === "keyword" && token.value === word;
}

/** A piece of the source for a message. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 37)}...` : text);
}

/** The error for something in the source, with its position counted from 1. */
export function refusal(
  { source, path }: ConditionPlace,
  problem: string,
  at: number,
  more: { allowed?: string; fix?: string; nearest?: string | null } = {},
): ConfigError {
  return new ConfigError({
    path,
    given: source,
    allowed: ALLOWED,
    problem: `${problem} at character ${at + 1}`,
    ...more,
  });
}

// Refuses calls, unknown names, filters and tests, brackets that are nested too deep, and orders that the library's parser
// would misread without an error (`[1 2]`, `data['a' b]`, `a.(b)`, `1 < x < 5`). The parser checks the other rules.

export const MAX_DEPTH = 20;

export function checkTokens(tokens: readonly Token[], names: readonly string[], place: ConditionPlace): void {
  const known = { name: names, filter: [...FILTERS.keys()], test: [...TESTS.keys()] };
  // For each open bracket: whether the current operand already has a comparison.
  const compared = [false];
  for (const [index, token] of tokens.entries()) {
    checkOrder(token, tokens[index - 1], tokens[index - 2], place);
    checkNesting(token, compared, place);
    // Before the check of names: `range(9)` is reported as a call.
    if (isSign(tokens[index + 1], "(") && endsOperand(token) && token.role !== "filter") {
      throw refusal(place, "calls are not allowed", token.at);
    }
    if (token.role === "name" || token.role === "filter" || token.role === "test") {
      checkKnown(token, known[token.role], place);
    } else if (token.role === "number" && !Number.isFinite(Number(token.value))) {
      throw refusal(place, "number too large", token.at);
    }
  }
}

function checkOrder(token: Token, previous: Token | undefined, before: Token | undefined, place: ConditionPlace): void {
  const afterOperand = previous !== undefined && endsOperand(previous);
  if (token.role === "keyword") {
    if (token.value === "if" || token.value === "else") throw refusal(place, `${token.value} is not allowed`, token.at);
    if (token.value === "not" ? mayStartNot(previous) : afterOperand) return;
  } else if (roleAfter(previous, before) !== null) {
    if (token.type === "Identifier" || (isSign(previous, ".") && token.role === "number")) return;
  } else if (token.role === "sign") {
    // Without a left operand, `*` would unpack arguments and `+` would be a sign, which are not supported.
    if (afterOperand || token.value === "-" || !token.type.endsWith("BinaryOperator")) return;
  } else if (!afterOperand) return;
  throw refusal(place, `unexpected ${quote(token.value)}`, token.at);
}

/** Elsewhere, as in `a == not b`, the parser would read `not` as a name. */
function mayStartNot(previous: Token | undefined): boolean {
  if (previous === undefined || ["(", "[", ","].some((sign) => isSign(previous, sign))) return true;
  return ["and", "or", "not", "is"].some((word) => isKeyword(previous, word));
}

function endsOperand(token: Token): boolean {
  return token.role === "sign" ? token.value === ")" || token.value === "]" : token.role !== "keyword";
}

/** Bounds the brackets before the parser recurses into them, and refuses `a < b < c`, which the parser reads as
 *  `(a < b) < c`, unlike Jinja. */
function checkNesting(token: Token, compared: boolean[], place: ConditionPlace): void {
  const innermost = compared.length - 1;
  if (isSign(token, "(") || isSign(token, "[")) {
    if (innermost === MAX_DEPTH) throw refusal(place, `nested deeper than ${MAX_DEPTH}`, token.at);
    compared.push(false);
  } else if ((isSign(token, ")") || isSign(token, "]")) && innermost > 0) {
    compared.pop();
  } else if (token.type === "ComparisonBinaryOperator" || isKeyword(token, "in")) {
    if (compared[innermost]) throw refusal(place, 'comparisons in a row need "and" or parentheses', token.at);
    compared[innermost] = true;
  } else if (isSign(token, ",") || isKeyword(token, "and") || isKeyword(token, "or")) {
    compared[innermost] = false;
  }
}

function checkKnown(token: Token, known: readonly string[], place: ConditionPlace): void {
  if (known.includes(token.value)) return;
  throw refusal(place, `unknown ${token.role} ${quote(token.value)}`, token.at, {
    allowed: known.join(", "),
    fix: `known: ${known.join(", ")}`,
    nearest: nearest(token.value, known),
  });
}
