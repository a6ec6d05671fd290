/** Changes of an AgentTask for a resubmit, and `resubmit` for programs. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import { asList, asText, isPlain } from "../../core/check.ts";
import { toMs } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkExecInput, type ExecInput } from "../../core/input/exec-input.ts";
import { RESOURCE_PREFIX, resourcesIn } from "../../core/input/resources.ts";
import { isTerminal } from "../../core/job/job.ts";
import { madeName } from "../../core/job/job-name.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { toPolicyInput } from "../../core/policy/policy-input.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { ReadEntry } from "../dialect.ts";
import { dialectSettingsFrom } from "../settings.ts";
import { RESUBMIT_OF, tagsFrom } from "../shared.ts";
import { withBudget, withModel, withPrompt } from "./exec.ts";
import { ANNOTATION, VARIABLE } from "./fields.ts";
import { inRole, type RoleSources } from "./role.ts";
import { type AgentValues, policyValues, readValues } from "./values.ts";

// A new job like another, with another prompt, model, command or role: for a child whose failure a further attempt would
// not fix. Everything else is copied: kind, policy, queue, priority, labels, tags, timeout, annotations, parent; another
// role brings its own defaults (`role.ts`). The key and the deadline are not copied.

/** What changes in the new job.
 *  @example
 *  const change: AgentChange = { prompt: "Shorter, please.", model: "opus" }; */
export interface AgentChange {
  readonly prompt?: string;
  /** The name of another model. */
  readonly model?: string;
  /** Another command, with its arguments. */
  readonly command?: readonly string[];
  /** The name of another `ClusterAgentRole`, whose defaults replace those of the old one. */
  readonly role?: string;
}

/** `roles` are searched for another role. */
export function changed(job: JobInfo, change: AgentChange, roles: RoleSources | null = null): ReadEntry {
  const { role, ...others } = change;
  const isChanged = Object.values(change).some((each) => each !== undefined);
  if (isChanged && job.kind !== "exec") {
    const allowed = "a job of kind exec: only those have a prompt, a model, a command or a role";
    throw new ConfigError({ path: "resubmit", given: job.kind, allowed });
  }
  const copy = copyOf(job);
  const entry = role === undefined || roles === null ? copy : inRole(job, asAgent(copy, "role"), role, roles);
  const input = isChanged ? changedInput(entry.input, others) : entry.input;
  const given: Record<string, AgentValues[string]> = {};
  if (change.model !== undefined) given["model.name"] = [null, "spec"];
  if (change.command !== undefined) given.command = [null, "spec"];
  return withValues(input === undefined ? entry : { ...entry, input }, given);
}

function copyOf(job: JobInfo): ReadEntry {
  const { payload } = job;
  const resources = resourcesIn(job.labels);
  const labels = Object.entries(job.labels).filter(([name]) => !name.startsWith(RESOURCE_PREFIX));
  return {
    task: job.kind,
    ...(payload === undefined ? {} : { input: payload }),
    options: {
      retry: toPolicyInput(job.policy),
      queue: job.queue,
      priority: job.priority,
      annotations: { ...job.annotations, [RESUBMIT_OF]: job.id },
      tags: tagsFrom(job),
      ...(job.name === madeName(job) ? {} : { name: job.name }),
      ...(labels.length === 0 ? {} : { labels: Object.fromEntries(labels) }),
      ...(resources === null ? {} : { resources: { cpu: resources.cpu / 1_000, memory: resources.memory } }),
      ...(job.timeoutMs === null ? {} : { timeout: job.timeoutMs }),
      ...(job.expireInMs === null ? {} : { expireIn: job.expireInMs }),
      ...(job.parentId === null ? {} : { parent: job.parentId }),
    },
  };
}

/** The changed input of an agent's command. Also for a handler that has only its child's input. */
export function changedInput(payload: unknown, { prompt, model, command }: Omit<AgentChange, "role">): ExecInput {
  let input = (isPlain(payload) ? payload : {}) as ExecInput;
  if (prompt !== undefined || model !== undefined) checkAgent(input, prompt === undefined ? "model" : "prompt");
  if (prompt !== undefined) input = withPrompt(input, asPrompt(prompt));
  if (model !== undefined) input = withModel(input, { name: asText(model, "resubmit.model", 500) });
  if (command !== undefined) {
    const { command: _text, shell: _shell, ...rest } = input;
    input = { ...rest, argv: asList(command, "resubmit.command", (word) => word as string, 10_000, 1) };
  }
  checkExecInput(input, "resubmit");
  return input;
}

function asPrompt(value: unknown): string {
  if (typeof value === "string" && value.trim() !== "") return value;
  throw new ConfigError({ path: "resubmit.prompt", given: value, allowed: "text, not empty" });
}

/** Applies a change of policy and timeout to an agent's job: updates the budget in its environment, and records
 *  changed values as given by the task itself. */
export function withChangesKept(before: ReadEntry, after: ReadEntry): ReadEntry {
  const input = (isPlain(after.input) ? after.input : {}) as ExecInput;
  if (after.task !== "exec" || after.options?.retry === undefined || !isAgent(input)) return after;
  const [was, is] = [numbersOf(before), numbersOf(after)];
  const given = Object.entries(is).filter(([path, value]) => value !== null && value !== was[path]);
  const { "budget.maxCostUsd": costUsd = null, "budget.maxTokens": tokens = null } = is;
  const budget = {
    ...(costUsd === null ? {} : { maxCostUsd: costUsd }),
    ...(tokens === null ? {} : { maxTokens: tokens }),
  };
  const values = given.map(([path, value]) => [path, [value, "spec"]] as const);
  return withValues({ ...after, input: withBudget(input, budget) }, Object.fromEntries(values));
}

/** By the paths of `AgentValues`. */
function numbersOf({ options = {} }: ReadEntry): Readonly<Record<string, number | null>> {
  const timeoutMs = options.timeout === undefined ? null : toMs(options.timeout, "resubmit.timeout");
  return policyValues(resolvePolicy(options.retry, "resubmit"), timeoutMs);
}

/** Records other sources for some values, if the job has such a record. */
function withValues(entry: ReadEntry, given: AgentValues): ReadEntry {
  const annotations = entry.options?.annotations ?? {};
  const values = readValues({ annotations });
  if (values === null || Object.keys(given).length === 0) return entry;
  const text = JSON.stringify({ ...values, ...given });
  return { ...entry, options: { ...entry.options, annotations: { ...annotations, [ANNOTATION.values]: text } } };
}

function asAgent(entry: ReadEntry, field: string): ReadEntry {
  checkAgent((isPlain(entry.input) ? entry.input : {}) as ExecInput, field);
  return entry;
}

function isAgent({ env }: ExecInput): boolean {
  return isPlain(env) && Object.hasOwn(env, VARIABLE.taskName);
}

/** Other commands do not read these variables. */
function checkAgent(input: ExecInput, field: string): void {
  if (isAgent(input)) return;
  const problem = `the job is not an AgentTask and has no ${field}`;
  throw new ConfigError({ path: `resubmit.${field}`, given: undefined, problem });
}

/** Options for the new job.
 *  @example
 *  const options: ResubmitOptions = { key: "summary-2" }; */
export interface ResubmitOptions {
  /** As in a submit: the same key again finds the existing job. */
  readonly key?: string;
  /** `ClusterAgentRole` documents that are searched for another role, before the setting `agent.roles`. */
  readonly roles?: readonly unknown[];
}

/** The new job, and the parent that it could not have.
 *  @example
 *  const { job: again, formerParent }: Resubmitted = await resubmit(perdure, job.id); */
export interface Resubmitted {
  readonly job: JobHandle<unknown>;
  /** The original job's parent if it has ended: the new job then has none. */
  readonly formerParent: string | null;
}

/** Submits a job like another, with another prompt, model, command or role, on an engine in this process or a server.
 *  The annotation `resubmit-of` has the id of the original job, and `jobs({ tag: "resubmit-of=" + id })` finds the new
 *  one.
 *  @example
 *  const { job: again } = await resubmit(perdure, job.id, { prompt: "Shorter, please." }); */
export async function resubmit(
  perdure: Pick<Perdure, "job" | "submit" | "dialectSettings">,
  id: string,
  change: AgentChange = {},
  { key, roles: documents = [] }: ResubmitOptions = {},
): Promise<Resubmitted> {
  const job = await (await perdure.job(id)).get();
  const roles = change.role === undefined ? null : { documents, settings: await dialectSettingsFrom(perdure) };
  const { task, input, options = {} } = changed(job, change, roles);
  const { parent, ...others } = options;
  const hasParent = parent !== undefined && !isTerminal((await (await perdure.job(parent)).get()).state);
  const wanted = { ...others, ...(hasParent ? { parent } : {}), ...(key === undefined ? {} : { key }) };
  return {
    job: await perdure.submit(task, input, wanted),
    formerParent: parent === undefined || hasParent ? null : parent,
  };
}
