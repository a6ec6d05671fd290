/** What the dialects add to the command line, and their settings read from `Config`. */
import type { CommandContext } from "../../cli/command.ts";
import type { Config } from "../../cli/config/config.ts";
import type { SettingKey } from "../../cli/config/settings.ts";
import { asOneOf } from "../../core/check.ts";
import { agentTaskCli } from "../agent-task/cli/agent-task-cli.ts";
import { attuneCli } from "../attune/cli/attune-cli.ts";
import type { ReadEntry } from "../dialect.ts";
import { flusterCli } from "../fluster/cli/fluster-cli.ts";
import { noetlCli } from "../noetl/cli/noetl-cli.ts";
import { opalCli } from "../opal/cli/opal-cli.ts";
import type { DialectSettings } from "../settings.ts";
import type { DialectCli, DialectHelp, DialectResubmit } from "./dialect-cli.ts";

export const DIALECT_CLIS: readonly DialectCli[] = [opalCli, flusterCli, noetlCli, attuneCli, agentTaskCli];

const READERS = DIALECT_CLIS.flatMap(({ settings }) => settings ?? []);

/** All settings that reading a file of another system may need. */
export const DIALECT_KEYS: readonly SettingKey[] = READERS.flatMap(({ keys }) => keys);

/** `cwd` is where relative paths start. A mistake in a file that a setting names is reported with its line. */
export function dialectSettingsOf(config: Config, cwd: string): DialectSettings {
  const groups = READERS.map(({ group, read }) => [group, read(config, cwd)]);
  return Object.fromEntries(groups) as unknown as DialectSettings;
}

/** The settings that change policies, for the dialect with this preset. */
export function policyKeysOf(preset: string | undefined): readonly SettingKey[] {
  return READERS.find(({ group }) => group === preset)?.policyKeys ?? [];
}

/** The help of a command with what the dialects add to it. */
export function withDialectHelp(command: string, own: DialectHelp) {
  const all = [own, ...DIALECT_CLIS.flatMap(({ help }) => help?.[command] ?? [])];
  const texts = all.flatMap(({ about }) => about ?? []);
  return {
    ...(texts.length === 0 ? {} : { about: texts.join(" ") }),
    examples: all.flatMap(({ examples }) => examples ?? []),
  };
}

type Describe = NonNullable<DialectCli["describe"]>;

const DESCRIBERS: ReadonlyMap<string, Describe> = new Map(
  DIALECT_CLIS.flatMap(({ name, describe }) => (describe === undefined ? [] : [[name, describe] as const])),
);

/** The views of `perdure describe -o`. */
export const DESCRIBE_VIEWS: readonly string[] = [...DESCRIBERS.keys()];

/** Throws a `ConfigError` that names the nearest view. */
export function describerOf(view: string, path: string): Describe {
  return DESCRIBERS.get(asOneOf(view, DESCRIBE_VIEWS, path)) as Describe;
}

/** The job with a name of some dialect; null for an ordinary kind. */
export async function namedJob(
  context: CommandContext,
  settings: () => Promise<DialectSettings>,
): Promise<ReadEntry | null> {
  for (const dialect of DIALECT_CLIS) {
    const entry = (await dialect.namedJob?.(context, settings)) ?? null;
    if (entry !== null) return entry;
  }
  return null;
}

/** The one dialect that can copy jobs. */
export const RESUBMIT = DIALECT_CLIS.find(({ resubmit }) => resubmit !== undefined)?.resubmit as DialectResubmit;
