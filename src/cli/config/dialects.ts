/** The settings of the dialects as they read them. Roles of agents are read from their files here: a mistake in one is told
 *  with its place, when a server starts or a command reads a file that may need them. */
import { readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { show } from "../../core/errors.ts";
import { AGENT_TIERS, type AgentTier } from "../../dialects/agent-task/settings.ts";
import { OPAL_DEFAULTS } from "../../dialects/opal/settings.ts";
import type { DialectSettings } from "../../dialects/settings.ts";
import { usageError } from "../exit.ts";
import { readSmallFile, readYamlDocuments, textIn } from "../yaml/read.ts";
import { YAML_LIMITS } from "../yaml/scan.ts";
import type { Config } from "./config.ts";
import type { SettingKey } from "./settings.ts";
import { DIALECT_SETTINGS } from "./settings-dialects.ts";

const OF_OPAL = ["opal.engine", "opal.maxRetries", "opal.retryBackoffs"] as const satisfies readonly SettingKey[];
const OTHERS = DIALECT_SETTINGS.map(({ key }) => key);

/** All that reading a file of another system may ask for. */
export const DIALECT_KEYS: readonly SettingKey[] = [...OF_OPAL, ...OTHERS];

/** `cwd` is where paths of roles begin. */
export function dialectSettingsOf(config: Config, cwd: string): DialectSettings {
  const engine = config.list("opal.engine");
  const command = config.list("agent.command");
  return {
    opal: {
      engine: engine.length === 0 ? null : engine,
      maxRetries: config.integer("opal.maxRetries"),
      backoffs: config.numbers("opal.retryBackoffs") ?? OPAL_DEFAULTS.backoffs,
    },
    fluster: {
      defaultMaxRetriesFailure: config.integer("fluster.default_max_retries_failure"),
      defaultMaxRetriesPreemption: config.integer("fluster.default_max_retries_preemption"),
      defaultRetryDelayMs: config.integer("fluster.default_retry_delay_ms"),
    },
    attune: {
      ttlSecs: config.durationMs("attune.ttl") / 1_000,
      retry: {
        enabled: config.flag("attune.retry.enabled"),
        baseBackoffSecs: config.number("attune.retry.base_backoff_secs"),
        maxBackoffSecs: config.number("attune.retry.max_backoff_secs"),
        backoffMultiplier: config.number("attune.retry.backoff_multiplier"),
        jitterFactor: config.number("attune.retry.jitter_factor"),
      },
    },
    agent: {
      command: command.length === 0 ? null : command,
      retry: Object.fromEntries(AGENT_TIERS.map((tier) => [tier, tierOf(config, tier)])),
      roles: rolesOf(config.list("agent.roles"), config.blameOf("agent.roles"), cwd),
    },
  };
}

const TIER_FIELDS = ["maxAttempts", "backoffSeconds", "maxBackoffSeconds"] as const;

function tierOf(config: Config, tier: AgentTier): DialectSettings["agent"]["retry"][AgentTier] {
  const given = TIER_FIELDS.map((field) => [field, config.value(`agent.retry.${tier}.${field}`)]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

const YAML_NAME = /\.(ya?ml|json)$/i;

/** `blame` is what a path that cannot be read is told of. */
function rolesOf(paths: readonly string[], blame: string, cwd: string): unknown[] {
  return paths.flatMap((path) => {
    const full = resolve(cwd, path);
    let names: string[] | null;
    try {
      names = statSync(full).isDirectory() ? readdirSync(full).filter((name) => YAML_NAME.test(name)) : null;
    } catch (error) {
      throw usageError(`${blame}: ${whyNot(error as NodeJS.ErrnoException, path)}; name another, or leave it out`);
    }
    if (names === null) return rolesIn(full, path);
    return names.sort().flatMap((name) => rolesIn(join(full, name), join(path, name)));
  });
}

function whyNot({ code, message }: NodeJS.ErrnoException, path: string): string {
  if (code === "ENOENT" || code === "ENOTDIR") return `there is no file or directory ${show(path)}`;
  return `${show(path)} cannot be read: ${message}`;
}

/** The others of a file, as its tasks, are for `perdure apply`. */
function rolesIn(full: string, file: string): unknown[] {
  const bytes = readSmallFile(full, file, YAML_LIMITS.bytes + 1);
  if (bytes === null) return [];
  return readYamlDocuments(textIn(bytes, file), file)
    .map(({ value }) => value)
    .filter(isRole);
}

function isRole(value: unknown): boolean {
  return typeof value === "object" && value !== null && (value as { kind?: unknown }).kind === "ClusterAgentRole";
}
