/** The policy a job is retried by. `PolicyInput` is what people write, `Policy` is what is stored and decided on:
 *  every field present, every duration in milliseconds, frozen. `resolvePolicy` leads from one to the other. */

import type { FailureKind } from "../decision/failure.ts";
import type { Duration } from "../duration.ts";

/** A policy to start from.
 *  @example
 *  const preset: PresetName = "agent";
 *  await perdure.submit(resize, { url }, { retry: { preset } }); */
export type PresetName = "default" | "opal" | "fluster" | "noetl" | "attune" | "agent";

/** Fields shared by all backoffs: `jitter` is a ratio below 1, `min` a floor after jitter, `immediate` the number of
 *  first retries that come without any delay, `clampAfterJitter` makes `max` hold after jitter too. */
export interface BackoffCommon {
  readonly jitter: number;
  readonly minMs: number;
  readonly immediate: number;
  readonly clampAfterJitter: boolean;
}
/** How long retries wait, as it is stored: every field present, in milliseconds.
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

/** All given fields must match; within a list any one does. `message` parts are case-insensitive; ` ... ` in one
 *  stands for words in between, as in `retryOn` and `noRetryOn`. */
export interface RuleCondition {
  readonly kind: readonly FailureKind[] | null;
  readonly exitCode: readonly number[] | null;
  readonly signal: readonly string[] | null;
  readonly error: readonly string[] | null;
  readonly message: readonly string[] | null;
  /** Inclusive ranges of HTTP statuses. */
  readonly status: readonly (readonly [number, number])[] | null;
  readonly attempt: readonly number[] | null;
  /** The name of a list of phrases in code (`line-lists.ts`), which are searched for in the message and the last lines of a
   *  command's stderr. Of rules that come with a preset, and left out where there is none: nobody writes it. */
  readonly lines?: string;
  /** Words in lower case, in the message or the code, and not as parts of longer ones. Likewise of presets alone. */
  readonly words?: readonly string[];
}

/** A rule of a policy as it is stored.
 *  @example
 *  const rules: readonly Rule[] = resolvePolicy({ rules: [{ if: { status: 429 }, then: "defer" }] }).rules; */
export interface Rule {
  readonly if: RuleCondition;
  readonly then: "retry" | "fail" | "defer";
  /** With it the rule's matches are a budget of their own and are not charged to `maxAttempts`. */
  readonly maxRetries: number | null;
  readonly backoff: Backoff | null;
}

export interface WorkerLostPolicy {
  /** own: a budget of `maxRetries` and its own backoff. shared: losses spend `maxAttempts` and use the main backoff. */
  readonly charge: "own" | "shared";
  readonly maxRetries: number;
  readonly backoff: Backoff;
  readonly poison: { readonly losses: number; readonly withinMs: number } | null;
}

/** A policy as it is stored and decided on: every field present, every duration in milliseconds.
 *  @example
 *  const policy: Policy = resolvePolicy({ preset: "agent", maxAttempts: 5 }); */
export interface Policy {
  readonly preset: PresetName;
  /** Runs charged to the job itself, the first included. */
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
  /** The preset's own rules on failures that nothing above knows; tried just before `onUnknown`. */
  readonly fallback: readonly Rule[];
  readonly onTimeout: "retry" | "fail";
  readonly onUnknown: "retry" | "fail";
  readonly workerLost: WorkerLostPolicy;
  /** Tokens in and out together, and money, over all attempts of the job and of all below it. */
  readonly budget: {
    readonly tokens: number | null;
    readonly costUsd: number | null;
    /** What one attempt of this job is expected to spend: kept free in the budgets above it while it runs. */
    readonly estimate?: { readonly tokens: number | null; readonly costUsd: number | null };
  };
}

// What people write.

interface BackoffInputCommon {
  /** A ratio from 0 to below 1, or true for the preset's own. */
  jitter?: number | boolean;
  min?: Duration;
  max?: Duration;
  immediate?: number;
  clampAfterJitter?: boolean;
}
/** How long retries wait, as people write it.
 *  @example
 *  const backoff: BackoffInput = { type: "schedule", delays: ["1s", "10s", "5m"] }; */
export type BackoffInput =
  | (BackoffInputCommon & { type?: "exponential"; initial?: Duration; factor?: number })
  | (BackoffInputCommon & { type: "schedule"; delays: readonly Duration[]; offset?: number })
  | (BackoffInputCommon & { type: "fixed"; delay: Duration })
  | { type: "none" };

type OneOrMany<T> = T | readonly T[];

/** What a policy does about one sort of failure. All fields of `if` must match.
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

/** A policy, as people write it. What is left out is the preset's.
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
  /** One run, and none after a lost worker. */
  atMostOnce?: boolean;
}

/** `3` means `{ maxAttempts: 3 }`, `false` one run.
 *  @example
 *  const retry: PolicyInput = 3;
 *  await perdure.submit(resize, { url }, { retry }); */
export type PolicyInput = PolicyFields | number | false;
