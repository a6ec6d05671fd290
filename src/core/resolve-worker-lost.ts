/** What follows a lost worker, field by field over the preset's. Losses either have a budget and a backoff of their own
 *  or share the job's; the guard against poison stands beside both. */
import { asInteger, asObject, asOneOf, fieldPath, reader } from "./check.ts";
import { toMs } from "./duration.ts";
import { ConfigError } from "./errors.ts";
import type { WorkerLostPolicy } from "./policy.ts";
import { presets, SHARED_LOSS } from "./presets.ts";
import { MAX_COUNT, resolveBackoff } from "./resolve-backoff.ts";

const FIELDS = ["charge", "maxRetries", "backoff", "poison"] as const;
const CHARGES = ["own", "shared"] as const;
const POISON_FIELDS = ["losses", "within"] as const;
const MAX_POISON_LOSSES = 1_000;

type Poison = NonNullable<WorkerLostPolicy["poison"]>;
const DEFAULT_POISON = presets.default.workerLost.poison as Poison;

/** A budget of its own where the preset has none: that of `default`, without its guard. */
export function ownLoss(base: WorkerLostPolicy): WorkerLostPolicy {
  return base.charge === "own" ? base : { ...presets.default.workerLost, poison: base.poison };
}

export function resolveWorkerLost(
  value: unknown,
  path: string,
  base: WorkerLostPolicy,
  fullJitter: number,
): WorkerLostPolicy {
  const fields = asObject(value, path, FIELDS);
  const read = reader(fields, path);
  const charge = read("charge", (given, at) => asOneOf(given, CHARGES, at), base.charge);
  const poison = read("poison", (given, at) => resolvePoison(given, at, base.poison), base.poison);

  if (charge === "shared") {
    for (const field of ["maxRetries", "backoff"] as const) {
      if (fields[field] === undefined) continue;
      const problem = `"${field}" says nothing where losses share the job's budget and backoff`;
      const allowed = 'no such field, or charge "own"';
      throw new ConfigError({ path: fieldPath(path, field), given: fields[field], allowed, problem });
    }
    return { ...SHARED_LOSS, poison };
  }

  const own = ownLoss(base);
  const context = { base: own.backoff, fullJitter };
  return {
    charge,
    maxRetries: read("maxRetries", (given, at) => asInteger(given, at, { min: 0, max: MAX_COUNT }), own.maxRetries),
    backoff: read("backoff", (given, at) => resolveBackoff(given, at, context), own.backoff),
    poison,
  };
}

/** `false` takes the guard away; fields not given come from the preset's guard, or from that of `default`. */
function resolvePoison(value: unknown, path: string, base: Poison | null): Poison | null {
  if (value === false) return null;
  if (typeof value !== "object" || value === null) {
    throw new ConfigError({ path, given: value, allowed: `false, or an object with ${POISON_FIELDS.join(", ")}` });
  }
  const read = reader(asObject(value, path, POISON_FIELDS), path);
  const { losses, withinMs } = base ?? DEFAULT_POISON;
  return {
    losses: read("losses", (given, at) => asInteger(given, at, { min: 1, max: MAX_POISON_LOSSES }), losses),
    withinMs: read("within", toMs, withinMs),
  };
}
