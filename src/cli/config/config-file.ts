/** Finds and reads the settings file. An unknown key is an error with its position and the nearest known key. */
import { resolve } from "node:path";
import { isPlain, nearest } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import type { YamlText } from "../../yaml/read.ts";
import { missingFileError, valueError } from "../exit.ts";
import { requireOwned } from "../input/read-file.ts";
import { readYamlFile, yamlUsageError } from "../input/yaml-file.ts";
import type { Io } from "../io.ts";
import { BadValue, valueFromFile } from "./read-value.ts";
import type { SettingValue } from "./setting.ts";
import { KEYS, type SettingKey, settingOf } from "./settings.ts";

/** Searched in the working directory, in this order. */
const NAMES = ["perdure.yaml", "perdure.yml", "perdure.json"];

export interface FileValue {
  readonly value: SettingValue;
  /** `perdure.yaml:3` */
  readonly source: string;
  /** `perdure.yaml:3:5` */
  readonly where: string;
}

export type FileValues = ReadonlyMap<SettingKey, FileValue>;

/** `named`: the value of `--config`. */
export function readConfigFile({ io, named }: { io: Pick<Io, "cwd" | "env">; named: string | undefined }): FileValues {
  const file = found(io, named);
  if (file === null || file.value === null) return new Map();
  const values = new Map<SettingKey, FileValue>();
  collect(file, file.value, [], values);
  return values;
}

function found({ cwd, env }: Pick<Io, "cwd" | "env">, named: string | undefined): YamlText | null {
  const [from, name] = named === undefined ? ["PERDURE_CONFIG", env.PERDURE_CONFIG || undefined] : ["--config", named];
  if (name !== undefined) {
    if (name.trim() === "" || name.includes("\0")) throw valueError(from, name, "a file");
    const file = readYamlFile(resolve(cwd, name), name);
    if (file === null) throw missingFileError(name, "pass another, or leave it out", from);
    return file;
  }
  for (const each of NAMES) {
    const path = resolve(cwd, each);
    const advice = `if you trust it, pass it with --config ${each}; it can choose servers to call and modules to run`;
    const file = readYamlFile(path, each, (descriptor) => requireOwned(descriptor, path, each, advice));
    if (file !== null) return file;
  }
  return null;
}

function collect(file: YamlText, value: unknown, path: readonly string[], values: Map<SettingKey, FileValue>): void {
  if (!isPlain(value)) {
    const name = path.length === 0 ? "the file" : path.join(".");
    throw yamlUsageError(
      file,
      path,
      `${name}: must be a map of settings, such as ${exampleOf(path)}; got ${show(value)}`,
    );
  }
  for (const [name, each] of Object.entries(value)) {
    const at = [...path, name];
    const key = at.join(".");
    const known = KEYS.find((candidate) => candidate === key);
    if (known !== undefined && !name.includes(".")) values.set(known, read(file, known, each, at));
    else if (!name.includes(".") && KEYS.some((candidate) => candidate.startsWith(`${key}.`))) {
      // An empty group, as when all its lines are commented out.
      if (each !== null) collect(file, each, at, values);
    } else throw unknown(file, at);
  }
}

function read(file: YamlText, key: SettingKey, given: unknown, path: readonly string[]): FileValue {
  try {
    const { line } = file.positionOf(path);
    const value = valueFromFile(settingOf(key), given);
    return { value, source: `${file.file}:${line}`, where: file.where(path) };
  } catch (error) {
    if (error instanceof BadValue) throw yamlUsageError(file, path, `${key}: ${error.message}`);
    throw error;
  }
}

function exampleOf(path: readonly string[]): string {
  const key = KEYS.find((candidate) => candidate.startsWith([...path, ""].join("."))) ?? "data";
  return `\`${key.slice([...path, ""].join(".").length)}: …\``;
}

/** Suggests the nearest key of the same group, else of all: `port` at the top suggests `server.port`. */
function unknown(file: YamlText, path: readonly string[]): Error {
  const key = path.join(".");
  if (KEYS.some((each) => each === key))
    return yamlUsageError(file, path, `${key}: a dot is a nested key; write ${nested(key)}`);
  const group = [...path.slice(0, -1), ""].join(".");
  const last = path.at(-1) ?? "";
  const beside = [...new Set(KEYS.filter((each) => each.startsWith(group)).map((each) => stepAfter(each, group)))];
  const same = KEYS.find((each) => each.split(".").at(-1) === last);
  const sibling = nearest(last, beside);
  const meant = sibling === null ? (same ?? nearest(key, KEYS)) : group + sibling;
  const hint = meant === null ? "see `perdure config` for all settings" : `did you mean ${meant}?`;
  return yamlUsageError(file, path, `${key}: setting does not exist; ${hint}`);
}

/** The key as nested YAML. */
function nested(key: string): string {
  const [last, ...above] = key.split(".").reverse();
  return `\`${above.reduce((within, step) => `${step}: { ${within} }`, `${last}: …`)}\``;
}

function stepAfter(key: string, group: string): string {
  return key.slice(group.length).split(".")[0] ?? "";
}
