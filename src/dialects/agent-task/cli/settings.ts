/** Settings of the AgentTask dialect, under the names that its document uses. */
import type { Setting } from "../../../cli/config/setting.ts";

const DAY_SECS = 86_400;
const COUNT = { type: "integer", min: 0, max: 1_000_000 } as const;
const SECS = { type: "number", min: 0, max: DAY_SECS } as const;

const MAX_ATTEMPTS_HELP = "Attempts in total for a task of this tier; 0 and 1 both mean one.";
const BACKOFF_HELP = "Seconds before the first retry of a task of this tier.";
const MAX_BACKOFF_HELP = "Maximum seconds between retries of a task of this tier, before jitter.";

export const AGENT_SETTINGS = [
  {
    key: "agent.command",
    env: "PERDURE_AGENT_COMMAND",
    type: "argv",
    help: "The program, with its arguments, for agent tasks without a command.",
  },
  { ...COUNT, key: "agent.retry.legionary.maxAttempts", default: 3, help: MAX_ATTEMPTS_HELP },
  { ...SECS, key: "agent.retry.legionary.backoffSeconds", default: 15, help: BACKOFF_HELP },
  { ...SECS, key: "agent.retry.legionary.maxBackoffSeconds", help: MAX_BACKOFF_HELP },
  { ...COUNT, key: "agent.retry.centurion.maxAttempts", default: 1, help: MAX_ATTEMPTS_HELP },
  { ...SECS, key: "agent.retry.centurion.backoffSeconds", default: 30, help: BACKOFF_HELP },
  { ...SECS, key: "agent.retry.centurion.maxBackoffSeconds", help: MAX_BACKOFF_HELP },
  { ...COUNT, key: "agent.retry.tribune.maxAttempts", default: 0, help: MAX_ATTEMPTS_HELP },
  { ...SECS, key: "agent.retry.tribune.backoffSeconds", help: BACKOFF_HELP },
  { ...SECS, key: "agent.retry.tribune.maxBackoffSeconds", help: MAX_BACKOFF_HELP },
  {
    key: "agent.roles",
    env: "PERDURE_AGENT_ROLES",
    type: "list",
    help: "Files with ClusterAgentRole documents, or directories of such files.",
  },
] as const satisfies readonly Setting[];
