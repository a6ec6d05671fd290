/** What the dialects add to the command line, and their settings as `Config` has them. */
import type { Config } from "../../cli/config/config.ts";
import type { SettingKey } from "../../cli/config/settings.ts";
import { agentTaskCli } from "../agent-task/cli/agent-task-cli.ts";
import { attuneCli } from "../attune/cli/attune-cli.ts";
import { flusterCli } from "../fluster/cli/fluster-cli.ts";
import { opalCli } from "../opal/cli/opal-cli.ts";
import type { DialectSettings } from "../settings.ts";
import type { DialectCli } from "./dialect-cli.ts";

export const DIALECT_CLIS: readonly DialectCli[] = [opalCli, flusterCli, attuneCli, agentTaskCli];

const READERS = DIALECT_CLIS.flatMap(({ settings }) => settings ?? []);

/** All settings that reading a file of another system may ask for. */
export const DIALECT_KEYS: readonly SettingKey[] = READERS.flatMap(({ keys }) => keys);

/** `cwd` is where relative paths start. A mistake in a file that a setting names is reported with its place. */
export function dialectSettingsOf(config: Config, cwd: string): DialectSettings {
  const groups = READERS.map(({ group, read }) => [group, read(config, cwd)]);
  return Object.fromEntries(groups) as unknown as DialectSettings;
}

/** The settings that change the policies of files, of the dialect whose preset this is. */
export function policyKeysOf(preset: string | undefined): readonly SettingKey[] {
  return READERS.find(({ group }) => group === preset)?.policyKeys ?? [];
}
