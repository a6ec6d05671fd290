/** All settings, in the order of `perdure config`. Users rely on the names of options, environment variables and keys. Paths
 *  are relative to the working directory, whatever their source. */
import { isName } from "../../core/names.ts";
import { DIALECT_SETTINGS } from "../../dialects/cli/settings.ts";
import type { Setting } from "./setting.ts";
import { SERVER_SETTINGS } from "./settings-server.ts";
import { WORKER_SETTINGS } from "./settings-worker.ts";

function isAddress(text: string): boolean {
  return /^https?:\/\//i.test(text) && URL.canParse(text);
}

const SHARED_SETTINGS = [
  {
    key: "data",
    flag: "data",
    env: "PERDURE_DATA",
    type: "text",
    default: "./.perdure",
    value: "DIR",
    fits: {
      test: (text: string) => !/^[a-z][a-z0-9+.-]+:\/\//i.test(text),
      allowed: "a directory (addresses are for --db)",
    },
    help: "The data directory.",
  },
  {
    key: "db",
    flag: "db",
    env: "PERDURE_DB",
    type: "text",
    value: "URL",
    secret: "password",
    help: "The database: postgres://user@host/name, or a file. Default: a file in the data directory.",
  },
  {
    key: "schema",
    flag: "schema",
    env: "PERDURE_SCHEMA",
    type: "text",
    value: "NAME",
    fits: { test: (text: string) => /^[^\p{Cc}"]{1,63}$/u.test(text), allowed: "a name of 1 to 63 characters" },
    help: "PostgreSQL: the schema of the tables. Default: perdure.",
  },
  {
    key: "url",
    flag: "server",
    env: "PERDURE_URL",
    type: "text",
    value: "URL",
    secret: "password",
    fits: { test: isAddress, allowed: "an address such as https://perdure.example:4400" },
    help: "The address of the server.",
  },
  // No option: all users of the machine can see arguments.
  { key: "token", env: "PERDURE_TOKEN", type: "text", secret: "all", help: "The access token for the server." },
  {
    key: "tokenFile",
    flag: "token-file",
    env: "PERDURE_TOKEN_FILE",
    type: "text",
    value: "FILE",
    help: "A file with the access token.",
  },
  {
    key: "namespace",
    flag: "namespace",
    env: "PERDURE_NAMESPACE",
    type: "text",
    default: "default",
    value: "NAME",
    fits: { test: (text: string) => isName(text), allowed: "a name of 1 to 200 characters" },
    help: "The namespace of jobs and workers.",
  },
] as const satisfies readonly Setting[];

export const SETTINGS = [...SHARED_SETTINGS, ...SERVER_SETTINGS, ...WORKER_SETTINGS, ...DIALECT_SETTINGS] as const;

type KnownSetting = (typeof SETTINGS)[number];
export type SettingKey = KnownSetting["key"];
export type SettingKeyOf<T extends Setting["type"]> = Extract<KnownSetting, { type: T }>["key"];

/** Undefined only without a default. */
export type MaybeUnsetSetting<K extends SettingKey, T> =
  Extract<KnownSetting, { key: K }> extends { default: unknown } ? T : T | undefined;
/** Null only if `forever` is allowed. */
export type MaybeForeverSetting<K extends SettingKey> =
  Extract<KnownSetting, { key: K }> extends { forever: true } ? number | null : number;

export const KEYS: readonly SettingKey[] = SETTINGS.map(({ key }) => key);

export function settingOf(key: SettingKey): Setting {
  const found = SETTINGS.find((setting) => setting.key === key);
  if (found === undefined) throw new Error(`setting ${key} does not exist`);
  return found;
}

/** Known variables that are not settings: set by workers for commands, or used by tests. */
const OURS: readonly string[] = [
  ...["PERDURE_CONFIG", "PERDURE_JOB_ID", "PERDURE_ATTEMPT", "PERDURE_OUTPUT_DIR", "PERDURE_RESULT_FILE"],
  ...["PERDURE_USAGE_FILE", "PERDURE_PREVIOUS_OUTPUT_DIR", "PERDURE_MARK"],
];

/** Whether Perdure uses a variable of the environment. */
export function isKnownVariable(name: string): boolean {
  return OURS.includes(name) || /^PERDURE_(TEST|PORT|CONNECTION)_./.test(name) || VARIABLES.includes(name);
}

/** Equivalent settings of other systems, in seconds. */
export function equivalentsOf(key: SettingKey): readonly SettingKey[] {
  return SETTINGS.filter((setting: Setting) => setting.secondsOf?.includes(key)).map((setting) => setting.key);
}

export const VARIABLES: readonly string[] = SETTINGS.flatMap((setting: Setting) => setting.env ?? []);
