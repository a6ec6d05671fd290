/** Values of settings for people, in a form that is valid as input; secrets are hidden. */
import type { Setting, SettingValue } from "./setting.ts";

export const HIDDEN = "set (hidden)";

/** As in `perdure config`; null for a setting without a value. */
export function shownValue(
  setting: Setting,
  value: SettingValue,
): string | number | boolean | readonly unknown[] | null {
  if (value === undefined) return null;
  if (setting.type === "connections") return Object.keys(value as object).map((name) => `${name}=${HIDDEN}`);
  if (setting.secret === "all") return HIDDEN;
  if (value === null) return "forever";
  if (typeof value === "number" && setting.type === "duration") return showSpan(value);
  if (typeof value === "number" && setting.type === "size")
    return setting.binary ? showMemory(value) : showBytes(value);
  if (typeof value === "string") return setting.secret === "password" ? withoutPassword(value) : value;
  if (typeof value !== "object") return value;
  if (Array.isArray(value)) return value;
  return Object.entries(value).map(([name, text]) => `${name}=${text}`);
}

/** `user:password@host` */
function hasLogin(part: string): boolean {
  const colon = part.indexOf(":");
  return colon !== -1 && part.lastIndexOf("@") > colon;
}

/** An address without its secrets. Text that is not a valid address is hidden if it may contain a secret. */
export function withoutPassword(text: string): string {
  if (!/:\/\//.test(text)) return /password|secret/i.test(text) || text.split("/").some(hasLogin) ? HIDDEN : text;
  if (!URL.canParse(text)) return HIDDEN;
  const url = new URL(text);
  if (url.password !== "") url.password = "***";
  for (const name of [...url.searchParams.keys()]) {
    if (/pass|secret|token|key/i.test(name)) url.searchParams.set(name, "***");
  }
  return url.href;
}

const SPANS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** Exactly: `1500ms`, `90s`, `7d`. */
export function showSpan(ms: number): string {
  const [unit, factor] = SPANS.find(([, each]) => ms >= each && ms % each === 0) ?? (["ms", 1] as const);
  return `${ms / factor}${unit}`;
}

const SIZES = [
  ["TB", 1e12],
  ["GB", 1e9],
  ["MB", 1e6],
  ["kB", 1e3],
] as const;

/** Exactly: `10MB`, `1025B`. */
export function showBytes(bytes: number): string {
  const [unit, factor] = SIZES.find(([, each]) => bytes >= each && bytes % each === 0) ?? (["B", 1] as const);
  return `${bytes / factor}${unit}`;
}

const MEMORY = [
  ["t", 2 ** 40],
  ["g", 2 ** 30],
  ["m", 2 ** 20],
  ["k", 2 ** 10],
] as const;

/** Exactly, in the units of job resources: `8g`, `1000b`. */
export function showMemory(bytes: number): string {
  const [unit, factor] = MEMORY.find(([, each]) => bytes >= each && bytes % each === 0) ?? (["b", 1] as const);
  return `${bytes / factor}${unit}`;
}
