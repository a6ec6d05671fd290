/** The presets: the default, and the documented values of five other systems. A preset is data; no code of the core depends on
 *  its name. The names are public and stored in policies, and a redrive resolves them again, so the table is here and not with
 *  the dialects. Each preset is a complete policy, so a stored policy does not depend on the version that resolved it. `default`
 *  does not retry failures (a task must opt in to run twice), but retries a hundred times after lost workers. */
import { deepFreeze } from "../check.ts";
import type { Backoff, Policy, PresetName, Rule, RuleCondition, WorkerLostPolicy } from "./policy.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Doubles the delay each time, without a floor. */
function doubling(initialMs: number, maxMs: number, jitter: number): Extract<Backoff, { type: "exponential" }> {
  return { type: "exponential", initialMs, factor: 2, maxMs, jitter, minMs: 0, immediate: 0, clampAfterJitter: false };
}

/** Also the base of an exponential backoff where the preset has another type. */
export const DEFAULT_BACKOFF = doubling(SECOND, MINUTE, 0.2);

/** A condition without fields, the base of every rule. */
export const ANY: RuleCondition = {
  kind: null,
  exitCode: null,
  signal: null,
  error: null,
  message: null,
  status: null,
  attempt: null,
};

function rule(condition: Partial<RuleCondition>, verdict: Rule["then"]): Rule {
  // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
  return { if: { ...ANY, ...condition }, then: verdict, maxRetries: null, backoff: null };
}

/** Losses count against `maxAttempts` and use the main backoff. The other two fields are not used; `resolvePolicy` writes the
 *  same values, so that equal policies have equal text. */
export const SHARED_LOSS: WorkerLostPolicy = {
  charge: "shared",
  maxRetries: 0,
  backoff: { type: "none" },
  poison: null,
};

const DEFAULT: Policy = {
  preset: "default",
  maxAttempts: 1,
  backoff: DEFAULT_BACKOFF,
  maxElapsedMs: null,
  maxDefers: 1_000,
  honourRetryAfter: true,
  retryAfterMaxMs: HOUR,
  retryOnExitCodes: [],
  noRetryOnExitCodes: [],
  retryOn: [],
  noRetryOn: [],
  retryWhen: null,
  stopWhen: null,
  rules: [],
  // 4xx, except those that suggest a retry: 408 Request Timeout, 425 Too Early, 429 Too Many Requests.
  fallback: [
    rule(
      {
        kind: ["http"],
        status: [
          [400, 407],
          [409, 424],
          [426, 428],
          [430, 499],
        ],
      },
      "fail",
    ),
  ],
  onTimeout: "retry",
  onUnknown: "retry",
  workerLost: {
    charge: "own",
    maxRetries: 100,
    // Immediately the first time; then with a delay, so that jobs lost together are not retried together.
    backoff: { ...doubling(SECOND, 30 * SECOND, 0.2), immediate: 1 },
    poison: { losses: 3, withinMs: 30 * SECOND },
  },
  budget: { tokens: null, costUsd: null },
};

/** Failures that a command reports: in its result.json, or by its exit and the last line of stderr. */
const REPORTED = ["result", "exit", "signal"] as const;

/** None of the five systems has `Retry-After`, our fallback rules or the poison guard. */
const SOURCE: Policy = { ...DEFAULT, honourRetryAfter: false, fallback: [], workerLost: SHARED_LOSS };

/** The presets by name.
 *  @example
 *  console.log(presets.agent.maxAttempts, presets.agent.backoff); */
export const presets: Readonly<Record<PresetName, Policy>> = deepFreeze({
  default: DEFAULT,

  // `MAX_RETRIES` 2 means two attempts. Slot 0 of the schedule is never used: 8 s, then 15 s. An engine error is final; a
  // lost worker and a worker out of memory (killed, or reported) are retried.
  opal: {
    ...SOURCE,
    preset: "opal",
    maxAttempts: 2,
    backoff: {
      type: "schedule",
      delaysMs: [3 * SECOND, 8 * SECOND, 15 * SECOND],
      offset: 1,
      maxMs: 15 * SECOND,
      jitter: 0,
      minMs: 0,
      immediate: 0,
      clampAfterJitter: false,
    },
    fallback: [
      rule({ kind: ["oom"] }, "retry"),
      rule({ kind: REPORTED, words: ["invalid_input"] }, "fail"),
      rule({ kind: REPORTED, words: ["worker_oom"] }, "retry"),
    ],
    onTimeout: "fail",
    onUnknown: "fail",
  },

  // `max_retries_failure` 0 means one attempt; 100 preemptions do not count and are retried immediately. A queue timeout is
  // final (UNSCHEDULABLE).
  fluster: {
    ...SOURCE,
    preset: "fluster",
    backoff: doubling(SECOND, MINUTE, 0),
    fallback: [rule({ kind: ["queue_timeout"] }, "fail")],
    workerLost: { charge: "own", maxRetries: 100, backoff: { type: "none" }, poison: null },
  },

  noetl: { ...SOURCE, preset: "noetl", maxAttempts: 3, backoff: doubling(SECOND, MINUTE, 0) },

  // Unclassified errors are final. `noRetryOn` wins, as Attune documents, though its code does not do so.
  attune: {
    ...SOURCE,
    preset: "attune",
    backoff: doubling(SECOND, 5 * MINUTE, 0.2),
    retryOn: [
      "worker queue ttl expired",
      "worker did not pick up task",
      "worker unavailable",
      "heartbeat ... stale",
      "timeout",
      "timed out",
      "transient",
      "temporary",
      "temporarily",
      "connection refused",
      "connection reset",
      "econnrefused",
      "econnreset",
      "etimedout",
    ],
    noRetryOn: ["validation", "permission denied", "not found", "invalid parameter"],
    onUnknown: "fail",
  },

  // Every failure is transient, except those that the agent reports, and a refused key.
  agent: {
    ...SOURCE,
    preset: "agent",
    backoff: { ...doubling(30 * SECOND, 5 * MINUTE, 0.25), minMs: SECOND },
    fallback: [
      rule(
        {
          kind: ["http"],
          status: [
            [401, 401],
            [403, 403],
          ],
        },
        "fail",
      ),
      // Not for a killed program, which may have continued after a refusal that it printed.
      rule({ kind: ["exit", "error", "http"], lines: "authentication-failed-1" }, "fail"),
    ],
  },
} satisfies Record<PresetName, Policy>);

/** What `jitter: true` means for a preset without jitter. NoETL's is a factor of 0.5 to 1.5. */
export const FULL_JITTER: Readonly<Partial<Record<PresetName, number>>> = { noetl: 0.5 };

export const PRESET_NAMES = Object.keys(presets) as readonly PresetName[];
