/** The effective retry block and other values of an AgentTask: its own, then those of its role, then those of the
 *  settings. */
import { asInteger, fieldPath, isPlain } from "../../core/check.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { Backoff, PolicyFields } from "../../core/policy/policy.ts";
import { presets } from "../../core/policy/presets.ts";
import { MAX_COUNT } from "../../core/policy/resolve-backoff.ts";
import type { DialectSettings } from "../settings.ts";
import { noteCap } from "../shared.ts";
import { type AgentBudget, type AgentModel, ANNOTATION, asSeconds, fieldsOf } from "./fields.ts";
import type { AgentRetrySettings, AgentTier } from "./settings.ts";

// Each number of `spec.retry` comes from the task, else its role, else its tier, else the preset. `maxAttempts` counts
// attempts, the first included: 0 and 1 both mean one. The backoff is `min(maxBackoffSeconds, backoffSeconds · 2^(r-1))`,
// capped from the first retry on, then ±25 %, and at least 1 s.

const FIELDS = ["maxAttempts", "backoffSeconds", "maxBackoffSeconds"] as const;

export function readRetry(value: unknown, path: string): AgentRetrySettings {
  const fields = fieldsOf(value, path, FIELDS);
  const given = FIELDS.filter((name) => fields[name] !== undefined);
  return Object.fromEntries(
    given.map((name) => {
      const at = fieldPath(path, name);
      if (name !== "maxAttempts") return [name, asSeconds(fields[name], at)];
      return [name, asInteger(fields[name], at, { min: 0, max: MAX_COUNT })];
    }),
  );
}

/** Each field from the first layer that has it. */
function layered<T extends object>(...layers: readonly (T | null | undefined)[]): Partial<T> {
  return Object.assign({}, ...layers.map((layer) => layer ?? {}).reverse()) as Partial<T>;
}

const PRESET = presets.agent.backoff as Extract<Backoff, { type: "exponential" }>;

/** The effective numbers, with defaults. */
function retryNumbers(retry: AgentRetrySettings): Required<AgentRetrySettings> {
  const { maxAttempts = 0, backoffSeconds, maxBackoffSeconds } = retry;
  return {
    maxAttempts: Math.max(1, maxAttempts),
    backoffSeconds: (ms(backoffSeconds) ?? PRESET.initialMs) / 1_000,
    // The floor wins over the cap.
    maxBackoffSeconds: Math.max(ms(maxBackoffSeconds) ?? PRESET.maxMs, PRESET.minMs) / 1_000,
  };
}

/** The policy; adds to `notes` what may surprise the author. */
export function agentPolicy(retry: AgentRetrySettings, budget: AgentBudget, notes: string[]): PolicyFields {
  const { maxAttempts, backoffSeconds: initial, maxBackoffSeconds: cap } = retryNumbers(retry);
  const field = `backoffSeconds is ${initial}`;
  noteCap({ path: "spec.retry", field, initialMs: initial * 1_000, capMs: cap * 1_000, attempts: maxAttempts }, notes);
  const { maxCostUsd, maxTokens } = budget;
  return {
    preset: "agent",
    maxAttempts,
    backoff: { type: "exponential", initial: `${initial}s`, max: `${cap}s` },
    onTimeout: "retry",
    ...(maxCostUsd === undefined && maxTokens === undefined
      ? {}
      : {
          budget: {
            ...(maxTokens === undefined ? {} : { tokens: maxTokens }),
            ...(maxCostUsd === undefined ? {} : { costUsd: maxCostUsd }),
          },
        }),
  };
}

function ms(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.round(seconds * 1_000);
}

// Values that may come from several places: the task itself, else its role, else its tier, else a default, field by
// field. Their sources are stored with the job, so that a manifest that is applied again can be compared, and a job can
// be resubmitted with another role. The record has what was applied; a redrive does not change it.

/** What both a task and a role can give. */
export interface AgentSharedFields {
  readonly retry: AgentRetrySettings;
  readonly budget: AgentBudget;
  readonly model: AgentModel;
  readonly tier: AgentTier | null;
  readonly timeoutMs: number | null;
}

type ValueFrom = "spec" | "role" | "tier" | "setting" | "default";
/** By its path below `spec`. The number is null for values that the job's input has too. */
export type AgentValues = Readonly<Record<string, readonly [number: number | null, from: ValueFrom]>>;

interface AgentEffective extends AgentSharedFields {
  readonly values: AgentValues;
}

const MODEL = ["name", "endpoint", "provider"] as const;
const BUDGET = ["maxCostUsd", "maxTokens"] as const;
const RETRY = ["maxAttempts", "backoffSeconds", "maxBackoffSeconds"] as const;

export function effective(
  own: AgentSharedFields,
  role: AgentSharedFields | null,
  settings: DialectSettings,
): AgentEffective {
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

/** Null if the job was not made from a manifest. */
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

/** The values of a policy and a timeout, by the same paths. */
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
