/** The retry of one job, which OPAL's document plans: "Per-job backoff configuration", "Exponential backoff with jitter".
 *
 *    {"max_retries": 3, "backoff": [3, 8, 15]}
 *    {"max_retries": 4, "backoff": {"initial": 1, "factor": 2, "max": 60, "jitter": 0.2}}
 *
 *  Numbers have the meaning of OPAL's variables: `max_retries` counts all attempts, the first included; a list is indexed by the
 *  number of the attempt, so its first entry is used only if it is the only one. Times are in seconds. The server's values apply
 *  where a field is left out. */
import { asInteger, asList, asNumber, asObject, isPlain, reader } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import type { PolicyFields } from "../../core/policy/policy.ts";
import { MAX_COUNT, MAX_FACTOR } from "../../core/policy/resolve-backoff.ts";
import { MAX_BACKOFFS, MAX_SECS, type OpalSettings, opalPolicy } from "./settings.ts";

export interface OpalExponential {
  readonly initial: number;
  readonly factor: number;
  readonly max: number;
  readonly jitter: number;
}

/** Its text is part of the job, so equal retries must have equal text: keys in this order, defaults filled in. */
export interface OpalRetry {
  readonly max_retries?: number;
  readonly backoff?: readonly number[] | OpalExponential;
}

const FIELDS = ["max_retries", "backoff"] as const;
const OF_EXPONENTIAL = ["initial", "factor", "max", "jitter"] as const;
const DEFAULTS: OpalExponential = { initial: 1, factor: 2, max: 60, jitter: 0 };

/** Null if not given. */
export function opalRetry(value: unknown, path: string): OpalRetry | null {
  if (value === undefined || value === null) return null;
  const given = withoutNulls(asObject(value, path, FIELDS));
  const read = reader(given, path);
  const maxRetries = read("max_retries", asAttempts, undefined);
  const backoff = read("backoff", asBackoff, undefined);
  if (maxRetries === undefined && backoff === undefined) return null;
  return {
    ...(maxRetries === undefined ? {} : { max_retries: maxRetries }),
    ...(backoff === undefined ? {} : { backoff }),
  };
}

/** Preset `opal` with the server's numbers, replaced by the job's own where it has some. */
export function opalJobPolicy(settings: OpalSettings, retry: OpalRetry | null): PolicyFields {
  const { max_retries: maxRetries = settings.maxRetries, backoff = settings.backoffs } = retry ?? {};
  if (isSchedule(backoff)) return opalPolicy({ ...settings, maxRetries, backoffs: backoff });
  const { initial, factor, max, jitter } = backoff;
  const times = { initial: Math.round(initial * 1_000), max: Math.round(max * 1_000) };
  return { ...opalPolicy({ ...settings, maxRetries }), backoff: { type: "exponential", ...times, factor, jitter } };
}

/** 0 is one attempt too, as in `OPAL_MAX_RETRIES`. */
function asAttempts(value: unknown, path: string): number {
  return Math.max(1, asInteger(value, path, { min: 0, max: MAX_COUNT }));
}

function asBackoff(value: unknown, path: string): readonly number[] | OpalExponential {
  if (Array.isArray(value)) return asList(value, path, asSeconds, MAX_BACKOFFS, 1);
  if (isPlain(value)) return asExponential(value, path);
  const allowed = `a list of seconds such as [3, 8, 15], or an object with ${OF_EXPONENTIAL.join(", ")}`;
  throw new ConfigError({ path, given: value, allowed });
}

function asExponential(value: object, path: string): OpalExponential {
  const given = withoutNulls(asObject(value, path, OF_EXPONENTIAL));
  const read = reader(given, path);
  const initial = read("initial", asSeconds, DEFAULTS.initial);
  const factor = read("factor", (each, at) => asNumber(each, at, { min: 1, max: MAX_FACTOR }), DEFAULTS.factor);
  const max = read("max", asSeconds, Math.max(DEFAULTS.max, initial));
  const jitter = read("jitter", (each, at) => asNumber(each, at, { min: 0, below: 1 }), DEFAULTS.jitter);
  if (max < initial) {
    const shown = `${max}, and initial is ${initial}`;
    throw new ConfigError({ path: `${path}.max`, given: max, allowed: "at least initial", shown });
  }
  return { initial, factor, max, jitter };
}

function asSeconds(value: unknown, path: string): number {
  return asNumber(value, path, { min: 0, max: MAX_SECS });
}

function isSchedule(backoff: readonly number[] | OpalExponential): backoff is readonly number[] {
  return Array.isArray(backoff);
}

/** Clients send null for missing fields. */
function withoutNulls<T extends object>(fields: T): T {
  const given = Object.entries(fields).filter(([, value]) => value !== null);
  return Object.assign(Object.create(null), Object.fromEntries(given)) as T;
}
