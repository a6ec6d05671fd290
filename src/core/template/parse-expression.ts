/** Parses an expression of a template: Jinja's grammar without calls, and with `now()` as the name `now`. The grammar of conditions
 *  in `expression.ts` is smaller, and does not change with this one. A comparison of a comparison needs parentheses. */
import { nearest } from "../check.ts";
import type { BinaryOperator, ConditionNode } from "../expression/evaluate.ts";
import { MAX_NODES } from "../expression/expression.ts";
import { type Filter, TESTS } from "../expression/filters.ts";
import { TEMPLATE_FILTERS } from "../expression/template-filters.ts";
import { CONSTANTS, KEYWORDS, MAX_DEPTH, quote } from "../expression/tokens.ts";
import type { Lexeme } from "./lexer.ts";
import { callRefused } from "./refusals.ts";
import { syntaxError } from "./template-error.ts";

const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "<", "<=", ">", ">="]);

export interface ParsedExpression {
  readonly tree: ConditionNode;
  /** Ends with `| raw`, which is not in the tree. */
  readonly isRaw: boolean;
}

export function parseExpression(lexemes: readonly Lexeme[]): ParsedExpression {
  const parser = new ExpressionParser(lexemes);
  return parser.parse();
}

class ExpressionParser {
  readonly #lexemes: readonly Lexeme[];
  #index = 0;
  #nodes = 0;
  #depth = 0;
  #isRaw = false;

  constructor(lexemes: readonly Lexeme[]) {
    this.#lexemes = lexemes;
  }

  parse(): ParsedExpression {
    const tree = this.#expression();
    if (this.#next.type !== "end") throw this.#unexpected();
    return { tree, isRaw: this.#isRaw };
  }

  get #next(): Lexeme {
    return this.#lexemes[this.#index] as Lexeme;
  }

  #take(): Lexeme {
    const lexeme = this.#next;
    this.#index += 1;
    return lexeme;
  }

  #isSign(sign: string): boolean {
    return this.#next.type === "sign" && this.#next.value === sign;
  }

  #isWord(word: string): boolean {
    return this.#next.type === "word" && this.#next.value === word;
  }

  #takeIf(sign: string): boolean {
    const isHere = this.#isSign(sign);
    if (isHere) this.#index += 1;
    return isHere;
  }

  #takeWord(word: string): boolean {
    const isHere = this.#isWord(word);
    if (isHere) this.#index += 1;
    return isHere;
  }

  #expect(sign: string): void {
    if (!this.#takeIf(sign)) throw this.#unexpected(`; expected ${quote(sign)}`);
  }

  #unexpected(more = ""): Error {
    const { type, value, at } = this.#next;
    if (type === "end") return syntaxError(`unexpected end of the expression${more}`, at);
    const hints: Readonly<Record<string, string>> = {
      "=": "; write == to compare",
      "**": "; it has no power operator",
    };
    return syntaxError(`unexpected ${quote(value)}${more || (hints[value] ?? "")}`, at);
  }

  #node(node: ConditionNode): ConditionNode {
    this.#nodes += 1;
    if (this.#nodes > MAX_NODES) throw syntaxError(`an expression has more than ${MAX_NODES} nodes`, this.#next.at);
    return node;
  }

  /** Bounds the recursion, and so the stack. */
  #deeper<T>(parse: () => T): T {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw syntaxError(`an expression is nested deeper than ${MAX_DEPTH}`, this.#next.at);
    const result = parse();
    this.#depth -= 1;
    return result;
  }

  #expression(): ConditionNode {
    return this.#deeper(() => {
      const yes = this.#or();
      if (!this.#takeWord("if")) return yes;
      const test = this.#or();
      const no = this.#takeWord("else") ? this.#expression() : this.#node({ kind: "literal", value: null });
      return this.#node({ kind: "ternary", test, yes, no });
    });
  }

  #or(): ConditionNode {
    let left = this.#and();
    while (this.#takeWord("or")) left = this.#binary("or", left, this.#and());
    return left;
  }

  #and(): ConditionNode {
    let left = this.#not();
    while (this.#takeWord("and")) left = this.#binary("and", left, this.#not());
    return left;
  }

  #not(): ConditionNode {
    if (!this.#takeWord("not")) return this.#comparison();
    return this.#deeper(() => this.#node({ kind: "unary", operator: "not", operand: this.#not() }));
  }

  #comparison(): ConditionNode {
    const left = this.#sum();
    const operator = this.#comparisonOperator();
    if (operator === null) return left;
    const compared = this.#binary(operator, left, this.#sum());
    const { at } = this.#next;
    if (this.#comparisonOperator() !== null) throw syntaxError('comparisons in a row need "and" or parentheses', at);
    return compared;
  }

  #comparisonOperator(): BinaryOperator | null {
    const { type, value } = this.#next;
    if (type === "sign" && COMPARISONS.has(value)) return this.#take().value as BinaryOperator;
    if (this.#takeWord("in")) return "in";
    const after = this.#lexemes[this.#index + 1];
    if (!this.#isWord("not") || after?.type !== "word" || after.value !== "in") return null;
    this.#index += 2;
    return "not in";
  }

  #sum(): ConditionNode {
    let left = this.#product();
    while (this.#isSign("+") || this.#isSign("-") || this.#isSign("~")) {
      left = this.#binary(this.#take().value as BinaryOperator, left, this.#product());
    }
    return left;
  }

  #product(): ConditionNode {
    let left = this.#filtered();
    while (this.#isSign("*") || this.#isSign("/") || this.#isSign("//") || this.#isSign("%")) {
      left = this.#binary(this.#take().value as BinaryOperator, left, this.#filtered());
    }
    return left;
  }

  #binary(operator: BinaryOperator, left: ConditionNode, right: ConditionNode): ConditionNode {
    return this.#node({ kind: "binary", operator, left, right });
  }

  #filtered(): ConditionNode {
    let operand = this.#signed();
    for (;;) {
      if (this.#takeIf("|")) operand = this.#filter(operand);
      else if (this.#takeWord("is")) operand = this.#test(operand);
      else return operand;
    }
  }

  #filter(operand: ConditionNode): ConditionNode {
    const { type, value: filter, at } = this.#next;
    if (type !== "word") throw this.#unexpected("; expected a filter");
    this.#index += 1;
    if (filter === "raw") return this.#raw(operand, at);
    const known = TEMPLATE_FILTERS.get(filter);
    if (known === undefined) throw unknownWord("filter", filter, [...TEMPLATE_FILTERS.keys()], at);
    const args = this.#takeIf("(") ? this.#items(")") : [];
    checkArguments(filter, known, args.length, at);
    return this.#node({ kind: "filter", filter, operand, args });
  }

  /** Only at the end of the expression. */
  #raw(operand: ConditionNode, at: number): ConditionNode {
    if (this.#next.type !== "end") throw syntaxError("raw must be the last filter of the expression", at);
    this.#isRaw = true;
    return operand;
  }

  #test(operand: ConditionNode): ConditionNode {
    const negated = this.#takeWord("not");
    const { type, value: test, at } = this.#next;
    if (type !== "word") throw this.#unexpected("; expected a test such as defined");
    if (!TESTS.has(test)) throw unknownWord("test", test, [...TESTS.keys()], at);
    this.#index += 1;
    return this.#node({ kind: "test", test, negated, operand });
  }

  #signed(): ConditionNode {
    if (!this.#takeIf("-")) return this.#members();
    return this.#deeper(() => this.#node({ kind: "unary", operator: "-", operand: this.#signed() }));
  }

  #members(): ConditionNode {
    const { at } = this.#next;
    let object = this.#primary();
    for (;;) {
      if (this.#takeIf(".")) object = this.#node({ kind: "member", object, key: this.#memberName() });
      else if (this.#takeIf("[")) object = this.#indexed(object);
      else if (this.#isSign("(")) this.#call(object, at);
      else return object;
    }
  }

  #memberName(): ConditionNode {
    const { type, value } = this.#next;
    if (type !== "word" && type !== "number") throw this.#unexpected("; expected the name of a member");
    this.#index += 1;
    return this.#node({ kind: "literal", value: type === "word" ? value : Number(value) });
  }

  #indexed(object: ConditionNode): ConditionNode {
    const part = () => (this.#isSign(":") || this.#isSign("]") ? null : this.#expression());
    const start = part();
    if (start !== null && this.#takeIf("]")) return this.#node({ kind: "member", object, key: start });
    this.#expect(":");
    const stop = part();
    const step = this.#takeIf(":") ? part() : null;
    this.#expect("]");
    return this.#node({ kind: "slice", object, start, stop, step });
  }

  /** `now()` is the name `now`; every other call is refused. */
  #call(callee: ConditionNode, at: number): void {
    const after = this.#lexemes[this.#index + 1];
    if (callee.kind === "name" && callee.name === "now" && after?.type === "sign" && after.value === ")") {
      this.#index += 2;
      return;
    }
    const isMethod = callee.kind === "member";
    const name = isMethod ? callee.key : callee;
    const shown = name.kind === "name" ? name.name : name.kind === "literal" ? String(name.value) : null;
    throw callRefused(shown, isMethod, at);
  }

  #primary(): ConditionNode {
    const { type, value, at } = this.#next;
    if (type === "word") {
      if (KEYWORDS.has(value)) throw this.#unexpected();
      this.#index += 1;
      const constant = CONSTANTS.get(value);
      return this.#node(
        constant === undefined ? { kind: "name", name: value, at } : { kind: "literal", value: constant },
      );
    }
    if (type === "text" || type === "number") {
      this.#index += 1;
      const literal = type === "text" ? value : Number(value);
      if (literal === Number.POSITIVE_INFINITY) throw syntaxError("the number is too large", at);
      return this.#node({ kind: "literal", value: literal });
    }
    if (this.#takeIf("(")) return this.#parentheses();
    if (this.#takeIf("[")) return this.#node({ kind: "list", items: this.#items("]") });
    if (this.#takeIf("{")) return this.#node({ kind: "dict", entries: this.#entries() });
    throw this.#unexpected();
  }

  /** `(a)` is a; `(a, b)` and `(a,)` are lists. */
  #parentheses(): ConditionNode {
    const first = this.#expression();
    if (this.#takeIf(")")) return first;
    this.#expect(",");
    return this.#node({ kind: "list", items: [first, ...this.#items(")")] });
  }

  /** Up to the closing sign; a comma may follow the last one. */
  #items(close: string): ConditionNode[] {
    const items: ConditionNode[] = [];
    while (!this.#takeIf(close)) {
      items.push(this.#expression());
      if (this.#takeIf(close)) break;
      this.#expect(",");
    }
    return items;
  }

  #entries(): (readonly [ConditionNode, ConditionNode])[] {
    const entries: (readonly [ConditionNode, ConditionNode])[] = [];
    while (!this.#takeIf("}")) {
      const key = this.#expression();
      this.#expect(":");
      entries.push([key, this.#expression()]);
      if (this.#takeIf("}")) break;
      this.#expect(",");
    }
    return entries;
  }
}

function checkArguments(filter: string, { minArgs = 0, maxArgs }: Filter, count: number, at: number): void {
  if (count >= minArgs && count <= maxArgs) return;
  const allowed = minArgs === maxArgs ? `${minArgs}` : `${minArgs} to ${maxArgs}`;
  throw syntaxError(`the filter ${filter} has ${allowed} arguments; got ${count}`, at);
}

function unknownWord(what: string, word: string, known: readonly string[], at: number): Error {
  const near = nearest(word, known);
  const hint = near === null ? `known: ${known.join(", ")}` : `did you mean ${quote(near)}?`;
  return syntaxError(`unknown ${what} ${quote(word)}; ${hint}`, at);
}
