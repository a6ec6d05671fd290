/** Turns a stored policy back into input: `resolvePolicy(toPolicyInput(policy))` equals it. Every field is given, so that only
 *  the fallback rules, which have no input form, come from the current preset. */
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

/** A policy with some fields replaced. A budget, and a backoff of the same type, are merged: raising one limit of a budget does
 *  not remove the other. A preset replaces the whole policy. */
export function withPolicyFields(own: PolicyFields, changes: PolicyFields): PolicyFields {
  if (changes.preset !== undefined) return changes;
  const budget = isPlain(changes.budget) ? { budget: { ...own.budget, ...changes.budget } } : {};
  const backoff = isPlain(changes.backoff) ? { backoff: withBackoffFields(own.backoff, changes.backoff) } : {};
  return { ...own, ...changes, ...budget, ...backoff };
}

function withBackoffFields(own: BackoffInput | undefined, changes: BackoffInput): BackoffInput {
  if (own === undefined || own.type === "none") return changes;
  if (changes.type !== undefined && changes.type !== (own.type ?? "exponential")) return changes;
  const merged = { ...own, ...changes } as BackoffInput & { max?: Duration; initial?: Duration };
  const { max, initial } = merged;
  // An initial delay above the previous cap raises the cap.
  const isCapped = initial !== undefined && max !== undefined && toMs(initial, "initial") > toMs(max, "max");
  if (!isCapped || Object.hasOwn(changes, "max")) return merged;
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
