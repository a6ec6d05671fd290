/** Templates: texts with `{{ expression }}`, and conditions of a playbook, parsed. They have no statements and no calls, and are
 *  filled in `fill.ts`. `{# … #}` is not a comment, but text. */
import { deepFreeze } from "../check.ts";
import type { ConditionNode } from "../expression/evaluate.ts";
import { cutExpression } from "./lexer.ts";
import { parseExpression } from "./parse-expression.ts";
import { statementRefused } from "./refusals.ts";
import { syntaxError, TemplateError } from "./template-error.ts";

export { type TemplateCode, TemplateError } from "./template-error.ts";

export interface Template {
  readonly source: string;
  /** Texts, never empty, and expressions, in their order. */
  readonly parts: readonly (string | TemplateExpression)[];
  /** Exactly one expression, and nothing around it: the value keeps its type. */
  readonly isWhole: boolean;
}

export interface TemplateExpression {
  readonly tree: ConditionNode;
  /** The position of `{{`, and the one after `}}`. */
  readonly at: number;
  readonly end: number;
  /** Ends with `| raw`, which is not in the tree. Only the command of a shell step may have it. */
  readonly isRaw: boolean;
}

/** Of one text. Parsing costs more than filling, and is not counted as work. */
const MAX_EXPRESSIONS = 1_000;

/** Whether a text has a template, or a statement, which is refused. */
export function hasTemplate(text: string): boolean {
  return text.includes("{{") || text.includes("{%");
}

/** Throws a `TemplateError`. */
export function parseTemplate(text: string): Template {
  return parsedOnce(TEMPLATES, text, readTemplate);
}

/** A condition (`when`, `where`): a bare expression, or exactly one `{{ e }}`. Throws a `TemplateError`. */
export function parseWhen(source: string): Template {
  return parsedOnce(CONDITIONS, source, readWhen);
}

/** Playbooks have few texts, and each is filled often. Long texts are not kept. */
class ParsedTexts {
  readonly #parsed = new Map<string, Template>();

  get(text: string): Template | undefined {
    return this.#parsed.get(text);
  }

  keep(text: string, template: Template): void {
    if (text.length > MAX_KEPT_LENGTH) return;
    if (this.#parsed.size >= MAX_KEPT) this.#parsed.clear();
    this.#parsed.set(text, template);
  }
}

const MAX_KEPT = 2_000;
const MAX_KEPT_LENGTH = 4_000;
const TEMPLATES = new ParsedTexts();
const CONDITIONS = new ParsedTexts();

function parsedOnce(texts: ParsedTexts, text: string, read: (text: string) => Template): Template {
  const before = texts.get(text);
  if (before !== undefined) return before;
  const template = deepFreeze(read(text));
  texts.keep(text, template);
  return template;
}

function readTemplate(source: string): Template {
  const parts: (string | TemplateExpression)[] = [];
  let [at, isTrimmed, expressions] = [0, false, 0];
  const addText = (end: number, trimsEnd: boolean) => {
    let text = source.slice(at, end);
    if (isTrimmed) text = text.trimStart();
    if (trimsEnd) text = text.trimEnd();
    if (text !== "") parts.push(text);
  };
  for (;;) {
    const start = nextBraces(source, at);
    if (start === -1) break;
    expressions += 1;
    if (expressions > MAX_EXPRESSIONS) {
      throw syntaxError(`a text has more than ${MAX_EXPRESSIONS} expressions`, start);
    }
    if (source[start + 1] === "%") throw statementRefused(source, start);
    const trims = source[start + 2] === "-";
    addText(start, trims);
    const { lexemes, end, isTrimmed: trimsNext } = cutExpression(source, start + (trims ? 3 : 2), false);
    parts.push({ ...parseExpression(lexemes), at: start, end });
    [at, isTrimmed] = [end, trimsNext];
  }
  addText(source.length, false);
  return { source, parts, isWhole: parts.length === 1 && typeof parts[0] !== "string" };
}

function nextBraces(text: string, from: number): number {
  for (let at = text.indexOf("{", from); at !== -1; at = text.indexOf("{", at + 1)) {
    if (text[at + 1] === "{" || text[at + 1] === "%") return at;
  }
  return -1;
}

const ONE_EXPRESSION = "a condition is one expression, such as {{ a == 'b' }}";

function readWhen(source: string): Template {
  const start = source.length - source.trimStart().length;
  if (start === source.length) throw syntaxError(`the condition is empty; ${ONE_EXPRESSION}`, 0);
  if (!source.startsWith("{{", start)) return readBare(source, start);
  const { parts } = readTemplate(source);
  const expressions = parts.filter((part) => typeof part !== "string");
  const [first, second] = expressions;
  const after = source.slice(first?.end ?? 0);
  if (second !== undefined || after.trim() !== "") {
    throw syntaxError(ONE_EXPRESSION, source.length - after.trimStart().length);
  }
  return { source, parts: expressions, isWhole: true };
}

function readBare(source: string, start: number): Template {
  if (source.startsWith("{%", start)) throw statementRefused(source, start);
  try {
    const { lexemes, end } = cutExpression(source, start, true);
    return { source, parts: [{ ...parseExpression(lexemes), at: start, end }], isWhole: true };
  } catch (error) {
    const braces = source.indexOf("{{");
    if (!(error instanceof TemplateError) || error.offset < braces || braces === -1) throw error;
    throw syntaxError(ONE_EXPRESSION, braces);
  }
}

/** A name in a template, with the members that the text states: `steps.items[0].id`. */
export interface NameUse {
  readonly name: string;
  readonly members: readonly (string | number)[];
  /** Of the name, in the text. */
  readonly offset: number;
  /** A default, `or`, a test such as `is defined`, or a condition around it provides for a missing value. */
  readonly isCovered: boolean;
}

/** In the order of the text, except that a condition is before what it decides. */
export function namesOfTemplate(template: Template): readonly NameUse[] {
  const uses: NameUse[] = [];
  for (const part of template.parts) if (typeof part !== "string") collectNames(part.tree, false, NOTHING, uses);
  return uses;
}

const NOTHING: ReadonlySet<string> = new Set();

/** `checked`: the names that a condition around the node has, so that it is evaluated only where they have values. */
function collectNames(node: ConditionNode, isCovered: boolean, checked: ReadonlySet<string>, uses: NameUse[]): void {
  if (node.kind === "name") {
    uses.push({ name: node.name, members: [], offset: node.at ?? 0, isCovered: isCovered || checked.has(node.name) });
  } else if (isStaticPath(node)) {
    collectNames(node.object, isCovered, checked, uses);
    const use = uses.pop() as NameUse;
    uses.push({ ...use, members: [...use.members, node.key.value as string | number] });
  } else {
    for (const [part, covers, checks] of partsOf(node)) {
      collectNames(part, isCovered || covers, checks === null ? checked : withNames(checked, checks), uses);
    }
  }
}

/** A part, whether the node covers it, and the condition that decides whether it is evaluated. */
type NodePart = readonly [part: ConditionNode, isCovered: boolean, condition: ConditionNode | null];

function partsOf(node: ConditionNode): readonly NodePart[] {
  const plain = (...parts: readonly (ConditionNode | null)[]) =>
    parts.filter((part) => part !== null).map((part): NodePart => [part, false, null]);
  switch (node.kind) {
    case "literal":
    case "name":
      return [];
    case "list":
      return plain(...node.items);
    case "dict":
      return plain(...node.entries.flat());
    case "member":
      return plain(node.object, node.key);
    case "slice":
      return plain(node.object, node.start, node.stop, node.step);
    case "unary":
      return plain(node.operand);
    case "binary": {
      const isChoice = node.operator === "or" || node.operator === "and";
      const left: NodePart = [node.left, node.operator === "or", null];
      return [left, [node.right, false, isChoice ? node.left : null]];
    }
    case "ternary":
      return [[node.test, true, null], ...[node.yes, node.no].map((part): NodePart => [part, false, node.test])];
    case "test":
      return [[node.operand, true, null]];
    case "filter":
      return [[node.operand, node.filter === "default", null], ...plain(...node.args)];
  }
}

function withNames(checked: ReadonlySet<string>, condition: ConditionNode): ReadonlySet<string> {
  const uses: NameUse[] = [];
  collectNames(condition, true, NOTHING, uses);
  return new Set([...checked, ...uses.map(({ name }) => name)]);
}

type StaticMember = Extract<ConditionNode, { kind: "member" }> & {
  readonly key: Extract<ConditionNode, { kind: "literal" }>;
};

/** `name.a[0]`: a name, and members that are written out. */
function isStaticPath(node: ConditionNode): node is StaticMember {
  if (node.kind !== "member" || node.key.kind !== "literal") return false;
  if (typeof node.key.value !== "string" && typeof node.key.value !== "number") return false;
  return node.object.kind === "name" || isStaticPath(node.object);
}
