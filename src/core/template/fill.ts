/** Fills the templates of a value: a text that is exactly one `{{ e }}` becomes the value of e; otherwise the pieces are joined,
 *  texts as they are, and other values as JSON. The result is plain JSON of at most 1 MiB, made with a bounded amount of work, which
 *  is counted, since there is no clock. Keys of objects are not filled. */
import { evaluateExpression } from "../expression/evaluate.ts";
import {
  type EvaluationBudget,
  EvaluationError,
  isNone,
  isObject,
  lengthOf,
  MAX_VALUE_DEPTH,
  MAX_WORK,
  MissingError,
  own,
  plainCopy,
  put,
  spend,
  TooMuchWorkError,
  textOf,
} from "../expression/values.ts";
import { hasTemplate, parseTemplate, parseWhen, type Template, type TemplateExpression } from "./template.ts";
import { TemplateError } from "./template-error.ts";

export { Layered } from "../expression/values.ts";

/** The value of a name; undefined if it does not exist. Called only for names in the text. */
export type TemplateScope = (name: string) => unknown;

export interface FillOptions {
  /** What a missing name in a value is: an error, or an empty text. */
  readonly undefined: "strict" | "empty";
  /** Adds up what fillings cost. */
  readonly meter?: WorkMeter | undefined;
}

export type FillCode = "undefined" | "template" | "too_large";

/** A value that cannot be filled. */
export class FillError extends Error {
  readonly code: FillCode;
  /** Within the value that was filled. */
  readonly path: readonly (string | number)[];

  constructor(code: FillCode, message: string, path: readonly (string | number)[] = []) {
    super(message);
    this.name = "FillError";
    this.code = code;
    this.path = path;
  }
}

/** Of the JSON of a filled value. */
export const MAX_FILLED_BYTES = 1_048_576;

/** What JSON cannot hold is left out of objects, and is null elsewhere. Throws a `FillError`. */
export function fillValue(value: unknown, scope: TemplateScope, options: FillOptions): unknown {
  const work = workFor(options);
  return checkSize(fillNested(value, scope, work, []));
}

/** One text. Throws a `FillError`. */
export function fillText(text: string, scope: TemplateScope, options: FillOptions): unknown {
  return checkSize(filled(text, scope, workFor(options), []));
}

function workFor({ undefined: missing, meter }: FillOptions): EvaluationBudget {
  const work = { left: MAX_WORK, isTemplate: true, isStrict: missing === "strict" };
  meter?.add(work);
  return work;
}

/** What all fillings cost that were given it; each has a budget of its own. */
export class WorkMeter {
  #done = 0;
  #last: EvaluationBudget | null = null;

  get spent(): number {
    return this.#done + (this.#last === null ? 0 : MAX_WORK - this.#last.left);
  }

  add(work: EvaluationBudget): void {
    this.#done = this.spent;
    this.#last = work;
  }
}

/** For conditions that are evaluated together: they share it. `times`: as much as this many may take alone, ten milliseconds each. */
export function conditionWork(times = 1): EvaluationBudget {
  return { left: times * MAX_WORK, isTemplate: true, isStrict: false };
}

/** The cost of a character of a command whose grammar must be followed. */
const SCANNED = 10;

/** For a shell command, or SQL. Throws a `FillError` if it is too long. */
export function workForCommand(command: string, options: FillOptions): EvaluationBudget {
  const work = workFor(options);
  guarded("the command", [], () => spend(work, command.length * SCANNED));
  return work;
}

/** The value of one expression, as plain JSON; undefined only in the mode `empty`. Throws a `FillError`. */
export function expressionValue(
  { tree, at, end }: TemplateExpression,
  source: string,
  scope: TemplateScope,
  work: EvaluationBudget,
  path: readonly (string | number)[] = [],
): unknown {
  return guarded(source.slice(at, end), path, () => {
    const value = evaluateExpression(tree, scope, work);
    if (value !== undefined) return plainCopy(value, work);
    if (work.isStrict) throw new MissingError("it has no value");
    return undefined;
  });
}

/** The value of one expression as text. Throws a `FillError`. */
export function expressionText(
  expression: TemplateExpression,
  source: string,
  scope: TemplateScope,
  work: EvaluationBudget,
  path: readonly (string | number)[] = [],
): string {
  const value = expressionValue(expression, source, scope, work, path);
  return guarded(source.slice(expression.at, expression.end), path, () => {
    const text = textOf(value, work);
    spend(work, text.length);
    return text;
  });
}

/** Errors of an evaluation become errors of the fill, with the text of the expression. */
export function guarded<T>(shown: string, path: readonly (string | number)[], evaluate: () => T): T {
  try {
    return evaluate();
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    const text = shown.length > 100 ? `${shown.slice(0, 97)}...` : shown;
    const missing = error instanceof MissingError ? "undefined" : "template";
    throw new FillError(error instanceof TooMuchWorkError ? "too_large" : missing, `${text}: ${error.message}`, path);
  }
}

/** Throws a `FillError` if the JSON of a value is too large. */
export function checkSize<T>(value: T): T {
  const json = JSON.stringify(value) ?? "";
  const isLarge =
    json.length > MAX_FILLED_BYTES || (json.length * 3 > MAX_FILLED_BYTES && byteLength(json) > MAX_FILLED_BYTES);
  if (isLarge) throw new FillError("too_large", `the filled value is larger than ${MAX_FILLED_BYTES} bytes`);
  return value;
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

function fillNested(
  value: unknown,
  scope: TemplateScope,
  work: EvaluationBudget,
  path: readonly (string | number)[],
): unknown {
  if (typeof value === "string") return filled(value, scope, work, path);
  if (path.length > MAX_VALUE_DEPTH) {
    throw new FillError("too_large", `the value is nested deeper than ${MAX_VALUE_DEPTH}`, path);
  }
  if (Array.isArray(value)) {
    return Array.from({ length: value.length }, (_, i) => fillNested(own(value, i), scope, work, [...path, i]));
  }
  if (!isObject(value)) return guarded("the value", path, () => plainCopy(value, work));
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const item = own(value, key);
    if (item !== undefined) put(result, key, fillNested(item, scope, work, [...path, key]));
  }
  return result;
}

function filled(
  text: string,
  scope: TemplateScope,
  work: EvaluationBudget,
  path: readonly (string | number)[],
): unknown {
  guarded("the value", path, () => spend(work, text.length));
  if (!hasTemplate(text)) return text;
  const { parts, isWhole } = parsedText(text, path);
  const pieces = parts.map((part) => {
    if (typeof part === "string") return part;
    if (part.isRaw) throw rawRefused(path);
    return isWhole ? expressionValue(part, text, scope, work, path) : expressionText(part, text, scope, work, path);
  });
  return isWhole ? (pieces[0] ?? (pieces[0] === undefined ? "" : null)) : pieces.join("");
}

export function rawRefused(path: readonly (string | number)[] = []): FillError {
  return new FillError("template", "raw is allowed only in the command of a shell step", path);
}

/** The template of a text. Throws a `FillError`. */
export function parsedText(text: string, path: readonly (string | number)[] = []): Template {
  try {
    return parseTemplate(text);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    throw new FillError("template", `${error.message} (at character ${error.offset + 1})`, path);
  }
}

/** Texts that make a condition false, in any case. */
const FALSE_TEXTS: ReadonlySet<string> = new Set(["", "false", "no", "n", "off", "none", "null"]);

/** A condition of a playbook: any number except 0, any text except false, no, n, off, none, null and the empty one, any list or
 *  object with items. A missing name is None. Never throws: what cannot be evaluated is false, with the reason in `error`. */
export function evaluateWhen(
  source: string,
  scope: TemplateScope,
  work: EvaluationBudget = conditionWork(),
): { readonly value: boolean; readonly error: string | null } {
  try {
    const [expression] = parseWhen(source).parts as readonly [TemplateExpression];
    if (expression.isRaw) throw rawRefused();
    return { value: isLooselyTrue(evaluateExpression(expression.tree, scope, work), work), error: null };
  } catch (error) {
    const known = error instanceof EvaluationError || error instanceof TemplateError || error instanceof FillError;
    return { value: false, error: known ? error.message : "the condition or its values are not readable" };
  }
}

function isLooselyTrue(value: unknown, work: EvaluationBudget): boolean {
  if (isNone(value)) return false;
  if (typeof value === "string") return value.length > 40 || !FALSE_TEXTS.has(value.trim().toLowerCase());
  if (typeof value === "object") return lengthOf(value, work) > 0;
  return value === true || (typeof value === "number" && value !== 0 && !Number.isNaN(value));
}
