/** What a setting is. `settings.ts` has the table of them all. */
import type { Io } from "../io.ts";

interface CommonSetting {
  /** As in the file: `server.port` is `port` under `server`. */
  readonly key: string;
  /** Without its dashes. A setting without one cannot be given on the command line. */
  readonly flag?: string;
  readonly env?: string;
  /** Stands for the value in the help: `N`. */
  readonly value?: string;
  readonly help: string;
  /** What is never shown: all of it, or the password within an address. */
  readonly secret?: "all" | "password";
  /** Keys of settings that say the same as this one, which is in seconds and in the terms of another system. Where such a
   *  setting is not given, the smallest of those that are given for it counts, with its source. */
  readonly secondsOf?: readonly string[];
}

type SettingDefault<T> = T | ((io: Pick<Io, "isTTY">) => T);

export interface TextSetting extends CommonSetting {
  readonly type: "text";
  readonly default?: SettingDefault<string>;
  readonly oneOf?: readonly string[];
  /** With what to say of a text that does not fit. */
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

/** Text with a unit, such as `30s`: a bare number would be read in another unit by half of all people. */
export interface DurationSetting extends CommonSetting {
  readonly type: "duration";
  /** In milliseconds. */
  readonly default?: number;
  readonly min?: number;
  readonly max?: number;
  /** `forever` may be given too, and is null. */
  readonly forever?: true;
}

/** `10MB` is ten million bytes, `10MiB` a little more. */
export interface SizeSetting extends CommonSetting {
  readonly type: "size";
  /** As the resources of jobs are written: `2g`, and all units are powers of 1024. */
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

/** Separated by commas in the environment and on the command line, where the option may be repeated too. */
export interface ListSetting extends CommonSetting {
  readonly type: "list";
  readonly default?: readonly string[];
}

/** `name=value`, as a list; in the file also as a map. */
export interface LabelsSetting extends CommonSetting {
  readonly type: "labels";
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
  | NumbersSetting
  | ArgvSetting;

/** A checked value; undefined where nothing was given and there is no default. */
export type SettingValue =
  | string
  | number
  | boolean
  | null
  | readonly string[]
  | readonly number[]
  | Readonly<Record<string, string>>
  | undefined;
