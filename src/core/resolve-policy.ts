/** From the policy people write to the one that is stored and decided on. Every field given replaces the preset's;
 *  `rules` come before the preset's own `fallback` and replace nothing of it. Every mistake is refused here, with its
 *  path, because the next to read the policy is `decide`, which never throws. */
import { type BudgetLimit, MAX_BUDGET } from "./budget.ts";
import { asBoolean, asInteger, asList, asNumber, asObject, asOneOf, type Fields, reader } from "./check.ts";
import { toMs } from "./duration.ts";
import { ConfigError } from "./errors.ts";
import { parseCondition } from "./expression.ts";
import { deepFreeze } from "./freeze.ts";
import type { Policy, PolicyFields, PolicyInput } from "./policy.ts";
import { PRESET_NAMES, presets } from "./presets.ts";
import { type BackoffContext, MAX_COUNT, resolveBackoff } from "./resolve-backoff.ts";
import { asExitCodes, asMessageParts, MAX_RULES, resolveRule } from "./resolve-rules.ts";
import { ownLoss, resolveWorkerLost } from "./resolve-worker-lost.ts";

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
type Field = (typeof FIELDS)[number];

const VERDICTS = ["retry", "fail"] as const;
/** Of a policy as it is stored, as JSON. Four hundred message parts of 100 characters, or a hundred rules with a few of them, fit
 *  well. Every process that meets the job keeps its policy in memory, and every decision goes through its rules. */
export const MAX_POLICY_BYTES = 65_536;
const SHORT_FORMS = "a number of runs such as 5, false for one run, or an object with a policy";

/** The policy in full, frozen through and through, and equal to itself after a trip through JSON. `path` names it in
 *  errors.
 *  @example
 *  const policy = resolvePolicy({ maxAttempts: 5, backoff: { initial: "1s", max: "1m" } });
 *  console.log(policy.maxAttempts, policy.onUnknown); */
export function resolvePolicy(input?: PolicyInput, path = "retry"): Policy {
  if (input === undefined) return presets.default;
  // What it grants nobody could guess: NoETL means 3 runs by it, and preset `default` is one.
  if ((input as unknown) === true) {
    const problem = "true does not say how many runs";
    throw new ConfigError({ path, given: input, allowed: `${SHORT_FORMS}, such as { maxAttempts: 5 }`, problem });
  }
  if (input === false) return seal({ ...presets.default, maxAttempts: 1 }, path);
  if (typeof input === "number") return seal({ ...presets.default, maxAttempts: asAttempts(input, path) }, path);
  if (typeof input !== "object" || input === null) {
    throw new ConfigError({ path, given: input, allowed: SHORT_FORMS });
  }
  return seal(resolveFields(asObject(input, path, FIELDS), path), path);
}

/** A policy as the store kept it. It was checked when it was resolved, so it is taken as it is. */
export function policyFromJson(text: string): Policy {
  return deepFreeze(JSON.parse(text) as Policy);
}

/** Decided on is what will be stored: through JSON, and so a copy of whatever the caller may still hold. */
function seal(policy: Policy, path: string): Policy {
  const text = JSON.stringify(policy);
  // Bytes are counted only where the length alone does not settle it.
  if (text.length * 3 > MAX_POLICY_BYTES) {
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > MAX_POLICY_BYTES) {
      const problem = `the policy has ${bytes} bytes in full`;
      throw new ConfigError({ path, given: null, allowed: `at most ${MAX_POLICY_BYTES} bytes as JSON`, problem });
    }
  }
  return policyFromJson(text);
}

/** The order of fields here is the order in the stored text, whose hash tells policies apart: keep it as in presets. */
function resolveFields(fields: Fields<Field>, path: string): Policy {
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
  if (once) refuseSecondRun(policy, path);
  return policy;
}

/** What `jitter: true` means under a preset: its own, NoETL's documented ×[0.5, 1.5), or ours. */
function jitterOf(base: Policy): number {
  if (base.preset === "noetl") return 0.5;
  return base.backoff.type !== "none" && base.backoff.jitter > 0 ? base.backoff.jitter : 0.2;
}

function asAttempts(value: unknown, path: string): number {
  return asInteger(value, path, { min: 1, max: MAX_COUNT });
}

function asVerdict(value: unknown, path: string): "retry" | "fail" {
  return asOneOf(value, VERDICTS, path);
}

/** The source is stored; it is parsed here so that a mistake in it is refused with its position. */
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

/** Under `atMostOnce` nothing else in the policy may grant another run, not even what is charged elsewhere. */
function refuseSecondRun({ maxAttempts, workerLost, rules }: Policy, path: string): void {
  const refuse = (field: string, given: unknown, allowed: string) => {
    throw new ConfigError({ path: `${path}.${field}`, given, allowed: `${allowed} together with atMostOnce` });
  };
  if (maxAttempts !== 1) refuse("maxAttempts", maxAttempts, "1");
  if (workerLost.charge !== "own") refuse("workerLost.charge", workerLost.charge, '"own"');
  if (workerLost.maxRetries !== 0) refuse("workerLost.maxRetries", workerLost.maxRetries, "0");
  for (const [index, rule] of rules.entries()) {
    if (rule.then === "defer") refuse(`rules[${index}].then`, rule.then, '"retry" or "fail"');
    if (rule.maxRetries) refuse(`rules[${index}].maxRetries`, rule.maxRetries, "0, or no such field,");
  }
}
