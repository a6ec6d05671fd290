/** Resolves the backoff of a submit to the one that is stored. Fields that are not given come from the backoff that it
 *  replaces, if the type is the same. Another type starts without jitter, floor and immediate retries, and exponential with
 *  the initial delay, factor and cap of preset `default`. */
import { asBoolean, asInteger, asList, asNumber, asObject, asOneOf, type Fields, fieldPath, reader } from "../check.ts";
import { showMs, toMs } from "../duration.ts";
import { ConfigError, show } from "../errors.ts";
import type { Backoff } from "./policy.ts";
import { DEFAULT_BACKOFF } from "./presets.ts";

/** The limit of every count in a policy: one attempt every 32 s for a year. */
export const MAX_COUNT = 1_000_000;
const MAX_DELAYS = 100;
/** Reaches any cap from a millisecond in a few steps; more is a mistake of units. */
export const MAX_FACTOR = 1_000;

const TYPES = ["exponential", "schedule", "fixed", "none"] as const;
const COMMON = ["max", "jitter", "min", "immediate", "clampAfterJitter"] as const;
const FIELDS = {
  exponential: ["type", "initial", "factor", ...COMMON],
  schedule: ["type", "delays", "offset", ...COMMON],
  fixed: ["type", "delay", ...COMMON],
  none: ["type"],
} as const;
type BackoffField = (typeof FIELDS)[Backoff["type"]][number];
const ALL: readonly BackoffField[] = [...new Set(TYPES.flatMap((type): readonly BackoffField[] => FIELDS[type]))];

export interface BackoffContext {
  readonly base: Backoff;
  /** The ratio that `jitter: true` means. */
  readonly fullJitter: number;
}

export function resolveBackoff(value: unknown, path: string, { base, fullJitter }: BackoffContext): Backoff {
  const fields = asObject(value, path, ALL);
  const type = typeOf(fields, path, base);
  if (type === "none") return { type };

  const read = reader(fields, path);
  const same = base.type === type ? base : null;
  const minMs = read("min", toMs, same?.minMs ?? 0);
  const common = {
    jitter: read("jitter", (given, at) => resolveJitter(given, at, fullJitter), same?.jitter ?? 0),
    minMs,
    immediate: read("immediate", (given, at) => asInteger(given, at, { min: 0, max: MAX_COUNT }), same?.immediate ?? 0),
    clampAfterJitter: read("clampAfterJitter", asBoolean, same?.clampAfterJitter ?? false),
  };
  const cap = (fallback: number) => read("max", (given, at) => capFrom(given, at, minMs), Math.max(fallback, minMs));

  switch (type) {
    case "exponential": {
      const from = base.type === type ? base : DEFAULT_BACKOFF;
      const initialMs = read("initial", toMs, from.initialMs);
      const factor = read("factor", (given, at) => asNumber(given, at, { min: 1, max: MAX_FACTOR }), from.factor);
      // The cap of the base must not shorten a given `initial`; a given cap may.
      const maxMs = cap(fields.initial === undefined ? from.maxMs : Math.max(from.maxMs, initialMs));
      return { type, initialMs, factor, maxMs, ...common };
    }
    case "schedule": {
      const from = base.type === type ? base : null;
      const delaysMs = required(fields, "delays", path, from?.delaysMs, (given, at) =>
        asList(given, at, toMs, MAX_DELAYS, 1),
      );
      const offset = read(
        "offset",
        (given, at) => asInteger(given, at, { min: 0, max: MAX_DELAYS }),
        from?.offset ?? 0,
      );
      // The default cap is the longest delay.
      const maxMs = cap(from !== null && fields.delays === undefined ? from.maxMs : Math.max(...delaysMs));
      return { type, delaysMs, offset, maxMs, ...common };
    }
    case "fixed": {
      const from = base.type === type ? base : null;
      const delayMs = required(fields, "delay", path, from?.delayMs, toMs);
      const maxMs = cap(from !== null && fields.delay === undefined ? from.maxMs : delayMs);
      return { type, delayMs, maxMs, ...common };
    }
  }
}

/** The given type; else that of the base if it has every given field, else exponential. */
function typeOf(fields: Fields<BackoffField>, path: string, base: Backoff): Backoff["type"] {
  const given = ALL.filter((field) => fields[field] !== undefined);
  const fits = (type: Backoff["type"]) => given.every((field) => belongs(field, type));
  const implied = fits(base.type) ? base.type : "exponential";
  const type = fields.type === undefined ? implied : asOneOf(fields.type, TYPES, fieldPath(path, "type"));

  const stray = given.find((field) => !belongs(field, type));
  if (stray !== undefined) {
    const types = TYPES.filter((each) => belongs(stray, each))
      .map(show)
      .join(" or ");
    throw new ConfigError({
      path: fieldPath(path, stray),
      given: fields[stray],
      problem: `requires type ${types}`,
      fix: `type ${show(type)} has only ${FIELDS[type].join(", ")}`,
    });
  }
  return type;
}

function belongs(field: BackoffField, type: Backoff["type"]): boolean {
  return (FIELDS[type] as readonly BackoffField[]).includes(field);
}

function required<T>(
  fields: Fields<BackoffField>,
  field: BackoffField,
  path: string,
  inherited: T | undefined,
  check: (value: unknown, path: string) => T,
): T {
  const value = fields[field];
  return value === undefined && inherited !== undefined ? inherited : check(value, fieldPath(path, field));
}

function resolveJitter(value: unknown, path: string, fullJitter: number): number {
  if (typeof value === "boolean") return value ? fullJitter : 0;
  if (typeof value !== "number" || !(value >= 0 && value < 1)) {
    throw new ConfigError({ path, given: value, allowed: "a number from 0 to below 1, true or false" });
  }
  return value;
}

/** The cap must not be below the floor. */
function capFrom(value: unknown, path: string, minMs: number): number {
  const ms = toMs(value, path);
  if (ms < minMs) throw new ConfigError({ path, given: value, allowed: `at least min, which is ${showMs(minMs)}` });
  return ms;
}
