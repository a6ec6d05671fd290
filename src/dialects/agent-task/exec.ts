/** Turns a task into a command: the agent, which gets its task in its environment and in files.
 *
 *    AGENT_TASK_NAME, AGENT_TASK_ID, AGENT_ATTEMPT   the task, and the number of this attempt, from 1
 *    AGENT_PROMPT         the prompt, if it has at most 32 KiB and no NUL
 *    AGENT_PROMPT_FILE    a file with the prompt, if there is one
 *    AGENT_MODEL, AGENT_MODEL_ENDPOINT, AGENT_MODEL_PROVIDER, AGENT_TIER, AGENT_MAX_COST_USD, AGENT_MAX_TOKENS
 *    AGENT_ROLE, AGENT_ROLE_FILE     the role's name, and its `spec` as JSON
 *
 *  Paths are relative to the attempt's directory, in which the agent starts and writes its result.json. */
import type { ExecInput } from "../../core/input/exec-input.ts";
import { type AgentBudget, type AgentModel, PROMPT_FILE, ROLE_FILE, VARIABLE } from "./fields.ts";
import type { AgentTier } from "./settings.ts";

export interface AgentCommand {
  readonly name: string;
  readonly argv: readonly string[];
  readonly prompt: string | null;
  readonly model: AgentModel;
  readonly tier: AgentTier | null;
  readonly role: string | null;
  readonly roleSpec: object | null;
  readonly budget: AgentBudget;
  /** Variables from the manifest. */
  readonly env: Readonly<Record<string, string>>;
  /** Bytes. */
  readonly memoryLimit: number | null;
}

export function agentExec(task: AgentCommand): ExecInput {
  const { name, argv, prompt, model, tier, role, roleSpec, budget, memoryLimit } = task;
  const bare: ExecInput = { argv, env: { ...task.env, [VARIABLE.taskName]: name }, files: {} };
  const input: ExecInput = {
    ...withRole(bare, { tier, role, roleSpec }),
    fill: { [VARIABLE.taskId]: "jobId", [VARIABLE.attempt]: "attempt" },
    ...(memoryLimit === null ? {} : { limits: { memory: memoryLimit } }),
  };
  return withModel(withBudget(prompt === null ? input : withPrompt(input, prompt), budget), model);
}

/** The command with another role and tier. */
export function withRole(
  input: ExecInput,
  { tier, role, roleSpec }: Pick<AgentCommand, "tier" | "role" | "roleSpec">,
): ExecInput {
  const { [VARIABLE.tier]: _tier, [VARIABLE.role]: _role, [VARIABLE.roleFile]: _file, ...env } = input.env ?? {};
  const { [ROLE_FILE]: _document, ...files } = input.files ?? {};
  return {
    ...input,
    env: {
      ...env,
      ...(tier === null ? {} : { [VARIABLE.tier]: tier }),
      ...(role === null ? {} : { [VARIABLE.role]: role }),
      ...(roleSpec === null ? {} : { [VARIABLE.roleFile]: `inputs/${ROLE_FILE}` }),
    },
    files: { ...files, ...(roleSpec === null ? {} : { [ROLE_FILE]: base64(JSON.stringify(roleSpec)) }) },
  };
}

const MAX_ENV_PROMPT_BYTES = 32_768;

/** The command with another prompt. */
export function withPrompt(input: ExecInput, prompt: string): ExecInput {
  const { [VARIABLE.prompt]: _before, ...env } = input.env ?? {};
  const fits = Buffer.byteLength(prompt) <= MAX_ENV_PROMPT_BYTES && !prompt.includes("\0");
  return {
    ...input,
    env: {
      ...env,
      [VARIABLE.promptFile]: `inputs/${PROMPT_FILE}`,
      ...(fits ? { [VARIABLE.prompt]: prompt } : {}),
    },
    files: { ...input.files, [PROMPT_FILE]: base64(prompt) },
  };
}

/** The command with another model, or with another name of the model only. */
export function withModel(input: ExecInput, { name, endpoint, provider }: AgentModel): ExecInput {
  return {
    ...input,
    env: {
      ...input.env,
      ...(name === undefined ? {} : { [VARIABLE.model]: name }),
      ...(endpoint === undefined ? {} : { [VARIABLE.modelEndpoint]: endpoint }),
      ...(provider === undefined ? {} : { [VARIABLE.modelProvider]: provider }),
    },
  };
}

/** The command with another budget in its environment. */
export function withBudget(input: ExecInput, { maxCostUsd, maxTokens }: AgentBudget): ExecInput {
  const { [VARIABLE.maxCostUsd]: _cost, [VARIABLE.maxTokens]: _tokens, ...env } = input.env ?? {};
  return {
    ...input,
    env: {
      ...env,
      ...(maxCostUsd === undefined ? {} : { [VARIABLE.maxCostUsd]: String(maxCostUsd) }),
      ...(maxTokens === undefined ? {} : { [VARIABLE.maxTokens]: String(maxTokens) }),
    },
  };
}

function base64(text: string): string {
  return Buffer.from(text, "utf8").toString("base64");
}
