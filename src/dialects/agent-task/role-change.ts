/** An agent's job for another role: the defaults of the role before make way for those of the new one. What the task itself gave
 *  stays, as does what was changed when the job was submitted again: retry, budget, model, tier and timeout, each field by itself.
 *  Of a job without a record of its values (`values.ts`) all that it has counts as its own. */
import { isPlain } from "../../core/check.ts";
import type { ExecInput } from "../../core/exec-input.ts";
import type { PolicyFields } from "../../core/policy.ts";
import { resolvePolicy } from "../../core/resolve-policy.ts";
import type { JobInfo } from "../../core/views.ts";
import type { ReadEntry } from "../dialect.ts";
import { AGENT_TIERS, type AgentTier } from "../settings.ts";
import { withBudget, withModel, withRole } from "./exec.ts";
import { agentPolicy } from "./retry.ts";
import { type RoleSources, requiredRole } from "./role.ts";
import { type AgentGiven, effective, readValues } from "./values.ts";
import { ANNOTATION, VARIABLE } from "./words.ts";

/** `entry` is the copy of the job that is changed. */
export function inRole(job: JobInfo, entry: ReadEntry, name: string, sources: RoleSources): ReadEntry {
  const role = requiredRole(name, sources, "resubmit.role");
  const { tier, budget, model, timeoutMs, values, ...effects } = effective(ownOf(job), role, sources.settings);
  const { timeout: _timeout, annotations: before = {}, ...options } = entry.options ?? {};
  const retry = mergedPolicy(options.retry as PolicyFields, agentPolicy(effects.retry, budget, []));
  resolvePolicy(retry, "resubmit.role");
  const { [ANNOTATION.tier]: _tier, ...annotations } = before;
  const { command } = readValues(job) ?? {};
  const agent = withoutModel(entry.input as ExecInput);
  return {
    ...entry,
    input: withRole(withModel(withBudget(agent, budget), model), { tier, role: name, roleSpec: role.spec }),
    options: {
      ...options,
      retry,
      annotations: {
        ...annotations,
        [ANNOTATION.role]: name,
        ...(tier === null ? {} : { [ANNOTATION.tier]: tier }),
        [ANNOTATION.values]: JSON.stringify(command === undefined ? values : { ...values, command }),
      },
      ...(timeoutMs === null ? {} : { timeout: timeoutMs }),
    },
  };
}

/** What the task itself gave, as the job has it now. */
function ownOf({ policy, timeoutMs, annotations, payload }: JobInfo): AgentGiven {
  const values = readValues({ annotations });
  const own = <T>(path: string, value: T | null | undefined): T | undefined => {
    const isOwn = values === null || values[path]?.[1] === "spec";
    return isOwn && value !== null ? value : undefined;
  };
  const { backoff, budget, maxAttempts } = policy;
  const times = backoff.type === "exponential" ? backoff : null;
  const env = ((isPlain(payload) ? (payload as ExecInput).env : null) ?? {}) as Readonly<Record<string, string>>;
  const tier = own("tier", AGENT_TIERS.find((each) => each === annotations[ANNOTATION.tier]) ?? null);
  return {
    retry: given({
      maxAttempts: own("retry.maxAttempts", maxAttempts),
      backoffSeconds: own("retry.backoffSeconds", times && times.initialMs / 1_000),
      maxBackoffSeconds: own("retry.maxBackoffSeconds", times && times.maxMs / 1_000),
    }),
    budget: given({
      maxCostUsd: own("budget.maxCostUsd", budget.costUsd),
      maxTokens: own("budget.maxTokens", budget.tokens),
    }),
    model: given({
      name: own("model.name", env[VARIABLE.model]),
      endpoint: own("model.endpoint", env[VARIABLE.modelEndpoint]),
      provider: own("model.provider", env[VARIABLE.modelProvider]),
    }),
    tier: (tier ?? null) as AgentTier | null,
    timeoutMs: own("timeout", timeoutMs) ?? null,
  };
}

/** Without the fields that are not given. */
function given<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ReturnType<
    typeof given<T>
  >;
}

/** All else of the policy stays: its rules, and the retries after lost workers. */
function mergedPolicy(own: PolicyFields, role: PolicyFields): PolicyFields {
  const isSameType = own.backoff?.type === role.backoff?.type;
  const estimate = own.budget?.estimate === undefined ? {} : { estimate: own.budget.estimate };
  return {
    ...own,
    ...(role.maxAttempts === undefined ? {} : { maxAttempts: role.maxAttempts }),
    backoff: { ...(isSameType ? own.backoff : {}), ...role.backoff } as NonNullable<PolicyFields["backoff"]>,
    budget: { ...role.budget, ...estimate },
  };
}

function withoutModel(input: ExecInput): ExecInput {
  const {
    [VARIABLE.model]: _name,
    [VARIABLE.modelEndpoint]: _endpoint,
    [VARIABLE.modelProvider]: _provider,
    ...env
  } = {
    ...input.env,
  };
  return { ...input, env };
}
