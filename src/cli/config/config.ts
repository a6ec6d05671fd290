/** The effective settings: an option wins over the environment, the environment over the file, the file over the default.
 *  Each value knows where it came from. All of the file is checked, and of the rest what was asked for: a mistake in a
 *  setting of the server does not keep anybody from listing jobs. */
import type { Given } from "../arguments.ts";
import type { Option } from "../command.ts";
import { usageError } from "../exit.ts";
import type { Io } from "../io.ts";
import { type FileValues, readConfigFile } from "./config-file.ts";
import { BadValue, valueFromTexts } from "./read-value.ts";
import type { Setting, Value } from "./setting.ts";
import { type Ever, KEYS, type Key, type KeyOf, type Maybe, settingOf } from "./settings.ts";

export const CONFIG: Option = {
  ...{ name: "config", type: "string", value: "FILE" },
  help: "The file of settings. Default: PERDURE_CONFIG, or perdure.yaml here.",
};

interface Effective {
  readonly value: Value;
  /** `--port`, `PERDURE_PORT`, `perdure.yaml:3` or `default`. */
  readonly source: string;
  /** With its column, of what a file says. */
  readonly where?: string;
}

/** Asking for a setting that was not loaded is a bug of the command. */
export class Config {
  readonly #values: ReadonlyMap<Key, Effective>;

  constructor(values: ReadonlyMap<Key, Effective>) {
    this.#values = values;
  }

  text<K extends KeyOf<"text">>(key: K): Maybe<K, string> {
    return this.value(key) as Maybe<K, string>;
  }

  integer<K extends KeyOf<"integer">>(key: K): Maybe<K, number> {
    return this.value(key) as Maybe<K, number>;
  }

  number<K extends KeyOf<"number">>(key: K): Maybe<K, number> {
    return this.value(key) as Maybe<K, number>;
  }

  /** Null: for ever. */
  durationMs<K extends KeyOf<"duration">>(key: K): Maybe<K, Ever<K>> {
    return this.value(key) as Maybe<K, Ever<K>>;
  }

  bytes<K extends KeyOf<"size">>(key: K): Maybe<K, number> {
    return this.value(key) as Maybe<K, number>;
  }

  flag(key: KeyOf<"boolean">): boolean {
    return this.value(key) as boolean;
  }

  /** Of what was not given, nothing. */
  list(key: KeyOf<"list"> | KeyOf<"argv">): readonly string[] {
    return (this.value(key) ?? []) as readonly string[];
  }

  numbers<K extends KeyOf<"numbers">>(key: K): Maybe<K, readonly number[]> {
    return this.value(key) as Maybe<K, readonly number[]>;
  }

  labels(key: KeyOf<"labels">): Readonly<Record<string, string>> {
    return (this.value(key) ?? {}) as Readonly<Record<string, string>>;
  }

  value(key: Key): Value {
    return this.#of(key).value;
  }

  /** Those that were loaded, in the order in which they were asked for. */
  get keys(): readonly Key[] {
    return [...this.#values.keys()];
  }

  sourceOf(key: Key): string {
    return this.#of(key).source;
  }

  /** What a mistake in it begins with: `perdure.yaml:3:5: agent.roles`, `PERDURE_AGENT_ROLES`. */
  blameOf(key: Key): string {
    const { source, where } = this.#of(key);
    return where === undefined ? source : `${where}: ${key}`;
  }

  /** Given by somebody, and not a default. */
  isSet(key: Key): boolean {
    return this.#of(key).source !== DEFAULT;
  }

  #of(key: Key): Effective {
    const found = this.#values.get(key);
    if (found === undefined) throw new Error(`the setting ${key} was not loaded`);
    return found;
  }
}

const DEFAULT = "default";

/** `given` must be of a command that has `optionsFor` the same keys. Without it there are no options. */
export function loadConfig({ given, io }: { given?: Given; io: Io }, keys: readonly Key[] = KEYS): Config {
  const file = readConfigFile({ io, named: given?.text(CONFIG.name) });
  return new Config(new Map(keys.map((key) => [key, effective(key, given, io, file)])));
}

function effective(key: Key, given: Given | undefined, io: Io, file: FileValues): Effective {
  const setting = settingOf(key);
  const { flag, env } = setting;
  if (flag !== undefined && given?.flag(flag)) {
    const texts = setting.type === "boolean" ? ["true"] : given.texts(flag);
    return { value: told(`--${flag}`, setting, texts), source: `--${flag}` };
  }
  // Empty is not given: that is how a variable is taken back where it cannot be removed.
  const text = env === undefined ? "" : (io.env[env] ?? "");
  if (env !== undefined && text !== "") return { value: told(env, setting, [text]), source: env };
  return file.get(key) ?? inOtherTerms(setting, given, io, file) ?? { value: defaultOf(setting, io), source: DEFAULT };
}

/** The value that another system's setting gives this one, in whole milliseconds; null if none is given. */
function inOtherTerms(setting: Setting, given: Given | undefined, io: Io, file: FileValues): Effective | null {
  const set = (setting.orSeconds ?? [])
    .map((key) => effective(key as Key, given, io, file))
    .filter(({ source }) => source !== DEFAULT)
    .map(({ value, ...rest }) => ({ ...rest, value: Math.round((value as number) * 1_000) }));
  return set.sort((a, b) => a.value - b.value)[0] ?? null;
}

function told(source: string, setting: Setting, texts: readonly string[]): Value {
  try {
    return valueFromTexts(setting, texts);
  } catch (error) {
    if (error instanceof BadValue) throw usageError(`${source}: ${error.message}`);
    throw error;
  }
}

function defaultOf(setting: Setting, io: Io): Value {
  return typeof setting.default === "function" ? setting.default(io) : setting.default;
}
