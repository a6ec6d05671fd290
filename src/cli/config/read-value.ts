/** Parses and checks the value of a setting. On the command line and in the environment every value is text; in the file a
 *  number must be a number, not text. */
import { nearest } from "../../core/check.ts";
import { toMs } from "../../core/duration.ts";
import { show } from "../../core/errors.ts";
import { CONNECTION_ADDRESS, CONNECTION_NAME, isConnectionAddress, normalName } from "../../core/input/connections.ts";
import { toBytes } from "../../core/input/resources.ts";
import type {
  DurationSetting,
  IntegerSetting,
  NumberSetting,
  Setting,
  SettingValue,
  SizeSetting,
  TextSetting,
} from "./setting.ts";
import { showBytes, showMemory, showSpan } from "./show-value.ts";

/** A wrong value, and what is allowed; the caller adds the source of the value. */
export class BadValue extends Error {
  constructor(setting: Setting, given: unknown, allowed: string, hint = "") {
    super(`must be ${allowed}; got ${shown(setting, given)}${hint}`);
  }
}

/** An address may contain a password even where none is expected, and so may malformed text. A short word, such as a host,
 *  contains none; a token contains an underscore. */
function shown({ secret }: Setting, given: unknown): string {
  const isWord = typeof given === "string" && /^[a-z0-9.-]{1,40}(:\d{1,5})?$/i.test(given);
  if (secret === "password" && isWord) return show(given);
  if (secret === "password") return "something else (not shown, as it may hold a password)";
  if (typeof given === "string" && given.includes("://")) return "an address (not shown, as it may hold a password)";
  return secret === undefined ? show(given) : "a value that is not shown";
}

/** `texts`: several if an option was repeated. */
export function valueFromTexts(setting: Setting, texts: readonly string[]): SettingValue {
  const text = texts[0] ?? "";
  switch (setting.type) {
    case "text":
      return textOf(setting, text);
    case "integer":
      return integerOf(setting, /^-?\d{1,16}$/.test(text.trim()) ? Number(text) : text);
    case "number":
      return numberOf(setting, /^\d{1,15}(\.\d{1,6})?$/.test(text.trim()) ? Number(text) : text);
    case "duration":
      return durationOf(setting, text);
    case "size":
      return sizeOf(setting, text);
    case "boolean":
      return booleanOf(setting, text);
    case "list":
      return listOf(setting, texts.flatMap(commas));
    case "labels":
      return labelsOf(setting, texts.flatMap(commas));
    case "connections": // not split: a password may contain a comma
      return connectionsOf(setting, texts);
    case "numbers":
      return numbersOf(setting, texts.flatMap(numberTexts), texts.length === 1 ? text : texts);
    case "argv":
      return argvOf(setting, text);
  }
}

/** `given`: a value of the file. */
export function valueFromFile(setting: Setting, given: unknown): SettingValue {
  switch (setting.type) {
    case "text":
      return textOf(setting, given);
    case "integer":
      return integerOf(setting, given);
    case "number":
      return numberOf(setting, given);
    case "duration":
      return durationOf(setting, given);
    case "size":
      return sizeOf(setting, given);
    case "boolean":
      if (typeof given === "boolean") return given;
      throw new BadValue(setting, given, "true or false");
    case "list":
      // A single text is a list of one. Text with a comma is refused, as it is unclear whether it means several.
      return listOf(setting, typeof given === "string" && !given.includes(",") ? [given] : given);
    case "labels":
      return labelsOf(setting, given);
    case "connections":
      return connectionsOf(setting, given);
    case "numbers":
      return numbersOf(setting, given, given);
    case "argv":
      return argvOf(setting, given);
  }
}

function textOf(setting: TextSetting, given: unknown): string {
  const { oneOf, fits } = setting;
  if (oneOf !== undefined) {
    if (typeof given === "string" && oneOf.includes(given)) return given;
    const near = typeof given === "string" ? nearest(given, oneOf) : null;
    throw new BadValue(setting, given, `one of ${oneOf.join(", ")}`, near === null ? "" : `. Did you mean ${near}?`);
  }
  if (!isFilled(given)) throw new BadValue(setting, given, "a text of 1 to 4096 characters");
  if (fits !== undefined && !fits.test(given)) throw new BadValue(setting, given, fits.allowed);
  return given;
}

function isFilled(given: unknown): given is string {
  return typeof given === "string" && given.trim() !== "" && given.length <= 4_096 && !given.includes("\0");
}

function integerOf(setting: IntegerSetting, given: unknown): number {
  const { min, max } = setting;
  if (Number.isSafeInteger(given) && (given as number) >= min && (given as number) <= max) return given as number;
  throw new BadValue(setting, given, `a whole number from ${min} to ${max}`);
}

function numberOf(setting: NumberSetting, given: unknown): number {
  const { min, max } = setting;
  if (typeof given === "number" && given >= min && given <= max) return given;
  throw new BadValue(setting, given, `a number from ${min} to ${max}`);
}

function durationOf(setting: DurationSetting, given: unknown): number | null {
  const { min = 0, max = Number.POSITIVE_INFINITY, forever } = setting;
  if (forever && given === "forever") return null;
  const bounds = [
    ...(min > 0 ? [`at least ${showSpan(min)}`] : []),
    ...(max < Number.POSITIVE_INFINITY ? [`at most ${showSpan(max)}`] : []),
  ];
  const limits = bounds.length === 0 ? "" : `${bounds.join(" and ")}, `;
  const allowed = `a time with its unit, ${limits}such as 500ms, 30s, 5m, 2h or 1d${forever ? ", or forever" : ""}`;
  let ms = Number.NaN;
  try {
    if (typeof given === "string") ms = toMs(given, setting.key);
  } catch {
    // Reported below, with the limits of the setting.
  }
  if (ms >= min && ms <= max) return ms;
  throw new BadValue(setting, given, allowed);
}

const UNITS: Readonly<Record<string, number>> = {
  ...{ "": 1, b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 },
  ...{ kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40 },
};

function sizeOf(setting: SizeSetting, given: unknown): number {
  if (setting.binary) return memoryOf(setting, given);
  const text = typeof given === "number" || typeof given === "string" ? String(given).trim() : "";
  const [, number = "", unit = ""] = /^(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?i?b|)$/i.exec(text) ?? [];
  const factor = Object.hasOwn(UNITS, unit.toLowerCase()) ? (UNITS[unit.toLowerCase()] as number) : Number.NaN;
  const bytes = number === "" ? Number.NaN : Math.round(Number(number) * factor);
  if (bytes >= setting.min && bytes <= setting.max) return bytes;
  const bounds = `from ${showBytes(setting.min)} to ${showBytes(setting.max)}`;
  throw new BadValue(setting, given, `a size such as 500kB, 10MB or 1GiB, ${bounds}`);
}

function memoryOf(setting: SizeSetting, given: unknown): number {
  const { key, min, max } = setting;
  let bytes = Number.NaN;
  try {
    bytes = toBytes(typeof given === "string" ? given.trim() : given, key);
  } catch {
    // Reported below, with the limits of the setting.
  }
  if (bytes >= min && bytes <= max) return bytes;
  throw new BadValue(setting, given, `a size such as 512m or 8g, from ${showMemory(min)} to ${showMemory(max)}`);
}

const WORDS: Readonly<Record<string, boolean>> = {
  ...{ true: true, "1": true, yes: true, on: true },
  ...{ false: false, "0": false, no: false, off: false },
};

function booleanOf(setting: Setting, text: string): boolean {
  const word = text.trim().toLowerCase();
  if (Object.hasOwn(WORDS, word)) return WORDS[word] as boolean;
  throw new BadValue(setting, text, "true or false");
}

function commas(text: string): string[] {
  return text.split(",").map((part) => part.trim());
}

function listOf(setting: Setting, given: unknown): string[] {
  if (Array.isArray(given) && given.length <= 1_000 && given.every(isFilled)) return given;
  throw new BadValue(setting, given, "a list of texts, none of them empty, such as a,b (in a file: [a, b])");
}

function labelsOf(setting: Setting, given: unknown): Record<string, string> {
  const allowed = "a list such as gpu=a100,zone=b (in a file: [gpu=a100], or a map of names and texts), each name once";
  const isMap = typeof given === "object" && given !== null && !Array.isArray(given);
  const pairs = isMap ? Object.entries(given) : Array.isArray(given) ? given.map(pairOf) : [];
  const labels: Record<string, string> = Object.create(null);
  for (const [name, value] of pairs) {
    if (!isFilled(name) || !isFilled(value) || Object.hasOwn(labels, name)) throw new BadValue(setting, given, allowed);
    labels[name] = value;
  }
  if (isMap || Array.isArray(given)) return labels;
  throw new BadValue(setting, given, allowed);
}

function connectionsOf(setting: Setting, given: unknown): Record<string, string> {
  const isMap = typeof given === "object" && given !== null && !Array.isArray(given);
  const pairs = isMap ? Object.entries(given) : Array.isArray(given) ? given.map(pairOf) : [[given, null]];
  const connections: Record<string, string> = Object.create(null);
  for (const [named, address] of pairs) {
    const name = normalName(named);
    if (name !== null && isConnectionAddress(address) && !Object.hasOwn(connections, name)) connections[name] = address;
    else {
      const allowed = `NAME=URL, each name once (in a file: a map of names and addresses): NAME is ${CONNECTION_NAME}; URL is ${CONNECTION_ADDRESS}`;
      throw new BadValue({ ...setting, secret: "all" }, "", allowed);
    }
  }
  return connections;
}

function pairOf(item: unknown): [unknown, unknown] {
  const [, name, value] = typeof item === "string" ? (/^([^=]+)=(.+)$/s.exec(item) ?? []) : [];
  return [name, value];
}

/** `[3, 8, 15]` or `3,8,15` */
function numberTexts(text: string): unknown[] {
  const [, inside = text] = /^\s*\[(.*)\]\s*$/s.exec(text) ?? [];
  if (inside.trim() === "") return [];
  return commas(inside).map((part) => (/^\d{1,15}(\.\d{1,6})?$/.test(part) ? Number(part) : part));
}

/** The maximum number of delays of a policy. */
const MAX_NUMBERS = 100;

function numbersOf(setting: Setting & { max: number }, given: unknown, shown: unknown): number[] {
  const fits = (each: unknown) => typeof each === "number" && each >= 0 && each <= setting.max;
  if (Array.isArray(given) && given.length >= 1 && given.length <= MAX_NUMBERS && given.every(fits)) return given;
  throw new BadValue(
    setting,
    shown,
    `a list of 1 to ${MAX_NUMBERS} numbers from 0 to ${setting.max}, such as [3, 8, 15]`,
  );
}

function argvOf(setting: Setting, given: unknown): string[] {
  let list: unknown = given;
  if (typeof given === "string") {
    try {
      list = given.trimStart().startsWith("[") ? JSON.parse(given) : given.trim().split(/\s+/);
    } catch {
      list = null;
    }
  }
  const isArgument = (each: unknown) => typeof each === "string" && !each.includes("\0");
  if (Array.isArray(list) && list.length <= 1_000 && isFilled(list[0]) && list.every(isArgument)) return list;
  throw new BadValue(setting, given, 'a program and its arguments, such as ["python3", "-m", "engine"]');
}
