/** Refuses what can be seen in the tokens of a condition: calls, unknown names, filters and tests, brackets nested too
 *  deep, and orders that the library's parser would quietly misread (`[1 2]`, `data['a' b]`, `a.(b)`, `1 < x < 5`).
 *  The rest of the grammar is left to the parser: tokens that pass here may still be no expression. */
import { nearest } from "./check.ts";
import { FILTERS, TESTS } from "./expression-eval.ts";
import { isKeyword, isSign, type Place, quote, refusal, roleAfter, type Token } from "./expression-tokens.ts";

export const MAX_DEPTH = 20;

export function checkTokens(tokens: readonly Token[], names: readonly string[], place: Place): void {
  const known = { name: names, filter: [...FILTERS.keys()], test: [...TESTS.keys()] };
  // One entry for each open bracket: whether a comparison was already seen in the operand we are in.
  const compared = [false];
  for (const [index, token] of tokens.entries()) {
    checkOrder(token, tokens[index - 1], tokens[index - 2], place);
    checkNesting(token, compared, place);
    // `range(9)` is a call first, and an unknown name second.
    if (isSign(tokens[index + 1], "(") && endsOperand(token) && token.role !== "filter") {
      throw refusal(place, "calls are not allowed", token.at);
    }
    if (token.role === "name" || token.role === "filter" || token.role === "test") {
      checkKnown(token, known[token.role], place);
    } else if (token.role === "number" && !Number.isFinite(Number(token.value))) {
      throw refusal(place, "a number that is too large", token.at);
    }
  }
}

function checkOrder(token: Token, previous: Token | undefined, before: Token | undefined, place: Place): void {
  const afterOperand = previous !== undefined && endsOperand(previous);
  if (token.role === "keyword") {
    if (token.value === "if" || token.value === "else") throw refusal(place, `${token.value} is not allowed`, token.at);
    if (token.value === "not" ? mayStartNot(previous) : afterOperand) return;
  } else if (roleAfter(previous, before) !== null) {
    if (token.type === "Identifier" || (isSign(previous, ".") && token.role === "number")) return;
  } else if (token.role === "sign") {
    // Without an operand on its left, `*` would unpack arguments and `+` would be a sign, which we do not have.
    if (afterOperand || token.value === "-" || !token.type.endsWith("BinaryOperator")) return;
  } else if (!afterOperand) return;
  throw refusal(place, `unexpected ${quote(token.value)}`, token.at);
}

/** Elsewhere, as in `a == not b`, the parser would take `not` for a name. */
function mayStartNot(previous: Token | undefined): boolean {
  if (previous === undefined || ["(", "[", ","].some((sign) => isSign(previous, sign))) return true;
  return ["and", "or", "not", "is"].some((word) => isKeyword(previous, word));
}

function endsOperand(token: Token): boolean {
  return token.role === "sign" ? token.value === ")" || token.value === "]" : token.role !== "keyword";
}

/** Bounds the brackets before the parser recurses into them, and refuses `a < b < c`: the parser makes it
 *  `(a < b) < c`, which is not what Jinja means by it. */
function checkNesting(token: Token, compared: boolean[], place: Place): void {
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

function checkKnown(token: Token, known: readonly string[], place: Place): void {
  if (known.includes(token.value)) return;
  throw refusal(place, `unknown ${token.role} ${quote(token.value)}`, token.at, {
    allowed: known.join(", "),
    nearest: nearest(token.value, known),
  });
}
