/** The effective settings: options override the environment, the environment overrides the file, the file overrides
 *  defaults. Each value knows its source. The whole file is checked, but other values only if the command needs them: an
 *  error in a server setting must not stop `perdure ps`. */

import type { SettingFact } from "../../core/job/views.ts";
import type { Arguments, CommandOption } from "../command.ts";
import { usageError } from "../exit.ts";
import type { Io } from "../io.ts";
import { type FileValues, readConfigFile } from "./config-file.ts";
import { BadValue, valueFromTexts } from "./read-value.ts";
import type { ConnectionsSetting, Setting, SettingValue } from "./setting.ts";
import {
  equivalentsOf,
  KEYS,
  type MaybeForeverSetting,
  type MaybeUnsetSetting,
  type SettingKey,
  type SettingKeyOf,
  settingOf,
} from "./settings.ts";
import { shownValue } from "./show-value.ts";

const CONFIG: CommandOption = {
  ...{ name: "config", type: "string", value: "FILE" },
  help: "The settings file. Default: PERDURE_CONFIG, or perdure.yaml here.",
};

interface EffectiveSetting {
  readonly value: SettingValue;
  /** `--port`, `PERDURE_PORT`, `perdure.yaml:3` or `default`. */
  readonly source: string;
  /** With its column, if it is from a file. */
  readonly where?: string;
}

/** Reading a setting that was not loaded is a bug of the command. */
export class Config {
  readonly #values: ReadonlyMap<SettingKey, EffectiveSetting>;

  constructor(values: ReadonlyMap<SettingKey, EffectiveSetting>) {
    this.#values = values;
  }

  text<K extends SettingKeyOf<"text">>(key: K): MaybeUnsetSetting<K, string> {
    return this.value(key) as MaybeUnsetSetting<K, string>;
  }

  integer<K extends SettingKeyOf<"integer">>(key: K): MaybeUnsetSetting<K, number> {
    return this.value(key) as MaybeUnsetSetting<K, number>;
  }

  number<K extends SettingKeyOf<"number">>(key: K): MaybeUnsetSetting<K, number> {
    return this.value(key) as MaybeUnsetSetting<K, number>;
  }

  /** Null: `forever`. */
  durationMs<K extends SettingKeyOf<"duration">>(key: K): MaybeUnsetSetting<K, MaybeForeverSetting<K>> {
    return this.value(key) as MaybeUnsetSetting<K, MaybeForeverSetting<K>>;
  }

  bytes<K extends SettingKeyOf<"size">>(key: K): MaybeUnsetSetting<K, number> {
    return this.value(key) as MaybeUnsetSetting<K, number>;
  }

  flag(key: SettingKeyOf<"boolean">): boolean {
    return this.value(key) as boolean;
  }

  /** Empty if not set. */
  list(key: SettingKeyOf<"list"> | SettingKeyOf<"argv">): readonly string[] {
    return (this.value(key) ?? []) as readonly string[];
  }

  numbers<K extends SettingKeyOf<"numbers">>(key: K): MaybeUnsetSetting<K, readonly number[]> {
    return this.value(key) as MaybeUnsetSetting<K, readonly number[]>;
  }

  labels(key: SettingKeyOf<"labels">): Readonly<Record<string, string>> {
    return (this.value(key) ?? {}) as Readonly<Record<string, string>>;
  }

  connections(key: SettingKeyOf<"connections">): Readonly<Record<string, string>> {
    return (this.value(key) ?? {}) as Readonly<Record<string, string>>;
  }

  value(key: SettingKey): SettingValue {
    return this.#of(key).value;
  }

  /** The loaded settings, in the requested order. */
  get keys(): readonly SettingKey[] {
    return [...this.#values.keys()];
  }

  sourceOf(key: SettingKey): string {
    return this.#of(key).source;
  }

  /** The prefix of errors about it: `perdure.yaml:3:5: agent.roles`, `PERDURE_AGENT_ROLES`. */
  blameOf(key: SettingKey): string {
    const { source, where } = this.#of(key);
    return where === undefined ? source : `${where}: ${key}`;
  }

  /** Set explicitly, not by default. */
  isSet(key: SettingKey): boolean {
    return this.#of(key).source !== DEFAULT;
  }

  #of(key: SettingKey): EffectiveSetting {
    const found = this.#values.get(key);
    if (found === undefined) throw new Error(`the setting ${key} was not loaded`);
    return found;
  }
}

const DEFAULT = "default";

/** `given` must be of a command with `optionsFor` the same keys. Without it no options are read. */
export function loadConfig({ given, io }: { given?: Arguments; io: Io }, keys: readonly SettingKey[] = KEYS): Config {
  const file = readConfigFile({ io, named: given?.text(CONFIG.name) });
  return new Config(new Map(keys.map((key) => [key, effective(key, given, io, file)])));
}

function effective(key: SettingKey, given: Arguments | undefined, io: Io, file: FileValues): EffectiveSetting {
  const setting = settingOf(key);
  if (setting.type === "connections") return connectionsFrom(setting, given, io, file);
  const { flag, env } = setting;
  if (flag !== undefined && given?.flag(flag)) {
    const texts = setting.type === "boolean" ? ["true"] : given.texts(flag);
    return { value: valueFrom(`--${flag}`, setting, texts), source: `--${flag}` };
  }
  // An empty variable counts as unset: some environments cannot remove one.
  const text = env === undefined ? "" : (io.env[env] ?? "");
  if (env !== undefined && text !== "") return { value: valueFrom(env, setting, [text]), source: env };
  return file.get(key) ?? inOtherTerms(setting, given, io, file) ?? { value: defaultOf(setting, io), source: DEFAULT };
}

/** From all sources together. */
function connectionsFrom(
  setting: ConnectionsSetting,
  given: Arguments | undefined,
  io: Io,
  file: FileValues,
): EffectiveSetting {
  const { key, flag = "", envPrefix } = setting;
  const found: EffectiveSetting[] = [];
  const inFile = file.get(key as SettingKey);
  if (inFile !== undefined) found.push(inFile);
  for (const [name, address = ""] of Object.entries(io.env).sort()) {
    if (!name.startsWith(envPrefix) || name === envPrefix || address === "") continue;
    found.push({ value: valueFrom(name, setting, [`${name.slice(envPrefix.length)}=${address}`]), source: name });
  }
  if (given?.flag(flag)) found.push({ value: valueFrom(`--${flag}`, setting, given.texts(flag)), source: `--${flag}` });
  if (found.length === 0) return { value: undefined, source: DEFAULT };
  const sources = found.map(({ source }) => source).reverse();
  return { value: Object.assign({}, ...found.map(({ value }) => value)), source: sources.join(", ") };
}

/** The value from the equivalent setting of another system, in whole milliseconds; null if none is set. */
function inOtherTerms(
  setting: Setting,
  given: Arguments | undefined,
  io: Io,
  file: FileValues,
): EffectiveSetting | null {
  const set = equivalentsOf(setting.key as SettingKey)
    .map((key) => effective(key, given, io, file))
    .filter(({ source }) => source !== DEFAULT)
    .map(({ value, ...rest }) => ({ ...rest, value: Math.round((value as number) * 1_000) }));
  return set.sort((a, b) => a.value - b.value)[0] ?? null;
}

function valueFrom(source: string, setting: Setting, texts: readonly string[]): SettingValue {
  try {
    return valueFromTexts(setting, texts);
  } catch (error) {
    if (error instanceof BadValue) throw usageError(`${source}: ${error.message}`);
    throw error;
  }
}

function defaultOf(setting: Setting, io: Io): SettingValue {
  return typeof setting.default === "function" ? setting.default(io) : setting.default;
}

/** The command-line options of these settings in order, then `--config`. Settings without an option are left out. */
export function optionsFor(keys: readonly SettingKey[]): CommandOption[] {
  return [...keys.map(settingOf).flatMap(optionOf), CONFIG];
}

const PLACEHOLDERS = {
  text: "TEXT",
  integer: "N",
  number: "N",
  duration: "TIME",
  size: "SIZE",
  numbers: "LIST",
} as const;

function optionOf(setting: Setting): CommandOption[] {
  const { flag: name, type, value } = setting;
  if (name === undefined) return [];
  if (type === "boolean") return [{ name, type, help: helpOf(setting) }];
  const isMultiple = type === "list" || type === "labels" || type === "numbers" || type === "connections";
  const placeholder = value ?? (PLACEHOLDERS as Readonly<Record<string, string>>)[type] ?? "LIST";
  return [
    {
      ...{ name, type: "string", value: placeholder, help: helpOf(setting) },
      ...(isMultiple ? { multiple: true } : {}),
    },
  ];
}

/** Adds the default, unless the text contains it. */
function helpOf(setting: Setting): string {
  const { help, env } = setting;
  const shown = typeof setting.default === "function" ? null : shownValue(setting, setting.default);
  const isTold = help.includes("Default:") || shown === null || shown === false;
  const named = env === undefined ? "" : `${env}, or `;
  return isTold ? help : `${help} Default: ${named}${String(shown)}.`;
}

export function factOf(config: Config, key: SettingKey): SettingFact {
  return { key, value: shownValue(settingOf(key), config.value(key)), source: config.sourceOf(key) };
}

/** All loaded settings as `perdure config` shows them. */
export function factsOf(config: Config): SettingFact[] {
  return config.keys.map((key) => factOf(config, key));
}
