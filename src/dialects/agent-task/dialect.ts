/** The AgentTask dialect: recognises its documents and turns them into jobs. */
import { asOneOf, isPlain } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkExecInput, type ExecInput } from "../../core/input/exec-input.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { Dialect, ReadContext, ReadEntry, Reading } from "../dialect.ts";
import { namedTasks } from "./differences.ts";
import { agentEventTable, agentTaskEvents } from "./events.ts";
import { agentExec } from "./exec.ts";
import { ANNOTATION, asApiVersion, fieldsOf, ROLE_KIND, TASK_KIND } from "./fields.ts";
import { nameKeys, readMetadata } from "./metadata.ts";
import { findRole, isRole, readRole } from "./role.ts";
import { type AgentSpec, readSpec } from "./spec.ts";
import { type AgentValues, agentPolicy, effective } from "./values.ts";
import { agentTaskView } from "./view.ts";

// A list of manifests in one document, as written by `kubectl get agenttasks -o yaml`.

const LIST_KINDS = ["List", "AgentTaskList", "ClusterAgentRoleList"];

/** The paths of the manifests in a list; null if the document is not a list. */
export function listedManifests(document: unknown): (readonly [string, number])[] | null {
  if (!isPlain(document)) return null;
  const { apiVersion, kind, items } = document as Readonly<Record<string, unknown>>;
  if (typeof apiVersion !== "string" || typeof kind !== "string" || !LIST_KINDS.includes(kind)) return null;
  return Array.isArray(items) ? items.map((_, i) => ["items", i] as const) : null;
}

// An agent is a command that is retried for transient failures. Its result.json decides: `status: failed` is logical and
// final, `status: completed` is success. An attempt that fails without a result.json is transient and retried, as are
// timeouts, lost workers and lack of memory.

export const agentTask: Dialect = {
  name: "agent-task",
  called: "an AgentTask",

  recognises(document) {
    if (!isPlain(document)) return false;
    const { kind, apiVersion, spec } = document as Record<string, unknown>;
    return (kind === TASK_KIND || kind === ROLE_KIND) && (apiVersion !== undefined || spec !== undefined);
  },

  read(document, context): Reading {
    const notes: string[] = [];
    if (!isRole(document)) return { jobs: [readTask(document, context, notes)], notes };
    const { name } = readRole(document, notes);
    if (!context.documents.some((each) => namesRole(each, name))) {
      notes.push(
        `${ROLE_KIND} ${name}: a role is not a job; it applies to tasks that name it, in the same file, in another -f, or by the setting agent.roles.`,
      );
    }
    return { jobs: [], notes };
  },

  signs: {
    text: `apiVersion and kind: ${TASK_KIND}, its role kind: ${ROLE_KIND}`,
    fields: ["apiVersion", "kind", "spec"],
    common: ["metadata"],
    kinds: [TASK_KIND, ROLE_KIND],
  },
  isSource: ({ annotations }) => annotations?.[ANNOTATION.name] !== undefined,
  showsChildren: true,
  view: agentTaskView,
  events: agentTaskEvents,
  eventTable: (parts) => agentEventTable(agentTaskEvents(parts)),
  keysOf: nameKeys,
  reference: "the name of an AgentTask",
  named: namedTasks,
  bookkeeping: [ANNOTATION.values],
};

function namesRole(document: unknown, name: string): boolean {
  const { kind, spec } = (isPlain(document) ? document : {}) as { kind?: unknown; spec?: unknown };
  return kind === TASK_KIND && isPlain(spec) && (spec as { role?: unknown }).role === name;
}

function readTask(document: unknown, context: ReadContext, notes: string[]): ReadEntry {
  const fields = fieldsOf(document, "", ["apiVersion", "kind", "metadata", "spec", "status"]);
  const apiVersion = asApiVersion(fields.apiVersion, "apiVersion");
  asOneOf(fields.kind, [TASK_KIND, ROLE_KIND], "kind");
  const { name, tags, annotations } = readMetadata(fields.metadata, "metadata", notes);
  const spec = readSpec(fields.spec, "spec", notes);
  if (fields.status !== undefined) notes.push("status: belongs to another job and is ignored.");

  const role = spec.role === null ? null : findRole(spec.role, context, notes);
  const { tier, budget, model, timeoutMs, values, ...given } = effective(spec, role, context.settings);
  const retry = agentPolicy(given.retry, budget, notes);
  resolvePolicy(retry, "spec.retry");

  const input: ExecInput = agentExec({
    ...{ name, argv: argvOf(spec, context), prompt: spec.prompt, tier, budget, env: spec.env },
    ...{ role: spec.role, roleSpec: role?.spec ?? null, memoryLimit: spec.resources.memoryLimit },
    model,
  });
  checkExecInput(input, "spec");
  const { requests } = spec.resources;
  return {
    ...{ task: "exec", input },
    options: {
      ...{ retry, annotations: { ...annotations, ...own(apiVersion, spec, tier, values) } },
      ...(tags.length === 0 ? {} : { tags }),
      ...(timeoutMs === null ? {} : { timeout: timeoutMs }),
      ...(spec.parentTaskId === null ? {} : { parent: spec.parentTaskId }),
      ...(Object.keys(requests).length === 0 ? {} : { resources: requests }),
    },
  };
}

/** The task's own command, or the one configured for all agents. */
function argvOf({ command, args, prompt }: AgentSpec, { settings }: ReadContext): string[] {
  const agent = command ?? settings.agent.command;
  if (agent === null) {
    const problem = "no command to run";
    const fix = "set spec.command, or the setting agent.command, which runs all tasks without one";
    throw new ConfigError({ path: "spec", given: undefined, fix, problem });
  }
  if (command === null && prompt === null) {
    const fix = "set a prompt, or a command that needs none";
    throw new ConfigError({ path: "spec", given: undefined, fix, problem: "no prompt" });
  }
  return [...agent, ...args];
}

function own(
  apiVersion: string,
  { role, command }: AgentSpec,
  tier: string | null,
  values: AgentValues,
): Record<string, string> {
  return {
    [ANNOTATION.apiVersion]: apiVersion,
    ...(role === null ? {} : { [ANNOTATION.role]: role }),
    ...(tier === null ? {} : { [ANNOTATION.tier]: tier }),
    [ANNOTATION.values]: JSON.stringify({ ...values, command: [null, command === null ? "setting" : "spec"] }),
  };
}
