/** OPAL's seven environment variables, with the defaults of its document, and the policy that follows from them.
 *  Numbers are seconds, as there. A variable that is set to nothing counts as not set. */
import { asInteger, asList, asNumber } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import type { PolicyFields } from "../../core/policy/policy.ts";
import { MAX_COUNT } from "../../core/policy/resolve-backoff.ts";

export interface OpalSettings {
  /** Despite its name the total number of attempts: "total attempts = MAX_RETRIES". */
  readonly maxRetries: number;
  /** Delays before retries. The first is never used: "indexed by attempt", and attempts count from 1. */
  readonly backoffs: readonly number[];
  readonly leaseTtlSecs: number;
  readonly leaseRenewSecs: number;
  readonly reclaimScanEveryLoops: number;
  readonly heartbeatIntervalSecs: number;
  readonly workerTtlSecs: number;
}

export const OPAL_DEFAULTS: OpalSettings = Object.freeze({
  maxRetries: 2,
  backoffs: Object.freeze([3, 8, 15]),
  leaseTtlSecs: 15,
  leaseRenewSecs: 5,
  reclaimScanEveryLoops: 10,
  heartbeatIntervalSecs: 2,
  workerTtlSecs: 10,
});

/** Defaults for OPAL files. */
export interface OpalFileSettings extends Pick<OpalSettings, "maxRetries" | "backoffs"> {
  readonly engine: readonly string[] | null;
}

export const OPAL_FILE_DEFAULTS: OpalFileSettings = {
  engine: null,
  maxRetries: OPAL_DEFAULTS.maxRetries,
  backoffs: OPAL_DEFAULTS.backoffs,
};

export const MAX_SECS = 86_400; // a day: more is probably a wrong unit
const MIN_SECS = 0.1;
/** The limits of a worker: it renews within its lease, and no lease is longer than an hour. */
const MAX_LEASE_SECS = 3_600;
const MIN_LEASE_SECS = 0.3;
export const MAX_BACKOFFS = 100; // the limit of a policy

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads the seven variables from an environment; other names are ignored. */
export function opalSettings(env: Environment): OpalSettings {
  const settings = opalVariables(env);
  checkTogether(settings);
  return settings;
}

/** The same, each checked alone: for a file, in which those of servers and workers have no effect. */
export function opalVariables(env: Environment): OpalSettings {
  const read = <T>(name: string, check: (text: string, name: string) => T, fallback: T): T => {
    const text = env[name]?.trim() ?? "";
    return text === "" ? fallback : check(text, name);
  };
  return {
    maxRetries: read("OPAL_MAX_RETRIES", count(0), OPAL_DEFAULTS.maxRetries),
    backoffs: read("OPAL_RETRY_BACKOFFS", backoffs, OPAL_DEFAULTS.backoffs),
    leaseTtlSecs: read("OPAL_LEASE_TTL_SECS", seconds(MIN_LEASE_SECS, MAX_LEASE_SECS), OPAL_DEFAULTS.leaseTtlSecs),
    leaseRenewSecs: read("OPAL_LEASE_RENEW_SECS", seconds(MIN_SECS, MAX_LEASE_SECS), OPAL_DEFAULTS.leaseRenewSecs),
    reclaimScanEveryLoops: read("OPAL_RECLAIM_SCAN_EVERY_LOOPS", count(1), OPAL_DEFAULTS.reclaimScanEveryLoops),
    heartbeatIntervalSecs: read(
      "OPAL_HEARTBEAT_INTERVAL_SECS",
      seconds(MIN_SECS, MAX_LEASE_SECS),
      OPAL_DEFAULTS.heartbeatIntervalSecs,
    ),
    workerTtlSecs: read("OPAL_WORKER_TTL_SECS", seconds(MIN_SECS, MAX_SECS), OPAL_DEFAULTS.workerTtlSecs),
  };
}

/** Checks the variables against each other. */
export function checkTogether(settings: OpalSettings): void {
  const { leaseRenewSecs, leaseTtlSecs, heartbeatIntervalSecs, workerTtlSecs } = settings;
  // A lease that expires before its renewal is always lost.
  below("OPAL_LEASE_RENEW_SECS", leaseRenewSecs, "OPAL_LEASE_TTL_SECS", leaseTtlSecs);
  below("OPAL_HEARTBEAT_INTERVAL_SECS", heartbeatIntervalSecs, "OPAL_WORKER_TTL_SECS", workerTtlSecs);
}

/** Preset `opal` with these numbers. 0 and 1 both mean one attempt. */
export function opalPolicy({ maxRetries, backoffs }: OpalSettings): PolicyFields {
  return {
    preset: "opal",
    maxAttempts: Math.max(1, maxRetries),
    backoff: { type: "schedule", delays: backoffs.map((secs) => Math.round(secs * 1_000)), offset: 1 },
    workerLost: { charge: "shared" },
  };
}

function count(min: number): (text: string, name: string) => number {
  return (text, name) => asInteger(numberIn(text), name, { min, max: MAX_COUNT });
}

function seconds(min: number, max: number): (text: string, name: string) => number {
  return (text, name) => asNumber(numberIn(text), name, { min, max });
}

/** `[3, 8, 15]` or `3,8,15`. */
function backoffs(text: string, name: string): readonly number[] {
  const list = text.startsWith("[") ? jsonIn(text, name) : text.split(",").map((part) => numberIn(part.trim()));
  return asList(list, name, (secs, path) => asNumber(secs, path, { min: 0, max: MAX_SECS }), MAX_BACKOFFS, 1);
}

function jsonIn(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ConfigError({ path: name, given: text, allowed: "seconds as in [3, 8, 15] or 3,8,15" });
  }
}

/** The number, or the text itself for the error: `Number` alone would take "0x10", "1e3" and "". */
function numberIn(text: string): number | string {
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

function below(name: string, secs: number, limitName: string, limit: number): void {
  if (secs < limit) return;
  // Names both values: either may be a default.
  const problem = `it is ${secs}, and ${limitName} is ${limit}`;
  throw new ConfigError({ path: name, given: secs, problem, allowed: `less than ${limitName}; set both` });
}
