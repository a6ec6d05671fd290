/** The filters of templates: those of conditions and more. As in Jinja, except that texts are compared by their characters, case
 *  included, and that arguments have no names. `first`, `last`, `min` and `max` of nothing are missing, so that a default
 *  applies. All work counts against the budget. */
import { FILTERS, type Filter, toNumber } from "./filters.ts";
import {
  countedText,
  describe,
  type EvaluationBudget,
  EvaluationError,
  ITEM,
  isEqual,
  isLess,
  isNone,
  isObject,
  itemsOf,
  jsonText,
  keysOf,
  MAX_SEARCHED,
  own,
  spend,
  textOf,
} from "./values.ts";

export const TEMPLATE_FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ...FILTERS,
  ["abs", { maxArgs: 0, apply: (value) => Math.abs(numberIn(value, "abs")) }],
  ["b64decode", { maxArgs: 0, apply: b64decode }],
  ["b64encode", { maxArgs: 0, apply: b64encode }],
  ["first", { maxArgs: 0, apply: (value, _, work) => sequence(value, "first", work, 0)[0] }],
  ["fromjson", { maxArgs: 0, apply: fromJson }],
  ["join", { maxArgs: 1, apply: joinItems }],
  ["keys", { maxArgs: 0, apply: (value, _, work) => keysOf(objectIn(value, "keys"), work) }],
  ["last", { maxArgs: 0, apply: (value, _, work) => sequence(value, "last", work, 0).at(-1) }],
  ["max", { maxArgs: 0, apply: (value, _, work) => extreme(value, "max", work) }],
  ["min", { maxArgs: 0, apply: (value, _, work) => extreme(value, "min", work) }],
  ["replace", { minArgs: 2, maxArgs: 2, apply: replace }],
  ["round", { maxArgs: 2, apply: (value, args) => round(numberIn(value, "round"), args) }],
  ["sort", { maxArgs: 1, apply: sort }],
  ["split", { maxArgs: 1, apply: split }],
  ["string", { maxArgs: 0, apply: (value, _, work) => countedText(value, work) }],
  ["sum", { maxArgs: 0, apply: (value, _, work) => sum(sequence(value, "sum", work, ITEM)) }],
  ["tojson", { maxArgs: 0, apply: (value, _, work) => jsonText(value, work) }],
  ["unique", { maxArgs: 0, apply: unique }],
  ["urlencode", { maxArgs: 0, apply: urlencode }],
  ["values", { maxArgs: 0, apply: valuesOf }],
]);

function numberIn(value: unknown, filter: string): number {
  const number = toNumber(value);
  if (number === null) throw new EvaluationError(`${filter} needs a number; got ${describe(value)}`);
  return number;
}

function objectIn(value: unknown, filter: string): object {
  if (!isObject(value)) throw new EvaluationError(`${filter} needs an object; got ${describe(value)}`);
  return value;
}

/** The items of a list, or the characters of a text; None has none. `cost` is that of each item, beside the copy. */
function sequence(value: unknown, filter: string, work: EvaluationBudget, cost: number): unknown[] {
  if (isNone(value)) return [];
  if (typeof value !== "string" && !Array.isArray(value)) {
    throw new EvaluationError(`${filter} needs a list; got ${describe(value)}`);
  }
  spend(work, value.length * (cost + 1));
  return typeof value === "string" ? [...value] : itemsOf(value);
}

function joinItems(value: unknown, [separator = ""]: readonly unknown[], work: EvaluationBudget): string {
  const between = textOf(separator, work);
  const items = sequence(value, "join", work, ITEM + between.length);
  return items.map((item) => countedText(item, work)).join(between);
}

function split(value: unknown, [separator]: readonly unknown[], work: EvaluationBudget): string[] {
  const text = countedText(value, work);
  const parts = isNone(separator)
    ? text.split(/\s+/).filter((part) => part !== "")
    : text.split(searched(separator, "split"));
  spend(work, parts.length * ITEM);
  return parts;
}

function replace(value: unknown, [old, by]: readonly unknown[], work: EvaluationBudget): string {
  const text = countedText(value, work);
  const parts = text.split(searched(old, "replace"));
  const between = textOf(by, work);
  spend(work, parts.length * (1 + between.length));
  return parts.join(between);
}

/** A text to search for. A longer one may take more than linear time. */
function searched(value: unknown, filter: string): string {
  if (typeof value === "string" && value !== "" && value.length <= MAX_SEARCHED) return value;
  throw new EvaluationError(`${filter} searches for a text of 1 to ${MAX_SEARCHED} characters`);
}

function round(number: number, [precision = 0, method = "common"]: readonly unknown[]): number {
  if (!Number.isInteger(precision) || (precision as number) < 0 || (precision as number) > 15) {
    throw new EvaluationError("round needs 0 to 15 digits");
  }
  if (method === "common") return precision === 0 ? roundHalfEven(number) : Number(number.toFixed(precision as number));
  if (method !== "ceil" && method !== "floor") throw new EvaluationError('round is "common", "ceil" or "floor"');
  const scale = 10 ** (precision as number);
  const scaled = number * scale;
  return Number.isFinite(scaled) ? Math[method](scaled) / scale : number;
}

/** As in Python: 0.5 and 2.5 become 0 and 2. */
function roundHalfEven(number: number): number {
  const below = Math.floor(number);
  if (number - below !== 0.5) return Math.round(number);
  return below % 2 === 0 ? below : below + 1;
}

function extreme(value: unknown, filter: "min" | "max", work: EvaluationBudget): unknown {
  const items = ordered(sequence(value, filter, work, ITEM), filter);
  return items.reduce((best, item) => {
    const isBetter = filter === "min" ? isLess(item, best, false, work) : isLess(best, item, false, work);
    return isBetter ? item : best;
  }, items[0]);
}

function sort(value: unknown, [reverse]: readonly unknown[], work: EvaluationBudget): unknown[] {
  const items = ordered(sequence(value, "sort", work, 2 * ITEM), "sort");
  const sorted = items.sort((a, b) => (isLess(a, b, false, work) ? -1 : isLess(b, a, false, work) ? 1 : 0));
  return reverse === true ? sorted.reverse() : sorted;
}

/** Items that have an order: all numbers, or all texts. */
function ordered(items: unknown[], filter: string): unknown[] {
  const isOrdered = ["number", "string"].some((type) => items.every((item) => typeof item === type));
  if (!isOrdered) throw new EvaluationError(`${filter} needs numbers, or texts`);
  return items;
}

function sum(items: readonly unknown[]): number {
  let total = 0;
  for (const item of items) total += numberIn(item, "sum");
  if (!Number.isFinite(total)) throw new EvaluationError("the sum is too large");
  return total;
}

/** The first of equal items; scalars are found by hash, and others are compared with each other. */
function unique(value: unknown, _: readonly unknown[], work: EvaluationBudget): unknown[] {
  const seen = new Set<unknown>();
  const objects: unknown[] = [];
  return sequence(value, "unique", work, ITEM).filter((item) => {
    if (typeof item === "object" && item !== null) {
      if (objects.some((other) => isEqual(item, other, work))) return false;
      objects.push(item);
      return true;
    }
    const scalar = typeof item === "boolean" ? Number(item) : (item ?? null);
    if (seen.has(scalar)) return false;
    seen.add(scalar);
    return true;
  });
}

function valuesOf(value: unknown, _: readonly unknown[], work: EvaluationBudget): unknown[] {
  const object = objectIn(value, "values");
  return keysOf(object, work).map((key) => own(object, key));
}

function fromJson(value: unknown, _: readonly unknown[], work: EvaluationBudget): unknown {
  const text = countedText(value, work);
  try {
    return JSON.parse(text);
  } catch {
    throw new EvaluationError("fromjson needs a text with JSON");
  }
}

function b64encode(value: unknown, _: readonly unknown[], work: EvaluationBudget): string {
  const bytes = new TextEncoder().encode(countedText(value, work));
  spend(work, bytes.length);
  return btoa(latin1(bytes));
}

function b64decode(value: unknown, _: readonly unknown[], work: EvaluationBudget): string {
  const text = countedText(value, work);
  try {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new EvaluationError("b64decode needs Base64 of a text in UTF-8");
  }
}

/** One character per byte, in pieces that are short enough to be arguments. */
function latin1(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4_096) text += String.fromCharCode(...bytes.subarray(at, at + 4_096));
  return text;
}

/** As in Jinja: a text keeps its slashes, and an object becomes a query. */
function urlencode(value: unknown, _: readonly unknown[], work: EvaluationBudget): string {
  if (!isObject(value)) return percentEncoded(countedText(value, work)).replaceAll("%2F", "/");
  const part = (text: unknown) => percentEncoded(countedText(text, work)).replaceAll("%20", "+");
  return keysOf(value, work)
    .map((key) => `${part(key)}=${part(own(value, key))}`)
    .join("&");
}

function percentEncoded(text: string): string {
  const escaped = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text.toWellFormed()).replace(/[!'()*]/g, escaped);
}
