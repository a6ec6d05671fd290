/** fluster's `RetryConfig` as a policy, and back. It has two forms: that of its proto, in milliseconds, and that of its client,
 *  in seconds. Both are accepted, but not both for one value.
 *
 *  Each field has its own default. fluster's own code reads a missing config as all zeros, and then retries no preemption. */
import { asInteger, asList, asNumber, asObject, type Fields, fieldPath, reader } from "../../core/check.ts";
import { MAX_DURATION_MS } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import type { Policy, PolicyFields } from "../../core/policy/policy.ts";
import { MAX_COUNT } from "../../core/policy/resolve-backoff.ts";
import { noteCap } from "../shared.ts";
import type { FlusterSettings } from "./settings.ts";

/** As written in TypeScript and in YAML. */
export interface FlusterRetryConfig {
  /** After failures of the job; 0 is one attempt. Default: 0. */
  readonly max_retries_failure?: number;
  /** After lost workers. Default: 100. */
  readonly max_retries_preemption?: number;
  /** Seconds. Default: 1. */
  readonly initial_delay?: number;
  /** Seconds. Default: 60. */
  readonly max_delay?: number;
  readonly initial_retry_delay_ms?: number;
  readonly max_retry_delay_ms?: number;
  /** Default: 2. */
  readonly backoff_multiplier?: number;
  /** Only these are retried; empty: all except 0. */
  readonly retry_on_exit_codes?: readonly number[];
  /** Takes precedence over the list above. */
  readonly no_retry_on_exit_codes?: readonly number[];
}

export const FLUSTER_RETRY_FIELDS = [
  "max_retries_failure",
  "max_retries_preemption",
  "initial_delay",
  "max_delay",
  "initial_retry_delay_ms",
  "max_retry_delay_ms",
  "backoff_multiplier",
  "retry_on_exit_codes",
  "no_retry_on_exit_codes",
] as const satisfies readonly (keyof FlusterRetryConfig)[];
type FlusterRetryField = (typeof FLUSTER_RETRY_FIELDS)[number];

const DEFAULT_MAX_DELAY_MS = 60_000;
const DEFAULT_MULTIPLIER = 2;
const MAX_MULTIPLIER = 1_000;
const MAX_CODES = 100;

/** `undefined` and null mean an empty config: `retry=None`. Adds to `notes` what may surprise the author. */
export function flusterPolicy(
  value: unknown,
  path: string,
  settings: FlusterSettings,
  notes: string[] = [],
): PolicyFields {
  const fields = asObject(value ?? {}, path, FLUSTER_RETRY_FIELDS);
  const read = reader(fields, path);
  const count = (max: number) => (given: unknown, at: string) => asInteger(given, at, { min: 0, max });
  // Attempts are one more than retries, and the limit is on attempts.
  const retries = read("max_retries_failure", count(MAX_COUNT - 1), settings.defaultMaxRetriesFailure);
  const preemptions = read("max_retries_preemption", count(MAX_COUNT), settings.defaultMaxRetriesPreemption);
  const initial = delayMs(fields, path, "initial_retry_delay_ms", "initial_delay") ?? settings.defaultRetryDelayMs;
  const max = delayMs(fields, path, "max_retry_delay_ms", "max_delay") ?? DEFAULT_MAX_DELAY_MS;
  const factor = read(
    "backoff_multiplier",
    (given, at) => asNumber(given, at, { min: 1, max: MAX_MULTIPLIER }),
    DEFAULT_MULTIPLIER,
  );
  const allowed: readonly number[] = read("retry_on_exit_codes", asExitCodes, []);
  const denied: readonly number[] = read("no_retry_on_exit_codes", asExitCodes, []);
  noteCap({ path, field: initialWords(fields, initial), initialMs: initial, capMs: max, attempts: retries + 1 }, notes);
  noteZero(allowed, fieldPath(path, "retry_on_exit_codes"), notes);
  noteZero(denied, fieldPath(path, "no_retry_on_exit_codes"), notes);
  return {
    preset: "fluster",
    maxAttempts: retries + 1,
    backoff: { type: "exponential", initial, factor, max, jitter: 0 },
    ...(allowed.length === 0 ? {} : { retryOnExitCodes: allowed }),
    ...(denied.length === 0 ? {} : { noRetryOnExitCodes: denied }),
    // Preemption is "free": its own budget, and no delay.
    workerLost: { charge: "own", maxRetries: preemptions, backoff: { type: "none" } },
  };
}

function noteZero(codes: readonly number[], path: string, notes: string[]): void {
  if (codes.includes(0)) notes.push(`${path} has 0, the exit code of success: it has no effect.`);
}

/** The first delay, in the form in which it was given. */
function initialWords({ initial_delay, initial_retry_delay_ms }: Fields<FlusterRetryField>, initialMs: number): string {
  if (initial_retry_delay_ms !== undefined) return `initial_retry_delay_ms is ${initialMs}`;
  return initial_delay === undefined ? `the default delay is ${initialMs} ms` : `initial_delay is ${initialMs / 1_000}`;
}

/** A delay in one of its two forms, or null. */
function delayMs(
  fields: Fields<FlusterRetryField>,
  path: string,
  inMs: FlusterRetryField,
  inSeconds: FlusterRetryField,
): number | null {
  const read = reader(fields, path);
  if (fields[inMs] !== undefined && fields[inSeconds] !== undefined) {
    const problem = `${inMs} and ${inSeconds} are two forms of one value`;
    throw new ConfigError({
      path: fieldPath(path, inSeconds),
      given: fields[inSeconds],
      allowed: "one of them",
      problem,
    });
  }
  const seconds = read(
    inSeconds,
    (given, at) => asNumber(given, at, { min: 0, max: MAX_DURATION_MS / 1_000 }) * 1_000,
    null,
  );
  if (seconds !== null) return Math.round(seconds);
  return read(inMs, (given, at) => asInteger(given, at, { min: 0, max: MAX_DURATION_MS }), null);
}

function asExitCodes(value: unknown, path: string): number[] {
  return asList(value, path, (code, at) => asInteger(code, at, { min: 0, max: 255 }), MAX_CODES);
}

export interface FlusterRetryEcho {
  readonly max_retries_failure: number;
  readonly max_retries_preemption: number;
}

/** A policy with any preset in fluster's numbers, for its status. */
export function flusterEcho({ maxAttempts, workerLost }: Policy): FlusterRetryEcho {
  const retries = maxAttempts - 1;
  return {
    max_retries_failure: retries,
    // If losses share the job's attempts, that many may be preempted.
    max_retries_preemption: workerLost.charge === "shared" ? retries : workerLost.maxRetries,
  };
}
