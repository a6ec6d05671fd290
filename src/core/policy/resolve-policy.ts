/** Resolves the policy of a submit (a preset with changes) to the full policy that is stored. A given field replaces that of
 *  the preset; `rules` are checked before the preset's `fallback`. Every mistake is refused here with its path, because
 *  `decide`, which reads the policy next, never throws. */

import {
  asBoolean,
  asInteger,
  asList,
  asNumber,
  asObject,
  asOneOf,
  asText,
  deepFreeze,
  type Fields,
  fieldPath,
  nearest,
  reader,
} from "../check.ts";
import { type BudgetLimit, MAX_BUDGET } from "../decision/budget.ts";
import { FAILURE_KINDS, type FailureKind } from "../decision/failure.ts";
import { toMs } from "../duration.ts";
import { ConfigError } from "../errors.ts";
import { parseCondition } from "../expression/expression.ts";
import type { Policy, PolicyFields, PolicyInput, Rule, RuleCondition, WorkerLostPolicy } from "./policy.ts";
import { FULL_JITTER, PRESET_NAMES, presets, SHARED_LOSS } from "./presets.ts";
import { type BackoffContext, MAX_COUNT, resolveBackoff } from "./resolve-backoff.ts";

const FIELDS = [
  "preset",
  "maxAttempts",
  "backoff",
  "maxElapsed",
  "maxDefers",
  "honourRetryAfter",
  "retryAfterMax",
  "retryOnExitCodes",
  "noRetryOnExitCodes",
  "retryOn",
  "noRetryOn",
  "retryWhen",
  "stopWhen",
  "rules",
  "onTimeout",
  "onUnknown",
  "workerLost",
  "budget",
  "atMostOnce",
] as const satisfies readonly (keyof PolicyFields)[];
type PolicyField = (typeof FIELDS)[number];

const VERDICTS = ["retry", "fail"] as const;
/** The limit of a stored policy, as JSON: enough for four hundred message parts of 100 characters. Every process that reads the
 *  job keeps its policy in memory, and every decision goes through its rules. */
export const MAX_POLICY_BYTES = 65_536;
const SHORT_FORMS = "a number of attempts such as 5, false for one attempt, or an object with a policy";

/** The full policy, deeply frozen and equal to its JSON. `path` names it in errors.
 *  @example
 *  const policy = resolvePolicy({ maxAttempts: 5, backoff: { initial: "1s", max: "1m" } });
 *  console.log(policy.maxAttempts, policy.onUnknown); */
export function resolvePolicy(input?: PolicyInput, path = "retry"): Policy {
  if (input === undefined) return presets.default;
  // Its meaning is not obvious: some systems make three attempts, the default preset makes one.
  if ((input as unknown) === true) {
    const problem = "true does not set the number of attempts";
    throw new ConfigError({ path, given: input, allowed: `${SHORT_FORMS}, such as { maxAttempts: 5 }`, problem });
  }
  if (input === false) return seal({ ...presets.default, maxAttempts: 1 }, path);
  if (typeof input === "number") return seal({ ...presets.default, maxAttempts: asAttempts(input, path) }, path);
  if (typeof input !== "object" || input === null) {
    throw new ConfigError({ path, given: input, allowed: SHORT_FORMS });
  }
  return seal(resolveFields(asObject(input, path, FIELDS), path), path);
}

/** A stored policy, which was checked when it was resolved. */
export function policyFromJson(text: string): Policy {
  return deepFreeze(JSON.parse(text) as Policy);
}

/** A copy through JSON, so that decisions use exactly what is stored. */
function seal(policy: Policy, path: string): Policy {
  const text = JSON.stringify(policy);
  // A character has at most 3 bytes, so most policies need no count of bytes.
  if (text.length * 3 > MAX_POLICY_BYTES) {
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > MAX_POLICY_BYTES) {
      const allowed = `a policy of at most ${MAX_POLICY_BYTES} bytes as JSON`;
      throw new ConfigError({ path, given: null, allowed, shown: `${bytes} bytes` });
    }
  }
  return policyFromJson(text);
}

/** The order of the fields is part of the stored text and of its hash, which identifies a policy: keep it as in presets. */
function resolveFields(fields: Fields<PolicyField>, path: string): Policy {
  const read = reader(fields, path);
  const preset = read("preset", (given, at) => asOneOf(given, PRESET_NAMES, at), "default" as const);
  const base = presets[preset];
  const fullJitter = jitterOf(base);
  const within = (backoff: BackoffContext["base"]): BackoffContext => ({ base: backoff, fullJitter });
  const once = read("atMostOnce", asBoolean, false);
  const lossBase = once ? { ...ownLoss(base.workerLost), maxRetries: 0 } : base.workerLost;
  const backoff = read("backoff", (given, at) => resolveBackoff(given, at, within(base.backoff)), base.backoff);
  const asRule = (given: unknown, at: string) => resolveRule(given, at, within(backoff));

  const policy: Policy = {
    preset,
    maxAttempts: read("maxAttempts", asAttempts, once ? 1 : base.maxAttempts),
    backoff,
    maxElapsedMs: read("maxElapsed", toMs, base.maxElapsedMs),
    maxDefers: read("maxDefers", (given, at) => asInteger(given, at, { min: 0, max: MAX_COUNT }), base.maxDefers),
    honourRetryAfter: read("honourRetryAfter", asBoolean, base.honourRetryAfter),
    retryAfterMaxMs: read("retryAfterMax", toMs, base.retryAfterMaxMs),
    retryOnExitCodes: read("retryOnExitCodes", asExitCodes, base.retryOnExitCodes),
    noRetryOnExitCodes: read("noRetryOnExitCodes", asExitCodes, base.noRetryOnExitCodes),
    retryOn: read("retryOn", asMessageParts, base.retryOn),
    noRetryOn: read("noRetryOn", asMessageParts, base.noRetryOn),
    retryWhen: read("retryWhen", asCondition, base.retryWhen),
    stopWhen: read("stopWhen", asCondition, base.stopWhen),
    rules: read("rules", (given, at) => asList(given, at, asRule, MAX_RULES), base.rules),
    fallback: base.fallback,
    onTimeout: read("onTimeout", asVerdict, base.onTimeout),
    onUnknown: read("onUnknown", asVerdict, base.onUnknown),
    workerLost: read("workerLost", (given, at) => resolveWorkerLost(given, at, lossBase, fullJitter), lossBase),
    budget: read("budget", (given, at) => resolveBudget(given, at, base.budget), base.budget),
  };
  if (once) refuseSecondAttempt(policy, path);
  return policy;
}

/** The ratio that `jitter: true` means under a preset: that of `FULL_JITTER`, its own jitter, or that of the default preset. */
function jitterOf(base: Policy): number {
  const named = FULL_JITTER[base.preset];
  if (named !== undefined) return named;
  return base.backoff.type !== "none" && base.backoff.jitter > 0 ? base.backoff.jitter : 0.2;
}

function asAttempts(value: unknown, path: string): number {
  return asInteger(value, path, { min: 1, max: MAX_COUNT });
}

function asVerdict(value: unknown, path: string): "retry" | "fail" {
  return asOneOf(value, VERDICTS, path);
}

/** The source is stored; it is parsed here only to refuse mistakes with their position. */
function asCondition(value: unknown, path: string): string {
  if (typeof value !== "string") throw new ConfigError({ path, given: value, allowed: "a condition as text" });
  parseCondition(value, path);
  return value;
}

function resolveBudget(value: unknown, path: string, base: Policy["budget"]): Policy["budget"] {
  const read = reader(asObject(value, path, ["tokens", "costUsd", "estimate"]), path);
  const { tokens, costUsd } = resolveAmounts(read, base);
  const estimate = read("estimate", resolveEstimate, base.estimate ?? null);
  return estimate === null ? { tokens, costUsd } : { tokens, costUsd, estimate };
}

function resolveEstimate(value: unknown, path: string): NonNullable<Policy["budget"]["estimate"]> {
  return resolveAmounts(reader(asObject(value, path, ["tokens", "costUsd"]), path), { tokens: null, costUsd: null });
}

function resolveAmounts(read: ReturnType<typeof reader>, base: BudgetLimit): BudgetLimit {
  return {
    tokens: read("tokens", (given, at) => asInteger(given, at, { min: 0, max: MAX_BUDGET.tokens }), base.tokens),
    costUsd: read("costUsd", (given, at) => asNumber(given, at, { min: 0, max: MAX_BUDGET.costUsd }), base.costUsd),
  };
}

/** With `atMostOnce`, no other field may allow a second attempt, not even one that does not count. */
function refuseSecondAttempt({ maxAttempts, workerLost, rules }: Policy, path: string): void {
  const refuse = (field: string, given: unknown, allowed: string) => {
    throw new ConfigError({ path: `${path}.${field}`, given, allowed: `${allowed} with atMostOnce` });
  };
  if (maxAttempts !== 1) refuse("maxAttempts", maxAttempts, "1");
  if (workerLost.charge !== "own") refuse("workerLost.charge", workerLost.charge, '"own"');
  if (workerLost.maxRetries !== 0) refuse("workerLost.maxRetries", workerLost.maxRetries, "0");
  for (const [index, rule] of rules.entries()) {
    if (rule.then === "defer") refuse(`rules[${index}].then`, rule.then, '"retry" or "fail"');
    if (rule.maxRetries) refuse(`rules[${index}].maxRetries`, rule.maxRetries, "0 or left out");
  }
}

// Stored rules can be matched by plain comparison: every condition is a list or null, statuses are ranges, signals have
// their full names, message parts are in lower case.

const MAX_RULES = 100;
const MAX_LIST = 100;
const MAX_PART = 200;

const RULE_FIELDS = ["if", "then", "maxRetries", "backoff"] as const;
const RULE_VERDICTS = ["retry", "fail", "defer"] as const;
const CONDITIONS = ["kind", "exitCode", "signal", "error", "message", "status", "attempt"] as const;
/** A lost worker is not a failure of the job: `workerLost` decides there. */
const KINDS = FAILURE_KINDS.filter((kind) => kind !== "lost");

/** The signals of Linux, macOS, the BSDs and Windows under Node, without SIG. */
const SIGNALS: readonly string[] = (
  "HUP INT QUIT ILL TRAP ABRT IOT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM CHLD STKFLT CONT STOP TSTP TTIN TTOU URG " +
  "XCPU XFSZ VTALRM PROF WINCH IO POLL LOST PWR SYS INFO EMT BREAK"
).split(" ");

export function resolveRule(value: unknown, path: string, context: BackoffContext): Rule {
  const fields = asObject(value, path, RULE_FIELDS);
  const read = reader(fields, path);
  const condition = resolveCondition(fields.if, fieldPath(path, "if"));
  const verdict = asOneOf(fields.then, RULE_VERDICTS, fieldPath(path, "then"));
  for (const field of ["maxRetries", "backoff"] as const) {
    if (verdict !== "fail" || fields[field] === undefined) continue;
    const problem = 'has no effect with then: "fail"';
    throw new ConfigError({ path: fieldPath(path, field), given: fields[field], problem, fix: "remove it" });
  }
  return {
    if: condition,
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
    then: verdict,
    maxRetries: read("maxRetries", (given, at) => asInteger(given, at, { min: 0, max: MAX_COUNT }), null),
    backoff: read("backoff", (given, at) => resolveBackoff(given, at, context), null),
  };
}

function resolveCondition(value: unknown, path: string): RuleCondition {
  const fields = asObject(value, path, CONDITIONS);
  if (CONDITIONS.every((name) => fields[name] === undefined)) {
    // It would match every failure, which is usually a mistake; `kind` can list all kinds.
    throw new ConfigError({ path, given: value, allowed: `an object with at least one of ${CONDITIONS.join(", ")}` });
  }
  const read = reader(fields, path);
  return {
    kind: read("kind", many(asKind), null),
    exitCode: read("exitCode", many(asExitCode), null),
    signal: read("signal", many(asSignal), null),
    error: read("error", many(asErrorName), null),
    message: read("message", many(asMessagePart), null),
    status: read("status", many(asStatusRange), null),
    attempt: read("attempt", many(asAttempt), null),
  };
}

type FieldCheck<T> = (value: unknown, path: string) => T;

/** One, or a list of at least one: an empty list would never match. */
function many<T>(check: FieldCheck<T>): FieldCheck<T[]> {
  return (value, path) => (Array.isArray(value) ? asList(value, path, check, MAX_LIST, 1) : [check(value, path)]);
}

export function asExitCodes(value: unknown, path: string): number[] {
  return asList(value, path, asExitCode, MAX_LIST);
}

export function asMessageParts(value: unknown, path: string): string[] {
  return asList(value, path, asMessagePart, MAX_LIST);
}

function asKind(value: unknown, path: string): FailureKind {
  return asOneOf(value, KINDS, path);
}

function asExitCode(value: unknown, path: string): number {
  return asInteger(value, path, { min: 0, max: 255 });
}

function asErrorName(value: unknown, path: string): string {
  return asText(value, path, MAX_PART);
}

function asMessagePart(value: unknown, path: string): string {
  return asText(value, path, MAX_PART).toLowerCase();
}

function asAttempt(value: unknown, path: string): number {
  return asInteger(value, path, { min: 1, max: MAX_COUNT });
}

/** `"KILL"`, `"sigkill"` and `"SIGKILL"` are the same. */
function asSignal(value: unknown, path: string): string {
  const name = typeof value === "string" ? value.trim().toUpperCase().replace(/^SIG/, "") : "";
  if (SIGNALS.includes(name)) return `SIG${name}`;
  const near = nearest(name, SIGNALS);
  const allowed = "a signal such as SIGKILL, SIGTERM or SIGSEGV";
  throw new ConfigError({ path, given: value, allowed, nearest: near && `SIG${near}` });
}

/** `503`, `"503"`, `"5xx"` or `"500-504"` as an inclusive range. */
function asStatusRange(value: unknown, path: string): readonly [number, number] {
  const text = typeof value === "number" || typeof value === "string" ? String(value).trim() : "";
  const [, hundreds, from, to] = /^(?:([1-5])xx|([1-5]\d\d)(?:\s*-\s*([1-5]\d\d))?)$/i.exec(text) ?? [];
  if (hundreds !== undefined) return [Number(hundreds) * 100, Number(hundreds) * 100 + 99];
  const low = Number(from);
  const high = Number(to ?? from);
  // NaN where the text did not match.
  if (low <= high) return [low, high];
  throw new ConfigError({ path, given: value, allowed: 'a status from 100 to 599, "5xx", or a range like "500-504"' });
}

// What follows a lost worker. Losses either have a limit and a backoff of their own or share those of the job; the poison
// guard applies to both.

const WORKER_LOST_FIELDS = ["charge", "maxRetries", "backoff", "poison"] as const;
const CHARGES = ["own", "shared"] as const;
const POISON_FIELDS = ["losses", "within"] as const;
const MAX_POISON_LOSSES = 1_000;

type Poison = NonNullable<WorkerLostPolicy["poison"]>;
const DEFAULT_POISON = presets.default.workerLost.poison as Poison;

/** A limit and a backoff of its own: those of `default` where the preset has none. */
export function ownLoss(base: WorkerLostPolicy): WorkerLostPolicy {
  return base.charge === "own" ? base : { ...presets.default.workerLost, poison: base.poison };
}

export function resolveWorkerLost(
  value: unknown,
  path: string,
  base: WorkerLostPolicy,
  fullJitter: number,
): WorkerLostPolicy {
  const fields = asObject(value, path, WORKER_LOST_FIELDS);
  const read = reader(fields, path);
  const charge = read("charge", (given, at) => asOneOf(given, CHARGES, at), base.charge);
  const poison = read("poison", (given, at) => resolvePoison(given, at, base.poison), base.poison);

  if (charge === "shared") {
    for (const field of ["maxRetries", "backoff"] as const) {
      if (fields[field] === undefined) continue;
      const problem = 'has no effect with charge: "shared"';
      const fix = 'remove it, or set charge to "own"';
      throw new ConfigError({ path: fieldPath(path, field), given: fields[field], problem, fix });
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

/** `false` removes the guard; other fields default to those of the preset's guard, or of that of `default`. */
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
