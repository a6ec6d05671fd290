/** ClusterAgentRole documents, and changing a job to another role. */
import { asOneOf, fieldPath, isPlain, nearest } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";
import type { ExecInput } from "../../core/input/exec-input.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { PolicyFields } from "../../core/policy/policy.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { ReadContext, ReadEntry } from "../dialect.ts";
import { withBudget, withModel, withRole } from "./exec.ts";
import {
  type AgentBudget,
  type AgentModel,
  ANNOTATION,
  asApiVersion,
  asTimeout,
  fieldsOf,
  ROLE_KIND,
  readBudget,
  readModel,
  VARIABLE,
} from "./fields.ts";
import { readMetadata } from "./metadata.ts";
import { AGENT_TIERS, type AgentRetrySettings, type AgentTier } from "./settings.ts";
import { type AgentSharedFields, agentPolicy, effective, readRetry, readValues } from "./values.ts";

// `ClusterAgentRole` has defaults for tasks that name it. It is not a job. It applies if it is in the same file as its
// tasks, in another file of the same command, or in the settings.

interface AgentRole {
  readonly name: string;
  readonly retry: AgentRetrySettings;
  readonly budget: AgentBudget;
  readonly model: AgentModel;
  readonly tier: AgentTier | null;
  readonly timeoutMs: number | null;
  /** The whole spec, for the agent. */
  readonly spec: object;
}

/** The first five are defaults that Perdure uses; the others are for the agent. */
const SPEC_FIELDS = [
  ...(["retry", "budget", "model", "tier", "timeout"] as const),
  ...(["defaultModel", "description", "rules", "antiPatterns", "tools", "references"] as const),
];

export function isRole(document: unknown): document is object {
  return isPlain(document) && (document as { kind?: unknown }).kind === ROLE_KIND;
}

export function readRole(document: unknown, notes: string[]): AgentRole {
  const fields = fieldsOf(document, "", ["apiVersion", "kind", "metadata", "spec", "status"]);
  asApiVersion(fields.apiVersion, "apiVersion");
  const { name } = readMetadata(fields.metadata, "metadata", []);
  const spec = fieldsOf(fields.spec ?? {}, "spec", SPEC_FIELDS);
  const read = <T>(key: (typeof SPEC_FIELDS)[number], check: (value: unknown, path: string) => T, other: T): T =>
    spec[key] === undefined ? other : check(spec[key], fieldPath("spec", key));
  const asModel = (value: unknown, path: string) => readModel(value, path, notes);
  return {
    name,
    retry: read("retry", readRetry, {}),
    budget: read("budget", readBudget, {}),
    model: { ...read("defaultModel", asModel, {}), ...read("model", asModel, {}) },
    tier: read("tier", (value, path): AgentTier | null => asOneOf(value, AGENT_TIERS, path), null),
    timeoutMs: read("timeout", (value, path): number | null => asTimeout(value, path), null),
    spec,
  };
}

/** Sources of roles: documents beside the task take precedence over those of the settings. */
export type RoleSources = Pick<ReadContext, "documents" | "settings">;

/** The role that a task names. Null, with a note, if it does not exist: the name may be for the agent only. */
export function findRole(name: string, sources: RoleSources, notes: string[]): AgentRole | null {
  const { role, near } = searchRole(name, sources, "spec.role", notes);
  if (role !== null) return role;
  const hint = near === null ? "" : ` Did you mean ${show(near)}?`;
  notes.push(
    `spec.role: ${ROLE_KIND} ${show(name)} not found, so no defaults come from it; pass its file too, or set agent.roles.${hint}`,
  );
  return null;
}

/** The requested role. It must exist: otherwise only the name would change. */
function requiredRole(name: string, sources: RoleSources, path: string): AgentRole {
  const { role, near } = searchRole(name, sources, path, []);
  if (role !== null) return role;
  const problem = `${ROLE_KIND} ${show(name)} does not exist`;
  const allowed = "a role of a file in the same command, or of the setting agent.roles";
  throw new ConfigError({ path, given: name, allowed, nearest: near, problem });
}

function searchRole(
  name: string,
  { documents, settings }: RoleSources,
  path: string,
  notes: string[],
): { readonly role: AgentRole | null; readonly near: string | null } {
  const isNamed = (document: object) => nameOf(document) === name;
  const beside = documents.filter(isRole);
  const [found, second] = beside.filter(isNamed);
  if (second !== undefined) {
    const problem = `two documents define the ${ROLE_KIND} ${show(name)}`;
    throw new ConfigError({ path, given: name, allowed: "a role that is defined once", problem });
  }
  const configured = settings.agent.roles.filter(isRole);
  const role = found ?? configured.find(isNamed);
  if (role !== undefined) return { role: readNamed(role, name, path, notes), near: null };
  return { role: null, near: nearest(name, [...beside, ...configured].map(nameOf)) };
}

/** A mistake in a role is reported at the task that uses it: the role may be in another file. */
function readNamed(document: object, name: string, path: string, notes: string[]): AgentRole {
  try {
    return readRole(document, notes);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const problem = `the ${ROLE_KIND} ${show(name)} has a mistake: ${error.path}: ${error.problem}`;
    throw new ConfigError({ path, given: name, nearest: error.nearest, problem });
  }
}

function nameOf(document: object): string {
  const { metadata } = document as { metadata?: unknown };
  const name = isPlain(metadata) ? (metadata as { name?: unknown }).name : null;
  return typeof name === "string" ? name : "";
}

// Changing an agent's job to another role: the old role's defaults are replaced by those of the new one. Values that the
// task itself gave stay, as do values changed by a resubmit: retry, budget, model, tier and timeout, field by field.
// Without a record of its values (`values.ts`) all values count as the task's own.

/** `entry` is the copy of the job to change. */
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

/** The values that the task itself gave, with their current numbers. */
function ownOf({ policy, timeoutMs, annotations, payload }: JobInfo): AgentSharedFields {
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

/** Leaves out fields that are not given. */
function given<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ReturnType<
    typeof given<T>
  >;
}

/** The rest of the policy stays: its rules, and the retries after lost workers. */
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
