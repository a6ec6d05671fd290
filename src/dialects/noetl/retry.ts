/** NoETL's `retry`: true, a number of attempts, or an object, in seconds. `true` means the documented defaults; missing fields have
 *  theirs; absent or false means no retry. `max_attempts` counts attempts, the first included.
 *
 *  A condition may use `node_id`, the name of the step. The engine has no steps, so the name is inserted into the condition
 *  here: it never changes within one job. */
import { asBoolean, asInteger, asNumber, asObject, fieldPath, reader } from "../../core/check.ts";
import { MAX_DURATION_MS } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import { parseCondition } from "../../core/expression/expression.ts";
import type { Policy, PolicyFields } from "../../core/policy/policy.ts";
import { MAX_COUNT } from "../../core/policy/resolve-backoff.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";

/** All fields, as it is shown. */
export interface NoetlRetry {
  readonly max_attempts: number;
  readonly initial_delay: number;
  readonly backoff_multiplier: number;
  readonly max_delay: number;
  readonly jitter: boolean;
  readonly retry_when: string | null;
  readonly stop_when: string | null;
}

export const RETRY_DEFAULTS: NoetlRetry = {
  max_attempts: 3,
  initial_delay: 1,
  backoff_multiplier: 2,
  max_delay: 60,
  jitter: true,
  retry_when: null,
  stop_when: null,
};

const FIELDS = Object.keys(RETRY_DEFAULTS) as (keyof NoetlRetry)[];
const MAX_SECONDS = MAX_DURATION_MS / 1_000;
const MAX_MULTIPLIER = 1_000;

/** The retries of a task; null for none. */
export function readNoetlRetry(value: unknown, path: string): NoetlRetry | null {
  if (value === undefined || value === null || value === false) return null;
  if (value === true) return RETRY_DEFAULTS;
  if (typeof value === "number") return { ...RETRY_DEFAULTS, max_attempts: asAttempts(value, path) };
  if (typeof value !== "object") {
    throw new ConfigError({
      path,
      given: value,
      allowed: `true, a number of attempts, or an object with ${FIELDS.join(", ")}`,
    });
  }
  const read = reader(asObject(value, path, FIELDS), path);
  return {
    max_attempts: read("max_attempts", asAttempts, RETRY_DEFAULTS.max_attempts),
    initial_delay: read("initial_delay", asSeconds, RETRY_DEFAULTS.initial_delay),
    backoff_multiplier: read("backoff_multiplier", asMultiplier, RETRY_DEFAULTS.backoff_multiplier),
    max_delay: read("max_delay", asSeconds, RETRY_DEFAULTS.max_delay),
    jitter: read("jitter", asBoolean, RETRY_DEFAULTS.jitter),
    retry_when: read("retry_when", asCondition, null),
    stop_when: read("stop_when", asCondition, null),
  };
}

/** The policy. Without retries it is one attempt. */
export function noetlPolicy(retry: NoetlRetry | null, step: string, path: string): PolicyFields {
  if (retry === null) return checked({ preset: "noetl", maxAttempts: 1 }, path);
  const { max_attempts, initial_delay, backoff_multiplier, max_delay, jitter, retry_when, stop_when } = retry;
  const policy: PolicyFields = {
    preset: "noetl",
    maxAttempts: max_attempts,
    backoff: {
      type: "exponential",
      initial: initial_delay * 1_000,
      factor: backoff_multiplier,
      max: max_delay * 1_000,
      jitter,
    },
  };
  if (retry_when !== null) policy.retryWhen = withNode(retry_when, step, fieldPath(path, "retry_when"));
  if (stop_when !== null) policy.stopWhen = withNode(stop_when, step, fieldPath(path, "stop_when"));
  return checked(policy, path);
}

/** A policy in NoETL's fields, as far as they exist; null for a single attempt. */
export function retryOfPolicy({ maxAttempts, backoff, retryWhen, stopWhen }: Policy): Partial<NoetlRetry> | null {
  if (maxAttempts === 1) return null;
  const delays =
    backoff.type !== "exponential"
      ? {}
      : {
          initial_delay: backoff.initialMs / 1_000,
          backoff_multiplier: backoff.factor,
          max_delay: backoff.maxMs / 1_000,
          jitter: backoff.jitter > 0,
        };
  return { max_attempts: maxAttempts, ...delays, retry_when: retryWhen, stop_when: stopWhen };
}

function checked(policy: PolicyFields, path: string): PolicyFields {
  resolvePolicy(policy, path);
  return policy;
}

function asAttempts(value: unknown, path: string): number {
  return asInteger(value, path, { min: 1, max: MAX_COUNT });
}

function asSeconds(value: unknown, path: string): number {
  return asNumber(value, path, { min: 0, max: MAX_SECONDS });
}

function asMultiplier(value: unknown, path: string): number {
  return asNumber(value, path, { min: 1, max: MAX_MULTIPLIER });
}

function asCondition(value: unknown, path: string): string {
  if (typeof value !== "string") throw new ConfigError({ path, given: value, allowed: "a condition as text" });
  return parseCondition(value, path).source;
}

/** Texts, and members such as `data.node_id`, are skipped. The condition is valid, so any other occurrence is the name. */
const NODE_ID = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\.\s*node_id\b|\b(?<name>node_id)\b/gs;

function withNode(condition: string, step: string, path: string): string {
  const text = `'${step.replace(/[\\']/g, "\\$&")}'`;
  const bound = condition.replace(NODE_ID, (found) => (found === "node_id" ? text : found));
  parseCondition(bound, path); // a long name may exceed the limit of a condition
  return bound;
}
