/** Checks of values that people write, such as policies and options. Each helper returns the value in its checked type, or
 *  throws a `ConfigError` with the path of the field. Only own enumerable fields are read, never those of a prototype. */
import { ConfigError, show } from "./errors.ts";

/** Bounds of a number; `min` and `max` are inclusive. */
interface Bounds {
  readonly min?: number;
  readonly max?: number;
  readonly below?: number;
}

/** The fields of an object, by name; `undefined` counts as not given. */
export type Fields<K extends string> = { readonly [P in K]?: unknown };

/** The known name closest to a misspelt one, if it is at most 2 edits away, or a third of its length. */
export function nearest(given: string, known: readonly string[]): string | null {
  const misspelt = given.toLowerCase();
  let best: string | null = null;
  let bestDistance = Math.max(2, Math.round(misspelt.length / 3)) + 1;
  for (const name of known) {
    // The lengths alone rule out most names, and bound the work on a very long one.
    if (Math.abs(name.length - misspelt.length) >= bestDistance) continue;
    const distance = editDistance(misspelt, name.toLowerCase());
    // Two words without a common letter are not near, however short they are.
    if (distance < bestDistance && distance < Math.min(name.length, misspelt.length)) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** The number of letters to add, remove, replace or swap with a neighbour to turn one word into the other. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = at(row, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = swapped ? at(before, j - 2) + 1 : Infinity;
      next.push(Math.min(replace, swap, at(row, j) + 1, at(next, j - 1) + 1));
    }
    before = row;
    row = next;
  }
  return at(row, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] as number;
}

/** The path of a field: `retry.backoff`, or `retry["a b"]` for a name that is not an identifier. */
export function fieldPath(path: string, key: string): string {
  if (!/^[A-Za-z_$][\w$]*$/.test(key)) return `${path}[${show(key)}]`;
  return path === "" ? key : `${path}.${key}`;
}

/** Refuses unknown fields. */
export function checkKeys(value: object, known: readonly string[], path: string): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue;
    throw new ConfigError({
      path: fieldPath(path, key),
      given: key,
      allowed: known.join(", "),
      nearest: nearest(key, known),
      problem: `unknown field ${show(key)}`,
      fix: known.length === 0 ? "there are no fields" : `known fields: ${known.join(", ")}`,
    });
  }
}

/** A copy of a plain object, without a prototype; with `known`, other fields are refused. */
export function asObject<K extends string>(value: unknown, path: string, known?: readonly K[]): Fields<K> {
  if (!isPlain(value)) {
    throw new ConfigError({ path, given: value, allowed: known ? `an object with ${known.join(", ")}` : "an object" });
  }
  if (known) checkKeys(value, known, path);
  return Object.assign(Object.create(null), value) as Fields<K>;
}

/** Checks an object of options without copying it. */
export function checkOptions(options: object, known: readonly string[], path: string): void {
  if (!isPlain(options)) throw new ConfigError({ path, given: options, allowed: "an object of options" });
  checkKeys(options, known, path);
}

/** Not for a Map, a Date or an instance of a class, which have no own fields to read. */
export function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Not by identity with Object.prototype, so that objects of another realm (vm, tests) pass.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** `read("max", toMs, 60_000)` checks the field, or returns the fallback if it was not given. */
export function reader<K extends string>(fields: Fields<K>, path: string) {
  return <T, F>(key: K, check: (value: unknown, path: string) => T, fallback: F): T | F => {
    const value = fields[key];
    return value === undefined ? fallback : check(value, fieldPath(path, key));
  };
}

export function asNumber(value: unknown, path: string, bounds: Bounds = {}): number {
  if (typeof value !== "number" || !Number.isFinite(value) || !within(value, bounds)) {
    throw new ConfigError({ path, given: value, allowed: `a number${showBounds(bounds)}` });
  }
  return value + 0; // -0 becomes 0, as in JSON
}

export function asInteger(value: unknown, path: string, bounds: Bounds = {}): number {
  if (!Number.isSafeInteger(value) || !within(value as number, bounds)) {
    throw new ConfigError({ path, given: value, allowed: `a whole number${showBounds(bounds)}` });
  }
  return (value as number) + 0;
}

function within(value: number, { min = -Infinity, max = Infinity, below = Infinity }: Bounds): boolean {
  return value >= min && value <= max && value < below;
}

function showBounds({ min, max, below }: Bounds): string {
  const most = max === undefined ? below && `below ${below}` : `${max}`;
  if (min === undefined) return most === undefined ? "" : max === undefined ? ` ${most}` : ` of at most ${most}`;
  return most === undefined ? ` of at least ${min}` : ` from ${min} to ${most}`;
}

export function asBoolean(value: unknown, path: string): boolean {
  if (typeof value !== "boolean") throw new ConfigError({ path, given: value, allowed: "true or false" });
  return value;
}

/** Text that is not blank. */
export function asText(value: unknown, path: string, maxLength: number): string {
  if (typeof value !== "string" || value.length > maxLength || value.trim() === "" || value.includes("\0")) {
    const allowed = `text of 1 to ${maxLength} characters, not only spaces, without NUL`;
    throw new ConfigError({ path, given: value, allowed });
  }
  return value;
}

export function asOneOf<T extends string>(value: unknown, list: readonly T[], path: string): T {
  const found = list.find((item) => item === value);
  if (found !== undefined) return found;
  const near = typeof value === "string" ? nearest(value, list) : null;
  throw new ConfigError({ path, given: value, allowed: oneOf(list), nearest: near });
}

/** `"retry" or "fail"`, `one of "a", "b", "c"`, for what must be one of them. */
function oneOf(list: readonly string[]): string {
  const items = list.map((item) => `"${item}"`);
  return items.length < 3 ? items.join(" or ") : `one of ${items.join(", ")}`;
}

/** A list, each item checked under its own path (`retry.rules[2]`). */
export function asList<T>(
  value: unknown,
  path: string,
  item: (value: unknown, path: string) => T,
  maxItems: number,
  minItems = 0,
): T[] {
  if (!Array.isArray(value) || value.length > maxItems || value.length < minItems) {
    const shown = Array.isArray(value) ? `a list of ${value.length}` : show(value);
    throw new ConfigError({ path, given: value, allowed: `a list of ${minItems} to ${maxItems} items`, shown });
  }
  // Array.from also visits holes, which `map` would leave as holes.
  return Array.from(value, (each: unknown, index) => item(each, `${path}[${index}]`));
}

/** Freezes plain data deeply. Objects of a caller must be copied first. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}

/** The type without `readonly`, for an object under construction. */
export type Mutable<T> = { -readonly [K in keyof T]: T[K] };
