/** AgentTask on the command line. */
import type { Config } from "../../../cli/config/config.ts";
import type { DialectCli } from "../../cli/dialect-cli.ts";
import { AGENT_TIERS, type AgentRetrySettings, type AgentSettings, type AgentTier } from "../settings.ts";
import { rolesOf } from "./roles.ts";
import { AGENT_SETTINGS } from "./settings.ts";

const KEYS = AGENT_SETTINGS.map(({ key }) => key);
const TIER_FIELDS = ["maxAttempts", "backoffSeconds", "maxBackoffSeconds"] as const;

export const agentTaskCli: DialectCli = {
  name: "agent-task",
  settings: {
    group: "agent",
    keys: KEYS,
    policyKeys: KEYS.filter((key) => key.startsWith("agent.retry.")),
    read: (config, cwd): AgentSettings => {
      const command = config.list("agent.command");
      return {
        command: command.length === 0 ? null : command,
        retry: Object.fromEntries(AGENT_TIERS.map((tier) => [tier, tierOf(config, tier)])),
        roles: rolesOf(config.list("agent.roles"), config.blameOf("agent.roles"), cwd),
      };
    },
  },
  help: {
    apply: {
      about:
        "An AgentTask that is applied again is the same job, by its namespace and name: nothing is stored if it is " +
        "unchanged, and one that differs is refused with what differs.",
    },
    describe: {
      about:
        "With -o agent-task, in the terms of AgentTask, whatever the job came from: a phase, a reason for each attempt " +
        "(transient, logical or budget), and events such as Normal/Retrying and Warning/RetryExhausted, with times in UTC; " +
        "with --json its manifest and status too.",
      examples: ["perdure describe -o agent-task job_01m7gekg9zevv9a6xvvwmt1v8g"],
    },
    get: {
      about: "-o yaml prints a job that came from an AgentTask as its manifest with its status.",
      examples: ["perdure get -o agent-task,yaml job_01m7gekg9zevv9a6xvvwmt1v8g"],
    },
    resubmit: {
      about:
        "With --role, retry, budget, model, tier and timeout of the previous role are replaced by those of the new one; " +
        "what the task itself set stays.",
      examples: [
        'perdure resubmit job_01m7gekg9zevv9a6xvvwmt1v8g --prompt "In one page"',
        "perdure resubmit job_01m7gekg9zevv9a6xvvwmt1v8g --model small -- ./agent",
        "perdure resubmit write-tests --role reviewer -f roles.yaml",
      ],
    },
  },
  describe: async (out, job) => (await import("./page.ts")).printAgentTask(out, job),
  resubmit: {
    options: [
      { name: "prompt", type: "string", value: "TEXT", help: "Another prompt, for an AgentTask." },
      { name: "model", type: "string", value: "NAME", help: "Another model, for an AgentTask." },
      {
        ...{ name: "role", type: "string", value: "NAME" },
        help: "Another ClusterAgentRole, for an AgentTask: of --file, or of the setting agent.roles.",
      },
      {
        ...{ name: "file", short: "f", type: "string", value: "FILE", multiple: true },
        help: "With --role: a file with ClusterAgentRole documents; - reads standard input.",
      },
    ],
    open: async (request) => (await import("./resubmit.ts")).agentCopier(request),
  },
};

function tierOf(config: Config, tier: AgentTier): AgentRetrySettings {
  const given = TIER_FIELDS.map((field) => [field, config.value(`agent.retry.${tier}.${field}`)]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}
