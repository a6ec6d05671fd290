/** The names under which an AgentTask's parts are kept in a job of ours: variables and files that its agent finds, and
 *  annotations for what is only shown again. Reading, viewing and changing go by the same table. */

/** What the agent finds in its environment. */
export const VARIABLE = {
  taskName: "AGENT_TASK_NAME",
  taskId: "AGENT_TASK_ID",
  /** 1-based. */
  attempt: "AGENT_ATTEMPT",
  /** Only of a prompt that an environment can hold. */
  prompt: "AGENT_PROMPT",
  promptFile: "AGENT_PROMPT_FILE",
  model: "AGENT_MODEL",
  modelEndpoint: "AGENT_MODEL_ENDPOINT",
  modelProvider: "AGENT_MODEL_PROVIDER",
  tier: "AGENT_TIER",
  role: "AGENT_ROLE",
  /** Only where the role's document was given. */
  roleFile: "AGENT_ROLE_FILE",
  maxCostUsd: "AGENT_MAX_COST_USD",
  maxTokens: "AGENT_MAX_TOKENS",
} as const;

export const OUR_VARIABLES: readonly string[] = Object.values(VARIABLE);

/** Of input files; the agent finds them in `inputs/` of the directory it is started in. */
export const PROMPT_FILE = "prompt.txt";
export const ROLE_FILE = "role.json";

export const PREFIX = "agent-task/";
export const ANNOTATION = {
  name: "agent-task/name",
  namespace: "agent-task/namespace",
  apiVersion: "agent-task/api-version",
  role: "agent-task/role",
  tier: "agent-task/tier",
  /** Where its values came from (`values.ts`). */
  values: "agent-task/values",
} as const;

export const TASK_KIND = "AgentTask";
export const ROLE_KIND = "ClusterAgentRole";
export const API_VERSION = "core.hortator.ai/v1alpha1";
