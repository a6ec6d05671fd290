/** The values of conditions: how they are read, compared and combined. Only own data properties of plain objects and
 *  items of lists are read, so no method or getter of an object runs, and all work is charged to a budget. Numbers are
 *  doubles and the length of a text is in UTF-16 units. Otherwise as in Python, except that None and missing are equal,
 *  that what cannot be ordered (None, booleans, two types) is neither less nor more, and that booleans do not add. */

/** What the author of a condition is told when it has no value. */
export class EvaluationError extends Error {}

/** What one evaluation may still do, in characters of text. */
export interface Work {
  left: number;
}

/** Nearly four readings of the longest result (1 MiB): 5 to 25 ms at worst, and microseconds for what is usual. */
export const MAX_WORK = 4_000_000;

/** An item of a list, or a key, takes about as long as this many characters. */
const ITEM = 40;

/** V8 searches in linear time only up to about 250: half a million characters in a million took 63 s. */
const MAX_SEARCHED = 200;

/** Far beyond what JSON from a job nests; the bound is for cycles. */
const MAX_VALUE_DEPTH = 200;

const FORBIDDEN: ReadonlySet<unknown> = new Set(["__proto__", "constructor", "prototype"]);

export type Arithmetic = "+" | "-" | "*" | "/" | "//" | "%" | "~";

export function spend(work: Work, amount: number): void {
  work.left -= amount;
  if (work.left < 0) throw new EvaluationError("the values are too large for a condition");
}

/** The value, if it is one that JSON can hold; functions, dates, instances and the like count as missing. */
export function plain(value: unknown): unknown {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
  if (value === null || Array.isArray(value) || isObject(value)) return value;
  return undefined;
}

export function isObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // By the shape of its prototype and not by its identity, so that objects of another realm count too.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** `object.key` or `object[key]`. Anything that is not there is missing, never an error. */
export function member(object: unknown, key: unknown): unknown {
  const whole = Number.isInteger(key);
  if (Array.isArray(object)) {
    return whole ? own(object, (key as number) < 0 ? object.length + (key as number) : (key as number)) : undefined;
  }
  if (!isObject(object) || FORBIDDEN.has(key)) return undefined;
  return whole || typeof key === "string" ? own(object, key as string | number) : undefined;
}

/** A copy, made without any method of the list: it may have others than those of its kind. */
function itemsOf(list: readonly unknown[]): unknown[] {
  return Array.from({ length: list.length }, (_, i) => own(list, i));
}

/** Through the descriptor, so that a getter is not run. */
function own(object: object, key: string | number): unknown {
  return plain(Object.getOwnPropertyDescriptor(object, key)?.value);
}

export function isTruthy(value: unknown, work: Work): boolean {
  return typeof value === "object" && value !== null ? lengthOf(value, work) > 0 : Boolean(value);
}

export function lengthOf(value: unknown, work: Work): number {
  if (value === null || value === undefined) return 0;
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  if (typeof value !== "object") throw new EvaluationError(`${describe(value)} has no length`);
  return keysOf(value, work).length;
}

function keysOf(object: object, work: Work): string[] {
  const keys = Object.keys(object);
  spend(work, keys.length * ITEM);
  return keys;
}

export function isEqual(a: unknown, b: unknown, work: Work, depth = 0): boolean {
  spend(work, ITEM);
  if (depth > MAX_VALUE_DEPTH) throw new EvaluationError("the values are nested too deep for a condition");
  if (isNone(a) || isNone(b)) return isNone(a) && isNone(b);
  if (typeof a === "string" && typeof b === "string") return isSameText(a, b, work);
  if (isNumeric(a) && isNumeric(b)) return Number(a) === Number(b);
  if (typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Array.isArray(a)) {
    const other = b as unknown[];
    if (a.length !== other.length) return false;
    for (let i = 0; i < a.length; i++) if (!isEqual(own(a, i), own(other, i), work, depth + 1)) return false;
    return true;
  }
  const [left, right] = [a as object, b as object];
  const keys = keysOf(left, work);
  if (keys.length !== keysOf(right, work).length) return false;
  return keys.every((key) => Object.hasOwn(right, key) && isEqual(own(left, key), own(right, key), work, depth + 1));
}

function isNone(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

/** As in Python, true is 1 and false is 0. */
function isNumeric(value: unknown): value is number | boolean {
  return typeof value === "number" || typeof value === "boolean";
}

function isSameText(a: string, b: string, work: Work): boolean {
  if (a.length !== b.length) return false;
  spend(work, a.length);
  return a === b;
}

/** `a < b`, or `a <= b`: two numbers or two texts. */
export function isLess(a: unknown, b: unknown, orEqual: boolean, work: Work): boolean {
  if (typeof a === "number" && typeof b === "number") return orEqual ? a <= b : a < b;
  if (typeof a !== "string" || typeof b !== "string") return false;
  spend(work, Math.min(a.length, b.length));
  return orEqual ? a <= b : a < b;
}

/** `item in container`: an item of a list, a part of a text, a key of an object; nothing is in None. */
export function isIn(item: unknown, container: unknown, work: Work): boolean {
  if (isNone(container)) return false;
  if (Array.isArray(container)) {
    for (let i = 0; i < container.length; i++) if (isEqual(item, own(container, i), work)) return true;
    return false;
  }
  if (typeof container === "object") {
    return typeof item === "string" && !FORBIDDEN.has(item) && Object.hasOwn(container, item);
  }
  if (typeof container !== "string") throw new EvaluationError(`nothing can be in ${describe(container)}`);
  if (typeof item !== "string" || item.length > container.length) return false;
  if (item.length > MAX_SEARCHED) throw new EvaluationError(`"in" looks for at most ${MAX_SEARCHED} characters`);
  spend(work, container.length);
  return container.includes(item);
}

export function calculate(operator: Arithmetic, a: unknown, b: unknown, work: Work): unknown {
  if (operator === "~") return join(textOf(a), textOf(b), work);
  if (operator === "+" && typeof a === "string" && typeof b === "string") return join(a, b, work);
  if (operator === "+" && Array.isArray(a) && Array.isArray(b)) {
    spend(work, (a.length + b.length) * ITEM);
    return [...itemsOf(a), ...itemsOf(b)];
  }
  if (typeof a !== "number" || typeof b !== "number") {
    throw new EvaluationError(`cannot calculate ${describe(a)} ${operator} ${describe(b)}`);
  }
  const value = calculateNumbers(operator, a, b);
  if (!Number.isFinite(value)) throw new EvaluationError(`${a} ${operator} ${b} is too large`);
  return value;
}

function join(a: string, b: string, work: Work): string {
  spend(work, a.length + b.length);
  return a + b;
}

function calculateNumbers(operator: Exclude<Arithmetic, "~">, a: number, b: number): number {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
  }
  if (b === 0) throw new EvaluationError("division by zero");
  if (operator === "/") return a / b;
  // Towards minus infinity, and with the sign of the divisor, as in Python.
  if (operator === "//") return Math.floor(a / b);
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

/** A value as text, for `~` and the filters of texts; None and missing are empty, so that `error | lower` is safe. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (isNone(value)) return "";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  throw new EvaluationError(`${describe(value)} is not text`);
}

function describe(value: unknown): string {
  if (isNone(value)) return "None";
  if (Array.isArray(value)) return "a list";
  return { string: "text", number: "a number", boolean: "true or false" }[typeof value as string] ?? "an object";
}
