/** Names, values and checks that all AgentTask documents share. */
import { asInteger, asNumber, asObject, asText, type Fields, fieldPath } from "../../core/check.ts";
import { asSpan, MAX_DURATION_MS } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";

// Where the parts of an AgentTask are stored in a job: variables and files for the agent, and annotations for what is
// only shown. Reading, viewing and changing use this table.

/** Environment variables of the agent. */
export const VARIABLE = {
  taskName: "AGENT_TASK_NAME",
  taskId: "AGENT_TASK_ID",
  /** 1-based. */
  attempt: "AGENT_ATTEMPT",
  /** Only if the prompt fits into an environment. */
  prompt: "AGENT_PROMPT",
  promptFile: "AGENT_PROMPT_FILE",
  model: "AGENT_MODEL",
  modelEndpoint: "AGENT_MODEL_ENDPOINT",
  modelProvider: "AGENT_MODEL_PROVIDER",
  tier: "AGENT_TIER",
  role: "AGENT_ROLE",
  /** Only if the role's document was given. */
  roleFile: "AGENT_ROLE_FILE",
  maxCostUsd: "AGENT_MAX_COST_USD",
  maxTokens: "AGENT_MAX_TOKENS",
} as const;

export const OUR_VARIABLES: readonly string[] = Object.values(VARIABLE);

/** Input files; the agent finds them in `inputs/` of its working directory. */
export const PROMPT_FILE = "prompt.txt";
export const ROLE_FILE = "role.json";

export const PREFIX = "agent-task/";
export const ANNOTATION = {
  name: "agent-task/name",
  namespace: "agent-task/namespace",
  apiVersion: "agent-task/api-version",
  role: "agent-task/role",
  tier: "agent-task/tier",
  /** The sources of its values (`values.ts`). */
  values: "agent-task/values",
} as const;

export const TASK_KIND = "AgentTask";
export const ROLE_KIND = "ClusterAgentRole";
export const API_VERSION = "core.hortator.ai/v1alpha1";

// Checks for values of manifests, in their units: seconds, and the quantities and durations of Kubernetes.

/** An object with only known fields. A field without a value, as in `env:`, counts as absent. */
export function fieldsOf<K extends string>(value: unknown, path: string, known: readonly K[]): Fields<K> {
  const fields = asObject(value, path, known);
  return Object.fromEntries(Object.entries(fields).filter(([, field]) => field !== null)) as Fields<K>;
}

/** Any group and version: manifests are recognised by their kind. */
export function asApiVersion(value: unknown, path: string): string {
  if (typeof value === "string" && /^[\w.-]+\/[\w.-]+$/.test(value) && value.length <= 200) return value;
  const allowed = "a group and a version, as in core.hortator.ai/v1alpha1";
  throw new ConfigError({ path, given: value, allowed });
}

/** Texts by name, such as labels and annotations. */
export function asTexts(value: unknown, path: string): [string, string][] {
  return Object.entries(asObject(value, path)).map(([name, text]) => {
    if (typeof text === "string") return [name, text];
    const allowed = "text; a number or true and false need quotes";
    throw new ConfigError({ path: fieldPath(path, name), given: text, allowed });
  });
}

const MAX_SECONDS = MAX_DURATION_MS / 1_000;

export function asSeconds(value: unknown, path: string): number {
  return asNumber(value, path, { min: 0, max: MAX_SECONDS });
}

const GO_DURATION = /^(?:\d{1,12}(?:\.\d{1,6})?(?:ms|d|h|m|s))+$/;
const GO_PART = /(\d{1,12}(?:\.\d{1,6})?)(ms|d|h|m|s)/g;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Seconds, or text such as `30m`, `1h30m` or `1d12h`, in milliseconds: Go's units, and days. Zero is refused. */
export function asTimeout(value: unknown, path: string): number {
  const isText = typeof value === "string" && GO_DURATION.test(value);
  if (!isText && typeof value !== "number") {
    throw new ConfigError({
      path,
      given: value,
      allowed: 'a number of seconds, or text such as "90s", "30m", "1h30m" or "1d" (units d, h, m, s and ms)',
    });
  }
  const parts = isText ? [...value.matchAll(GO_PART)] : [];
  const ms = parts.reduce((sum, [, digits, unit]) => sum + Number(digits) * (UNIT_MS[unit as string] as number), 0);
  return asSpan(isText ? ms : asSeconds(value, path) * 1_000, path);
}

const MAX_COST_USD = 1_000_000_000;

/** Kubernetes has no fractions in its types, so money is often text. */
function asMoney(value: unknown, path: string): number {
  const isText = typeof value === "string" && /^\d{1,12}(?:\.\d{1,12})?$/.test(value);
  return asNumber(isText ? Number(value) : value, path, { min: 0, max: MAX_COST_USD });
}

export interface AgentBudget {
  readonly maxCostUsd?: number;
  readonly maxTokens?: number;
}

export function readBudget(value: unknown, path: string): AgentBudget {
  const { maxCostUsd, maxTokens } = fieldsOf(value, path, ["maxCostUsd", "maxTokens"]);
  return {
    ...(maxCostUsd === undefined ? {} : { maxCostUsd: asMoney(maxCostUsd, fieldPath(path, "maxCostUsd")) }),
    ...(maxTokens === undefined
      ? {}
      : { maxTokens: asInteger(maxTokens, fieldPath(path, "maxTokens"), { min: 0, max: Number.MAX_SAFE_INTEGER }) }),
  };
}

export interface AgentModel {
  readonly name?: string;
  readonly endpoint?: string;
  readonly provider?: string;
}

const MODEL_FIELDS = ["name", "endpoint", "provider", "apiKeyRef"] as const;
const MAX_MODEL = 500;

/** A name, or an object with one. */
export function readModel(value: unknown, path: string, notes: string[]): AgentModel {
  if (typeof value === "string") return { name: asText(value, path, MAX_MODEL) };
  const fields = fieldsOf(value, path, MODEL_FIELDS);
  if (fields.apiKeyRef !== undefined) {
    notes.push(`${path}.apiKeyRef: secrets are not supported; the worker that runs the agent must have the key.`);
  }
  const given = (["name", "endpoint", "provider"] as const).filter((name) => fields[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, asText(fields[name], fieldPath(path, name), MAX_MODEL)]));
}
