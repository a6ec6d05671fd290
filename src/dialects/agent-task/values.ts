/** The values of a task that may come from several places: the task itself, else its role, else its tier, else a default, field by
 *  field. Where each came from is kept with the job, so that a document that is applied again can be compared, and a job be
 *  submitted again with another role. What is kept is what was applied: a redrive of the job does not change it. */
import { isPlain } from "../../core/check.ts";
import type { JobInfo } from "../../core/views.ts";
import type { AgentRetrySettings, AgentTier, DialectSettings } from "../settings.ts";
import type { AgentBudget, AgentModel } from "./check.ts";
import { layered, readRetry, retryNumbers } from "./retry.ts";
import { ANNOTATION } from "./words.ts";

/** What both a task and a role can give. */
export interface AgentGiven {
  readonly retry: AgentRetrySettings;
  readonly budget: AgentBudget;
  readonly model: AgentModel;
  readonly tier: AgentTier | null;
  readonly timeoutMs: number | null;
}

export type ValueFrom = "spec" | "role" | "tier" | "setting" | "default";
/** By its path below `spec`. Of what the job's input has as well, the number is null. */
export type AgentValues = Readonly<Record<string, readonly [number: number | null, from: ValueFrom]>>;

export interface AgentEffective extends AgentGiven {
  readonly values: AgentValues;
}

const MODEL = ["name", "endpoint", "provider"] as const;
const BUDGET = ["maxCostUsd", "maxTokens"] as const;
const RETRY = ["maxAttempts", "backoffSeconds", "maxBackoffSeconds"] as const;

export function effective(own: AgentGiven, role: AgentGiven | null, settings: DialectSettings): AgentEffective {
  const tier = own.tier ?? role?.tier ?? null;
  const { [tier ?? "none"]: ofTier } = settings.agent.retry as Record<string, object | undefined>;
  const tierRetry = ofTier === undefined ? null : readRetry(ofTier, `agent.retry.${tier}`);
  const retry = layered(own.retry, role?.retry, tierRetry);
  const budget = layered(own.budget, role?.budget);
  const model = layered(own.model, role?.model);
  const timeoutMs = own.timeoutMs ?? role?.timeoutMs ?? null;
  const values: Record<string, readonly [number | null, ValueFrom]> = {};
  const numbers = retryNumbers(retry);
  for (const name of RETRY) {
    const from = own.retry[name] !== undefined ? "spec" : role?.retry[name] !== undefined ? "role" : null;
    values[`retry.${name}`] = [numbers[name], from ?? (tierRetry?.[name] === undefined ? "default" : "tier")];
  }
  for (const name of BUDGET) {
    const value = budget[name];
    if (value !== undefined) values[`budget.${name}`] = [value, own.budget[name] === undefined ? "role" : "spec"];
  }
  for (const name of MODEL) {
    if (model[name] !== undefined) values[`model.${name}`] = [null, own.model[name] === undefined ? "role" : "spec"];
  }
  if (tier !== null) values.tier = [null, own.tier === null ? "role" : "spec"];
  if (timeoutMs !== null) values.timeout = [timeoutMs / 1_000, own.timeoutMs === null ? "role" : "spec"];
  return { ...{ retry, budget, model, tier, timeoutMs }, values };
}

/** Null of a job that was not made from a manifest. */
export function readValues({ annotations }: Pick<JobInfo, "annotations">): AgentValues | null {
  if (!Object.hasOwn(annotations, ANNOTATION.values)) return null;
  try {
    const values: unknown = JSON.parse(annotations[ANNOTATION.values] as string);
    const isGood = isPlain(values) && Object.values(values).every((each) => Array.isArray(each) && each.length === 2);
    return isGood ? (values as AgentValues) : null;
  } catch {
    return null;
  }
}

/** What a policy and a timeout have, by the same paths. */
export function policyValues(
  { maxAttempts, backoff, budget }: Pick<JobInfo["policy"], "maxAttempts" | "backoff" | "budget">,
  timeoutMs: number | null,
): Readonly<Record<string, number | null>> {
  return {
    "retry.maxAttempts": maxAttempts,
    "retry.backoffSeconds": backoff.type === "exponential" ? backoff.initialMs / 1_000 : null,
    "retry.maxBackoffSeconds": backoff.type === "exponential" ? backoff.maxMs / 1_000 : null,
    "budget.maxCostUsd": budget.costUsd,
    "budget.maxTokens": budget.tokens,
    timeout: timeoutMs === null ? null : timeoutMs / 1_000,
  };
}
