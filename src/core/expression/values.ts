/** The values of an evaluation: reading, comparing and calculating, in bounded time. Only own data properties of plain objects and
 *  items of lists are read, so no method or getter of an object runs, and all work counts against a budget. */

/** A condition has no value; the message is for its author. */
export class EvaluationError extends Error {}

/** A name or a member that a template needs, and that does not exist. */
export class MissingError extends EvaluationError {}

/** The budget is spent. */
export class TooMuchWorkError extends EvaluationError {}

/** The work that is left for an evaluation, in characters of text, and how values become text. */
export interface EvaluationBudget {
  left: number;
  /** As in a template: true is `true`, and lists and objects are JSON. In a condition true is `True`. */
  readonly isTemplate: boolean;
  /** What is missing, and None in a text, is an error unless the expression provides for it. */
  readonly isStrict: boolean;
}

/** A value with more members than its own: `{{ x }}` is the value, and `{{ x.k }}` its own key `k`, else that of `members`. Only a scope
 *  makes one; within plain values it counts as missing. */
export class Layered {
  readonly value: unknown;
  readonly members: Readonly<Record<string, unknown>>;

  constructor(value: unknown, members: Readonly<Record<string, unknown>>) {
    this.value = value;
    this.members = members;
  }
}

/** The value itself; what JSON cannot hold is missing. */
export function unwrapped(value: unknown): unknown {
  return plain(value instanceof Layered ? value.value : value);
}

/** Enough to read the longest result (1 MiB) almost four times: 5 to 25 ms at worst, and microseconds normally. */
export const MAX_WORK = 4_000_000;

/** The cost of an item of a list, or of a key, in characters. */
export const ITEM = 40;

/** The cost of an item, or a key, that is only copied. */
const COPIED = 8;
const COPIED_KEY = 16;

/** V8 searches for longer texts in more than linear time: half a million characters in a million took 63 s. */
export const MAX_SEARCHED = 200;

/** Only cycles are nested this deep. */
export const MAX_VALUE_DEPTH = 200;

export const FORBIDDEN: ReadonlySet<unknown> = new Set(["__proto__", "constructor", "prototype"]);

export type Arithmetic = "+" | "-" | "*" | "/" | "//" | "%" | "~";

export function spend(work: EvaluationBudget, amount: number): void {
  work.left -= amount;
  if (work.left < 0)
    throw new TooMuchWorkError(`the values are too large for ${work.isTemplate ? "a template" : "a condition"}`);
}

/** The value if JSON can hold it; functions, dates and instances count as missing. */
export function plain(value: unknown): unknown {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
  if (value === null || Array.isArray(value) || isObject(value)) return value;
  return undefined;
}

export function isObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Not by identity with Object.prototype, so that objects of another realm count too.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** `object.key` or `object[key]`; undefined where it does not exist. */
export function member(object: unknown, key: unknown, isTemplate = false): unknown {
  if (object instanceof Layered) return layeredMember(object, key);
  const whole = Number.isInteger(key);
  if (Array.isArray(object)) {
    return whole ? own(object, (key as number) < 0 ? object.length + (key as number) : (key as number)) : undefined;
  }
  if (isTemplate && whole && typeof object === "string") return object.at(key as number);
  if (!isObject(object) || FORBIDDEN.has(key)) return undefined;
  return whole || typeof key === "string" ? own(object, key as string | number) : undefined;
}

function layeredMember({ value, members }: Layered, key: unknown): unknown {
  const found = member(value, key, true);
  if (found !== undefined || typeof key !== "string" || FORBIDDEN.has(key)) return found;
  const added: unknown = Object.getOwnPropertyDescriptor(members, key)?.value;
  return added instanceof Layered ? added : plain(added);
}

/** A copy, made without the methods of the list, which may be replaced. */
export function itemsOf(list: readonly unknown[]): unknown[] {
  return Array.from({ length: list.length }, (_, i) => own(list, i));
}

/** Through the descriptor, so that no getter runs. */
export function own(object: object, key: string | number): unknown {
  return plain(Object.getOwnPropertyDescriptor(object, key)?.value);
}

export function isTruthy(value: unknown, work: EvaluationBudget): boolean {
  return typeof value === "object" && value !== null ? lengthOf(value, work) > 0 : Boolean(value);
}

export function lengthOf(value: unknown, work: EvaluationBudget): number {
  if (value === null || value === undefined) return 0;
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  if (typeof value !== "object") throw new EvaluationError(`${describe(value)} has no length`);
  return keysOf(value, work).length;
}

export function keysOf(object: object, work: EvaluationBudget): string[] {
  const keys = Object.keys(object);
  spend(work, keys.length * ITEM);
  return keys;
}

export function isEqual(a: unknown, b: unknown, work: EvaluationBudget, depth = 0): boolean {
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

export function isNone(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

/** As in Python, true is 1 and false is 0. */
export function isNumeric(value: unknown): value is number | boolean {
  return typeof value === "number" || typeof value === "boolean";
}

function isSameText(a: string, b: string, work: EvaluationBudget): boolean {
  if (a.length !== b.length) return false;
  spend(work, a.length);
  return a === b;
}

/** `a < b`, or `a <= b`: two numbers or two texts. */
export function isLess(a: unknown, b: unknown, orEqual: boolean, work: EvaluationBudget): boolean {
  if (typeof a === "number" && typeof b === "number") return orEqual ? a <= b : a < b;
  if (typeof a !== "string" || typeof b !== "string") return false;
  spend(work, Math.min(a.length, b.length));
  return orEqual ? a <= b : a < b;
}

/** `item in container`: an item of a list, a part of a text, a key of an object; nothing is in None. */
export function isIn(item: unknown, container: unknown, work: EvaluationBudget): boolean {
  if (isNone(container)) return false;
  if (Array.isArray(container)) {
    for (let i = 0; i < container.length; i++) if (isEqual(item, own(container, i), work)) return true;
    return false;
  }
  if (typeof container === "object") {
    return typeof item === "string" && !FORBIDDEN.has(item) && Object.hasOwn(container, item);
  }
  if (typeof container !== "string") throw new EvaluationError(`"in" cannot search ${describe(container)}`);
  if (typeof item !== "string" || item.length > container.length) return false;
  if (item.length > MAX_SEARCHED) throw new EvaluationError(`"in" searches for at most ${MAX_SEARCHED} characters`);
  spend(work, container.length);
  return container.includes(item);
}

export function calculate(operator: Arithmetic, a: unknown, b: unknown, work: EvaluationBudget): unknown {
  if (operator === "~") return join(textOf(a, work), textOf(b, work), work);
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

function join(a: string, b: string, work: EvaluationBudget): string {
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
  // Rounded towards minus infinity, and with the sign of the divisor, as in Python.
  if (operator === "//") return Math.floor(a / b);
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

/** `object[start:stop:step]` of a list or a text, with the rules of Python for what is missing, negative or outside. */
export function slice(object: unknown, start: unknown, stop: unknown, step: unknown, work: EvaluationBudget): unknown {
  if (isNone(object)) return object;
  if (typeof object !== "string" && !Array.isArray(object)) {
    throw new EvaluationError(`${describe(object)} has no slices`);
  }
  const by = whole(step, 1);
  if (by === 0) throw new EvaluationError("the step of a slice cannot be 0");
  const { length } = object;
  const bound = (given: unknown, missing: number) => {
    const index = whole(given, missing);
    const [low, high] = by > 0 ? [0, length] : [-1, length - 1];
    return isNone(given) ? missing : Math.min(high, Math.max(low, index < 0 ? index + length : index));
  };
  const [from, to] = [bound(start, by > 0 ? 0 : length - 1), bound(stop, by > 0 ? length : -1)];
  const count = Math.max(0, Math.ceil((to - from) / by));
  spend(work, count * (typeof object === "string" && by !== 1 ? COPIED : 1));
  if (typeof object !== "string") return Array.from({ length: count }, (_, i) => own(object, from + i * by));
  return by === 1 ? object.slice(from, to) : Array.from({ length: count }, (_, i) => object[from + i * by]).join("");
}

function whole(value: unknown, missing: number): number {
  if (isNone(value)) return missing;
  if (!Number.isSafeInteger(value)) throw new EvaluationError("a slice needs whole numbers");
  return value as number;
}

/** A value as text, for `~` and text filters. In a condition None and missing are empty, so that `error | lower` is safe. */
export function textOf(value: unknown, work: EvaluationBudget): string {
  if (typeof value === "string") return value;
  if (isNone(value)) {
    if (work.isStrict) throw new EvaluationError("None has no text; add a default");
    return "";
  }
  if (typeof value === "boolean") return work.isTemplate ? String(value) : value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (work.isTemplate) return jsonText(value, work);
  throw new EvaluationError(`${describe(value)} is not text`);
}

/** As JSON, without spaces. */
export function jsonText(value: unknown, work: EvaluationBudget): string {
  const text = JSON.stringify(plainCopy(value, work)) ?? "null";
  spend(work, text.length);
  return text;
}

/** A deep copy that is plain JSON: what JSON cannot hold is left out of objects, and is null elsewhere. */
export function plainCopy(value: unknown, work: EvaluationBudget): unknown {
  return copyOf(plain(value), work, 0);
}

/** Of a value that `plain` or `own` returned. */
function copyOf(value: unknown, work: EvaluationBudget, depth: number): unknown {
  if (depth > MAX_VALUE_DEPTH) throw new EvaluationError("the values are nested too deep");
  if (typeof value === "string") spend(work, value.length);
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "object" || value === null) return value ?? null;
  if (Array.isArray(value)) {
    spend(work, (value.length + 1) * COPIED);
    const items: unknown[] = [];
    for (let i = 0; i < value.length; i++) items.push(copyOf(own(value, i), work, depth + 1));
    return items;
  }
  const copy: Record<string, unknown> = {};
  spend(work, COPIED);
  for (const key of Object.keys(value)) {
    spend(work, key.length + COPIED_KEY);
    const item = own(value, key);
    if (item !== undefined) put(copy, key, copyOf(item, work, depth + 1));
  }
  return copy;
}

/** Also for the key `__proto__`, which an assignment would not store. */
export function put(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
}

export function describe(value: unknown): string {
  if (isNone(value)) return "None";
  if (Array.isArray(value)) return "a list";
  return { string: "text", number: "a number", boolean: "true or false" }[typeof value as string] ?? "an object";
}

export function countedText(value: unknown, work: EvaluationBudget): string {
  const text = textOf(value, work);
  spend(work, text.length);
  return text;
}
