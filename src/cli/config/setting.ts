/** The types of settings. `settings.ts` has the table of all. */
import type { Io } from "../io.ts";

interface CommonSetting {
  /** As in the file: `server.port` is `port` under `server`. */
  readonly key: string;
  /** The option without dashes. Settings without a flag have no option. */
  readonly flag?: string;
  readonly env?: string;
  /** The placeholder of the value in the help: `N`. */
  readonly value?: string;
  readonly help: string;
  /** What is hidden: the whole value, or the password in an address. */
  readonly secret?: "all" | "password";
  /** Keys of equivalent settings of other systems, in seconds. If this setting is not given, the smallest of those given is
   *  used, with its source. */
  readonly secondsOf?: readonly string[];
}

type SettingDefault<T> = T | ((io: Pick<Io, "isTTY">) => T);

export interface TextSetting extends CommonSetting {
  readonly type: "text";
  readonly default?: SettingDefault<string>;
  readonly oneOf?: readonly string[];
  /** A further check, with the text of what is allowed. */
  readonly fits?: { readonly test: (text: string) => boolean; readonly allowed: string };
}

export interface IntegerSetting extends CommonSetting {
  readonly type: "integer";
  readonly default?: number;
  readonly min: number;
  readonly max: number;
}

/** May have a fraction. */
export interface NumberSetting extends CommonSetting {
  readonly type: "number";
  readonly default?: number;
  readonly min: number;
  readonly max: number;
}

/** Text with a unit, such as `30s`: a bare number would be ambiguous. */
export interface DurationSetting extends CommonSetting {
  readonly type: "duration";
  /** In milliseconds. */
  readonly default?: number;
  readonly min?: number;
  readonly max?: number;
  /** `forever` is allowed, and means null. */
  readonly forever?: true;
}

/** `10MB` is ten million bytes, `10MiB` a little more. */
export interface SizeSetting extends CommonSetting {
  readonly type: "size";
  /** As in the resources of jobs: `2g`; all units are powers of 1024. */
  readonly binary?: true;
  /** In bytes. */
  readonly default?: number;
  readonly min: number;
  readonly max: number;
}

export interface BooleanSetting extends CommonSetting {
  readonly type: "boolean";
  readonly default: boolean;
}

/** Separated by commas in the environment and on the command line, where the option may also be repeated. */
export interface ListSetting extends CommonSetting {
  readonly type: "list";
  readonly default?: readonly string[];
}

/** `name=value`, as a list; in the file also as a map. */
export interface LabelsSetting extends CommonSetting {
  readonly type: "labels";
  readonly default?: undefined;
}

/** Addresses of databases by name, each with a password: `name=address`, in the file a map. Each option and each variable with the
 *  prefix adds one; a name of several sources has the value of the first of option, environment and file. Values are not shown. */
export interface ConnectionsSetting extends CommonSetting {
  readonly type: "connections";
  /** The rest of the variable is the name. */
  readonly envPrefix: string;
  readonly default?: undefined;
}

/** One number or more, from 0 on: `3,8,15` or `[3, 8, 15]`. */
export interface NumbersSetting extends CommonSetting {
  readonly type: "numbers";
  readonly default?: readonly number[];
  readonly max: number;
}

/** A program and its arguments: a list, in one text as a JSON list, or as words between spaces. */
export interface ArgvSetting extends CommonSetting {
  readonly type: "argv";
  readonly default?: undefined;
}

export type Setting =
  | TextSetting
  | IntegerSetting
  | NumberSetting
  | DurationSetting
  | SizeSetting
  | BooleanSetting
  | ListSetting
  | LabelsSetting
  | ConnectionsSetting
  | NumbersSetting
  | ArgvSetting;

/** A checked value; undefined if not given and without a default. */
export type SettingValue =
  | string
  | number
  | boolean
  | null
  | readonly string[]
  | readonly number[]
  | Readonly<Record<string, string>>
  | undefined;
