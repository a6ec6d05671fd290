/** Retry policies. `PolicyInput` is what people write; `Policy` is what is stored and used, with every field, durations in
 *  milliseconds, and frozen. `resolvePolicy` turns one into the other. */

import type { FailureKind } from "../decision/failure.ts";
import type { Duration } from "../duration.ts";

/** A policy to start from.
 *  @example
 *  const preset: PresetName = "agent";
 *  await perdure.submit(resize, { url }, { retry: { preset } }); */
export type PresetName = "default" | "opal" | "fluster" | "noetl" | "attune" | "agent";

/** Fields of all backoffs: `jitter` is a ratio below 1, `min` a floor after jitter, `immediate` the number of first retries without
 *  a delay; with `clampAfterJitter`, `max` applies after jitter too. */
export interface BackoffCommon {
  readonly jitter: number;
  readonly minMs: number;
  readonly immediate: number;
  readonly clampAfterJitter: boolean;
}
/** The stored backoff: every field, in milliseconds.
 *  @example
 *  const backoff: Backoff = resolvePolicy({ maxAttempts: 3, backoff: { initial: "1s" } }).backoff; */
export type Backoff =
  | (BackoffCommon & {
      readonly type: "exponential";
      readonly initialMs: number;
      readonly factor: number;
      readonly maxMs: number;
    })
  | (BackoffCommon & {
      readonly type: "schedule";
      readonly delaysMs: readonly number[];
      readonly offset: number;
      readonly maxMs: number;
    })
  | (BackoffCommon & { readonly type: "fixed"; readonly delayMs: number; readonly maxMs: number })
  | { readonly type: "none" };

/** All given fields must match, each by any item of its list. `message` parts are case-insensitive; ` ... ` in one matches words in
 *  between, as in `retryOn` and `noRetryOn`. */
export interface RuleCondition {
  readonly kind: readonly FailureKind[] | null;
  readonly exitCode: readonly number[] | null;
  readonly signal: readonly string[] | null;
  readonly error: readonly string[] | null;
  readonly message: readonly string[] | null;
  /** Inclusive ranges of HTTP statuses. */
  readonly status: readonly (readonly [number, number])[] | null;
  readonly attempt: readonly number[] | null;
  /** The name of a list of phrases (`phrase-lists.ts`) for the message and the last lines of stderr. Only in rules of presets. */
  readonly lines?: string;
  /** Whole words in lower case, in the message or the code. Only in rules of presets. */
  readonly words?: readonly string[];
}

/** A stored rule of a policy.
 *  @example
 *  const rules: readonly Rule[] = resolvePolicy({ rules: [{ if: { status: 429 }, then: "defer" }] }).rules; */
export interface Rule {
  readonly if: RuleCondition;
  readonly then: "retry" | "fail" | "defer";
  /** With it, matches of the rule count against this limit and not against `maxAttempts`. */
  readonly maxRetries: number | null;
  readonly backoff: Backoff | null;
}

export interface WorkerLostPolicy {
  /** own: losses count against `maxRetries` and have their own backoff. shared: they count against `maxAttempts` and use the main
   *  backoff. */
  readonly charge: "own" | "shared";
  readonly maxRetries: number;
  readonly backoff: Backoff;
  readonly poison: { readonly losses: number; readonly withinMs: number } | null;
}

/** A stored policy: every field, durations in milliseconds.
 *  @example
 *  const policy: Policy = resolvePolicy({ preset: "agent", maxAttempts: 5 }); */
export interface Policy {
  readonly preset: PresetName;
  /** The limit of attempts, the first included. */
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly maxElapsedMs: number | null;
  readonly maxDefers: number;
  readonly honourRetryAfter: boolean;
  readonly retryAfterMaxMs: number;
  readonly retryOnExitCodes: readonly number[];
  readonly noRetryOnExitCodes: readonly number[];
  /** Message parts, lower case. */
  readonly retryOn: readonly string[];
  readonly noRetryOn: readonly string[];
  readonly retryWhen: string | null;
  readonly stopWhen: string | null;
  readonly rules: readonly Rule[];
  /** The rules of the preset for failures that nothing above matches, checked before `onUnknown`. */
  readonly fallback: readonly Rule[];
  readonly onTimeout: "retry" | "fail";
  readonly onUnknown: "retry" | "fail";
  readonly workerLost: WorkerLostPolicy;
  /** Tokens, in and out together, and money, for all attempts of the job and its descendants. */
  readonly budget: {
    readonly tokens: number | null;
    readonly costUsd: number | null;
    /** The expected usage of one attempt, which is reserved in the budgets above the job while it runs. */
    readonly estimate?: { readonly tokens: number | null; readonly costUsd: number | null };
  };
}

interface BackoffInputCommon {
  /** A ratio from 0 to below 1, or true for the preset's own. */
  jitter?: number | boolean;
  min?: Duration;
  max?: Duration;
  immediate?: number;
  clampAfterJitter?: boolean;
}
/** The backoff of a policy input.
 *  @example
 *  const backoff: BackoffInput = { type: "schedule", delays: ["1s", "10s", "5m"] }; */
export type BackoffInput =
  | (BackoffInputCommon & { type?: "exponential"; initial?: Duration; factor?: number })
  | (BackoffInputCommon & { type: "schedule"; delays: readonly Duration[]; offset?: number })
  | (BackoffInputCommon & { type: "fixed"; delay: Duration })
  | { type: "none" };

type OneOrMany<T> = T | readonly T[];

/** A rule of a policy input. All fields of `if` must match.
 *  @example
 *  const rule: RuleInput = { if: { exitCode: [75, 111] }, then: "retry", maxRetries: 10 }; */
export interface RuleInput {
  if: {
    kind?: OneOrMany<Exclude<FailureKind, "lost">>;
    exitCode?: OneOrMany<number>;
    signal?: OneOrMany<string>;
    error?: OneOrMany<string>;
    message?: OneOrMany<string>;
    /** `503`, `"5xx"` or `"500-504"`. */
    status?: OneOrMany<number | string>;
    attempt?: OneOrMany<number>;
  };
  then: "retry" | "fail" | "defer";
  maxRetries?: number;
  backoff?: BackoffInput;
}

/** The fields of a policy input. Those that are left out are the preset's.
 *  @example
 *  const retry: PolicyFields = { maxAttempts: 5, backoff: { initial: "1s", max: "1m" }, noRetryOn: ["permission denied"] }; */
export interface PolicyFields {
  preset?: PresetName;
  maxAttempts?: number;
  backoff?: BackoffInput;
  maxElapsed?: Duration;
  maxDefers?: number;
  honourRetryAfter?: boolean;
  retryAfterMax?: Duration;
  retryOnExitCodes?: readonly number[];
  noRetryOnExitCodes?: readonly number[];
  retryOn?: readonly string[];
  noRetryOn?: readonly string[];
  retryWhen?: string;
  stopWhen?: string;
  rules?: readonly RuleInput[];
  onTimeout?: "retry" | "fail";
  onUnknown?: "retry" | "fail";
  workerLost?: {
    charge?: "own" | "shared";
    maxRetries?: number;
    backoff?: BackoffInput;
    poison?: { losses?: number; within?: Duration } | false;
  };
  budget?: { tokens?: number; costUsd?: number; estimate?: { tokens?: number; costUsd?: number } };
  /** One attempt, and none after a lost worker. */
  atMostOnce?: boolean;
}

/** A policy input. `3` means `{ maxAttempts: 3 }`, `false` one attempt.
 *  @example
 *  const retry: PolicyInput = 3;
 *  await perdure.submit(resize, { url }, { retry }); */
export type PolicyInput = PolicyFields | number | false;
