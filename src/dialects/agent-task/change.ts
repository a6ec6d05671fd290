/** A job once more, with another prompt, model or command: what a parent or a person does about a child whose failure another
 *  run of the same would not heal. All else stays: kind, policy, queue, priority, labels, tags, timeout, annotations, parent.
 *  Not taken along are its key and its deadline, which were about that one job. */
import { asList, asText, isPlain } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkExecInput, type ExecInput } from "../../core/exec-input.ts";
import { madeName } from "../../core/job-name.ts";
import { toPolicyInput } from "../../core/policy-input.ts";
import { resolvePolicy } from "../../core/resolve-policy.ts";
import { RESOURCE_PREFIX, resourcesIn } from "../../core/resources.ts";
import type { JobInfo } from "../../core/views.ts";
import type { ReadEntry } from "../dialect.ts";
import { withBudget, withModel, withPrompt } from "./exec.ts";
import { RESUBMIT_OF, VARIABLE } from "./words.ts";

/** What is different in the new job.
 *  @example
 *  const change: AgentChange = { prompt: "Shorter, please.", model: "opus" }; */
export interface AgentChange {
  readonly prompt?: string;
  /** The name of another model. */
  readonly model?: string;
  /** Another command, with its arguments. */
  readonly command?: readonly string[];
}

export function changed(job: JobInfo, change: AgentChange): ReadEntry {
  const isChanged = Object.values(change).some((each) => each !== undefined);
  if (isChanged && job.kind !== "exec") {
    const allowed = "only a job that is a command has a prompt, a model or a command";
    throw new ConfigError({ path: "resubmit", given: job.kind, allowed });
  }
  const input = isChanged ? changedInput(job.payload, change) : job.payload;
  const resources = resourcesIn(job.labels);
  const labels = Object.entries(job.labels).filter(([name]) => !name.startsWith(RESOURCE_PREFIX));
  return {
    task: job.kind,
    ...(input === undefined ? {} : { input }),
    options: {
      retry: toPolicyInput(job.policy),
      queue: job.queue,
      priority: job.priority,
      annotations: { ...job.annotations, [RESUBMIT_OF]: job.id },
      ...(job.name === madeName(job) ? {} : { name: job.name }),
      ...(job.tags.length === 0 ? {} : { tags: job.tags }),
      ...(labels.length === 0 ? {} : { labels: Object.fromEntries(labels) }),
      ...(resources === null ? {} : { resources: { cpu: resources.cpu / 1_000, memory: resources.memory } }),
      ...(job.timeoutMs === null ? {} : { timeout: job.timeoutMs }),
      ...(job.expireInMs === null ? {} : { expireIn: job.expireInMs }),
      ...(job.parentId === null ? {} : { parent: job.parentId }),
    },
  };
}

/** The input of an agent's command with the change made. For a handler that knows of its child's input only. */
export function changedInput(payload: unknown, { prompt, model, command }: AgentChange): ExecInput {
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

/** An agent finds its budget in its environment too: where the policy has another by now, it is told that one. */
export function withBudgetTold(entry: ReadEntry): ReadEntry {
  const input = (isPlain(entry.input) ? entry.input : {}) as ExecInput;
  const retry = entry.options?.retry;
  if (entry.task !== "exec" || retry === undefined || !isAgent(input)) return entry;
  const { costUsd, tokens } = resolvePolicy(retry, "resubmit").budget;
  const budget = {
    ...(costUsd === null ? {} : { maxCostUsd: costUsd }),
    ...(tokens === null ? {} : { maxTokens: tokens }),
  };
  return { ...entry, input: withBudget(input, budget) };
}

function isAgent({ env }: ExecInput): boolean {
  return isPlain(env) && Object.hasOwn(env, VARIABLE.taskName);
}

/** Another command would never look at these variables. */
function checkAgent(input: ExecInput, field: string): void {
  if (isAgent(input)) return;
  const problem = `the job is no AgentTask, so it has no ${field}`;
  throw new ConfigError({ path: `resubmit.${field}`, given: undefined, allowed: "only a command", problem });
}
