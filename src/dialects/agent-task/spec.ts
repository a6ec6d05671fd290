/** Reads the spec of an AgentTask: budget, resources, model, timeouts and other fields. */
import { asList, asOneOf, asText, fieldPath, isPlain } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";
import type { ResourcesInput } from "../../core/input/resources.ts";
import { asJobId } from "../shared.ts";
import {
  type AgentBudget,
  type AgentModel,
  asTimeout,
  fieldsOf,
  OUR_VARIABLES,
  readBudget,
  readModel,
} from "./fields.ts";
import { AGENT_TIERS, type AgentRetrySettings, type AgentTier } from "./settings.ts";
import { readRetry } from "./values.ts";

// `resources` as in a pod: requests are counted when a worker is chosen, a memory limit kills a command that exceeds it
// (`OOMKilled`), and a cpu limit cannot be enforced.

interface AgentResources {
  readonly requests: ResourcesInput;
  /** Bytes. */
  readonly memoryLimit: number | null;
}

const KINDS = ["cpu", "memory", "ephemeral-storage"] as const;
const MAX_CPUS = 100_000;
const MAX_BYTES = 2 ** 50;

function readResources(value: unknown, path: string, notes: string[]): AgentResources {
  const { requests, limits, claims } = fieldsOf(value, path, ["requests", "limits", "claims"]);
  const requested = amounts(requests, fieldPath(path, "requests"), notes);
  const limited = amounts(limits, fieldPath(path, "limits"), notes);
  if (claims !== undefined) notes.push(`${path}.claims: not supported; workers have no devices to claim.`);
  if (limited.cpu !== undefined) {
    notes.push(`${path}.limits.cpu: counted when a worker is chosen, but not enforced.`);
  }
  // Without a request, Kubernetes uses the limit as the request.
  return { requests: { ...limited, ...requested }, memoryLimit: limited.memory ?? null };
}

interface Amounts {
  cpu?: number;
  memory?: number;
}

function amounts(value: unknown, path: string, notes: string[]): Amounts {
  if (value === undefined) return {};
  const fields = fieldsOf(value, path, KINDS);
  if (fields["ephemeral-storage"] !== undefined) {
    notes.push(`${fieldPath(path, "ephemeral-storage")}: not supported; disk space is not counted.`);
  }
  return {
    ...(fields.cpu === undefined ? {} : { cpu: asCpus(fields.cpu, fieldPath(path, "cpu")) }),
    ...(fields.memory === undefined ? {} : { memory: asBytes(fields.memory, fieldPath(path, "memory")) }),
  };
}

/** `2`, `0.5` or `500m`, thousandths. */
function asCpus(value: unknown, path: string): number {
  const [, digits, milli] = /^(\d{1,9}(?:\.\d{1,9})?)(m?)$/.exec(String(value)) ?? [];
  const cpus = Number(digits ?? Number.NaN) / (milli === "m" ? 1_000 : 1);
  if (cpus > 0 && cpus <= MAX_CPUS) return cpus;
  throw new ConfigError({ path, given: value, allowed: 'cpus, as in 2, 0.5 or "500m"' });
}

const UNITS: Readonly<Record<string, number>> = {
  ...{ "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 },
  ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 },
};

/** Powers of 1000 without an `i`, of 1024 with one. */
function asBytes(value: unknown, path: string): number {
  const [, digits, unit = ""] = /^(\d{1,16}(?:\.\d{1,9})?)([kMGT]|[KMGT]i)?$/.exec(String(value)) ?? [];
  const bytes = Math.ceil(Number(digits ?? Number.NaN) * (UNITS[unit] as number));
  if (bytes >= 1 && bytes <= MAX_BYTES) return bytes;
  throw new ConfigError({ path, given: value, allowed: 'bytes, or text such as "512Mi", "2Gi" or "500M"' });
}

// Unsupported fields become notes: Perdure runs commands on existing workers, and has no images and pods.

export interface AgentSpec {
  readonly prompt: string | null;
  readonly model: AgentModel;
  readonly command: readonly string[] | null;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly role: string | null;
  readonly tier: AgentTier | null;
  readonly retry: AgentRetrySettings;
  readonly budget: AgentBudget;
  readonly timeoutMs: number | null;
  readonly parentTaskId: string | null;
  readonly resources: AgentResources;
}

/** Why each field has no effect. */
const CANNOT = {
  image: "commands run on their worker as it is; no image is pulled",
  imagePullPolicy: "no image is pulled",
  imagePullSecrets: "no image is pulled",
  capabilities: "an agent has the permissions of its worker",
  storage: "each attempt has its own directory; files in artifacts/ are kept, and nothing else is mounted",
  volumes: "nothing is mounted",
  volumeMounts: "nothing is mounted",
  rbac: "there are no cluster roles; permissions are those of the server's tokens",
  serviceAccountName: "there are no service accounts; the agent runs as its worker does",
  securityContext: "the agent runs as its worker does",
  nodeSelector: "workers are not nodes; use labels of workers and jobs",
  tolerations: "workers are not nodes",
  affinity: "workers are not nodes",
  health: "workers are monitored by their lease; agents have no health checks",
} as const;
const CANNOT_NAMES = Object.keys(CANNOT) as (keyof typeof CANNOT)[];

const FIELDS = [
  ...(["prompt", "model", "command", "args", "env", "role", "tier", "retry", "budget", "timeout"] as const),
  ...(["parentTaskId", "resources", ...CANNOT_NAMES] as const),
];

/** As base64 in a payload of at most 1 MiB, with space for other fields. */
const MAX_PROMPT_BYTES = 524_288;
const MAX_ARGUMENT = 131_072;
const MAX_ARGUMENTS = 10_000;

export function readSpec(value: unknown, path: string, notes: string[]): AgentSpec {
  const fields = fieldsOf(value, path, FIELDS);
  for (const name of CANNOT_NAMES) {
    if (fields[name] !== undefined) notes.push(`${fieldPath(path, name)}: ${CANNOT[name]}.`);
  }
  const read = <T>(key: (typeof FIELDS)[number], check: (value: unknown, path: string) => T, other: T): T =>
    fields[key] === undefined ? other : check(fields[key], fieldPath(path, key));
  const spec: AgentSpec = {
    prompt: read<string | null>("prompt", asPrompt, null),
    model: read("model", (model, at): AgentModel => readModel(model, at, notes), {}),
    command: read<readonly string[] | null>("command", asCommand, null),
    args: read<readonly string[]>("args", asArguments, []),
    env: read("env", readEnv, {}),
    role: read<string | null>("role", (role, at) => asText(role, at, 253), null),
    tier: read<AgentTier | null>("tier", (tier, at) => asOneOf(tier, AGENT_TIERS, at), null),
    retry: read("retry", readRetry, {}),
    budget: read("budget", readBudget, {}),
    timeoutMs: read<number | null>("timeout", asTimeout, null),
    parentTaskId: read<string | null>("parentTaskId", asJobId, null),
    resources: read<AgentResources>("resources", (given, at) => readResources(given, at, notes), NO_RESOURCES),
  };
  tellOfExpansion(spec, path, notes);
  return spec;
}

const NO_RESOURCES: AgentResources = { requests: {}, memoryLimit: null };

function asPrompt(value: unknown, path: string): string {
  const isGood = typeof value === "string" && value.trim() !== "" && Buffer.byteLength(value) <= MAX_PROMPT_BYTES;
  if (isGood) return value;
  throw new ConfigError({ path, given: value, allowed: `text, not empty, of at most ${MAX_PROMPT_BYTES} bytes` });
}

function asArguments(value: unknown, path: string): string[] {
  return asList(value, path, asArgument, MAX_ARGUMENTS);
}

function asCommand(value: unknown, path: string): string[] {
  const command = asList(value, path, asArgument, MAX_ARGUMENTS, 1);
  asText(command[0], `${path}[0]`, 4_096);
  return command;
}

function asArgument(value: unknown, path: string): string {
  if (typeof value === "string" && value.length <= MAX_ARGUMENT && !value.includes("\0")) return value;
  const hint = typeof value === "number" || typeof value === "boolean" ? "; put it in quotes" : "";
  throw new ConfigError({
    path,
    given: value,
    allowed: `text of at most ${MAX_ARGUMENT} characters, without NUL${hint}`,
  });
}

/** A list as in a pod, or an object of texts by name. */
function readEnv(value: unknown, path: string): Record<string, string> {
  const env: Record<string, string> = Object.create(null);
  const put = (name: unknown, text: unknown, nameAt: string, textAt: string) => {
    const known = asVariable(name, nameAt);
    if (Object.hasOwn(env, known)) {
      throw new ConfigError({
        path: nameAt,
        given: name,
        fix: "use each name once",
        problem: `${show(name)} is given twice`,
      });
    }
    env[known] = asArgument(text, textAt);
  };
  if (isPlain(value)) {
    for (const [name, text] of Object.entries(value)) put(name, text, fieldPath(path, name), fieldPath(path, name));
    return env;
  }
  asList(
    value,
    path,
    (item, at) => {
      const { name, value: text = "", valueFrom } = fieldsOf(item, at, ["name", "value", "valueFrom"]);
      if (valueFrom !== undefined) throw noSecrets(name, valueFrom, fieldPath(at, "valueFrom"));
      put(name, text, fieldPath(at, "name"), fieldPath(at, "value"));
    },
    1_000,
  );
  return env;
}

function noSecrets(name: unknown, given: unknown, path: string): ConfigError {
  const problem = `valueFrom of ${show(name)}: secrets and config maps are not supported`;
  return new ConfigError({
    path,
    given,
    allowed: "value, or no entry if the worker's environment has it",
    problem,
  });
}

function asVariable(value: unknown, path: string): string {
  const isName = typeof value === "string" && /^[A-Za-z_][A-Za-z0-9_]*$/.test(value) && value.length <= 1_000;
  if (isName && !value.startsWith("PERDURE_") && !OUR_VARIABLES.includes(value)) return value;
  const allowed = isName
    ? "other names; Perdure sets this one"
    : "a name of letters, digits and _, not beginning with a digit";
  throw new ConfigError({ path, given: value, allowed });
}

/** A kubelet would replace `$(NAME)`. */
function tellOfExpansion({ command, args, env }: AgentSpec, path: string, notes: string[]): void {
  const words = [...(command ?? []), ...args];
  for (const name of Object.keys(env)) {
    if (!words.some((word) => word.includes(`$(${name})`))) continue;
    notes.push(`${path}.command: $(${name}) is not replaced; in a shell, as in [sh, -c, …], use $${name}.`);
  }
}
