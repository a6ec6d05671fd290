/** From a stored policy back to one that people could have written: `resolvePolicy(toPolicyInput(policy))` equals it. Every
 *  field is given, so that nothing depends on what the preset says today, but for its fallback rules, which nobody can write. */
import { isPlain, type Mutable } from "../check.ts";
import { type Duration, toMs } from "../duration.ts";
import type { Backoff, BackoffInput, Policy, PolicyFields, Rule, RuleInput } from "./policy.ts";

export function toPolicyInput(policy: Policy): PolicyFields {
  const { budget } = policy;
  // What is null is so under every preset, and is left out. The type asks for each field, so that a new one is not forgotten here.
  const fields: { readonly [F in Exclude<keyof PolicyFields, "atMostOnce">]-?: PolicyFields[F] | null } = {
    preset: policy.preset,
    maxAttempts: policy.maxAttempts,
    backoff: backoffInput(policy.backoff),
    maxElapsed: policy.maxElapsedMs,
    maxDefers: policy.maxDefers,
    honourRetryAfter: policy.honourRetryAfter,
    retryAfterMax: policy.retryAfterMaxMs,
    retryOnExitCodes: policy.retryOnExitCodes,
    noRetryOnExitCodes: policy.noRetryOnExitCodes,
    retryOn: policy.retryOn,
    noRetryOn: policy.noRetryOn,
    retryWhen: policy.retryWhen,
    stopWhen: policy.stopWhen,
    rules: policy.rules.map(ruleInput),
    onTimeout: policy.onTimeout,
    onUnknown: policy.onUnknown,
    workerLost: lossInput(policy.workerLost),
    budget: {
      ...(budget.tokens === null ? {} : { tokens: budget.tokens }),
      ...(budget.costUsd === null ? {} : { costUsd: budget.costUsd }),
      ...(budget.estimate === undefined ? {} : { estimate: amounts(budget.estimate) }),
    },
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as PolicyFields;
}

/** A policy with some of its fields replaced. Of a budget and of a backoff of the same type the fields that are not named
 *  stay: raising one limit of a budget does not remove the other. With a preset, nothing of the own policy stays. */
export function withPolicyFields(own: PolicyFields, wished: PolicyFields): PolicyFields {
  if (wished.preset !== undefined) return wished;
  const budget = isPlain(wished.budget) ? { budget: { ...own.budget, ...wished.budget } } : {};
  const backoff = isPlain(wished.backoff) ? { backoff: withBackoffFields(own.backoff, wished.backoff) } : {};
  return { ...own, ...wished, ...budget, ...backoff };
}

function withBackoffFields(own: BackoffInput | undefined, wished: BackoffInput): BackoffInput {
  if (own === undefined || own.type === "none") return wished;
  if (wished.type !== undefined && wished.type !== (own.type ?? "exponential")) return wished;
  const merged = { ...own, ...wished } as BackoffInput & { max?: Duration; initial?: Duration };
  const { max, initial } = merged;
  // A first delay above the cap that was there before means a longer cap, not a shorter delay.
  const isCapped = initial !== undefined && max !== undefined && toMs(initial, "initial") > toMs(max, "max");
  if (!isCapped || Object.hasOwn(wished, "max")) return merged;
  return { ...merged, max: initial } as BackoffInput;
}

function amounts({ tokens, costUsd }: NonNullable<Policy["budget"]["estimate"]>) {
  return { ...(tokens === null ? {} : { tokens }), ...(costUsd === null ? {} : { costUsd }) };
}

function backoffInput(backoff: Backoff): BackoffInput {
  if (backoff.type === "none") return { type: "none" };
  const { jitter, minMs, immediate, clampAfterJitter, maxMs } = backoff;
  const common = { jitter, min: minMs, max: maxMs, immediate, clampAfterJitter };
  switch (backoff.type) {
    case "exponential":
      return { type: "exponential", initial: backoff.initialMs, factor: backoff.factor, ...common };
    case "schedule":
      return { type: "schedule", delays: backoff.delaysMs, offset: backoff.offset, ...common };
    case "fixed":
      return { type: "fixed", delay: backoff.delayMs, ...common };
  }
}

function lossInput(lost: Policy["workerLost"]): NonNullable<PolicyFields["workerLost"]> {
  const { charge, maxRetries, backoff, poison } = lost;
  const guard = poison === null ? (false as const) : { losses: poison.losses, within: poison.withinMs };
  if (charge === "shared") return { charge, poison: guard };
  return { charge, maxRetries, backoff: backoffInput(backoff), poison: guard };
}

function ruleInput(rule: Rule): RuleInput {
  const { status, ...others } = rule.if;
  const condition: Record<string, unknown> = Object.fromEntries(
    Object.entries(others).filter(([, wanted]) => wanted !== null),
  );
  if (status !== null) condition.status = status.map(([low, high]) => `${low}-${high}`);
  const input: Mutable<RuleInput> = {
    if: condition as RuleInput["if"],
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
    then: rule.then,
  };
  if (rule.maxRetries !== null) input.maxRetries = rule.maxRetries;
  if (rule.backoff !== null) input.backoff = backoffInput(rule.backoff);
  return input;
}
