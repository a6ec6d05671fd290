/** AgentTask on the command line. */
import type { Config } from "../../../cli/config/config.ts";
import type { DialectCli } from "../../cli/dialect-cli.ts";
import { AGENT_TIERS, type AgentRetrySettings, type AgentSettings, type AgentTier } from "../settings.ts";
import { rolesOf } from "./roles.ts";
import { AGENT_SETTINGS } from "./settings.ts";

const KEYS = AGENT_SETTINGS.map(({ key }) => key);
const TIER_FIELDS = ["maxAttempts", "backoffSeconds", "maxBackoffSeconds"] as const;

export const agentTaskCli: DialectCli = {
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
};

function tierOf(config: Config, tier: AgentTier): AgentRetrySettings {
  const given = TIER_FIELDS.map((field) => [field, config.value(`agent.retry.${tier}.${field}`)]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}
