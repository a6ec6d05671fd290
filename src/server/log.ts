/** The server's log: one record is one line, as JSON or as text. Characters that could end a line or control a terminal are escaped,
 *  and secrets of tokens are redacted. */
import { PerdureError } from "../core/errors.ts";

export type LogLevel = "error" | "warn" | "info" | "debug";
/** Messages are constant; data goes into the fields. */
export type ServerLog = (level: LogLevel, message: string, fields?: LogFields) => void;
export type LogFields = Readonly<Record<string | symbol, unknown>>;

const RANK: Readonly<Record<LogLevel, number>> = { error: 0, warn: 1, info: 2, debug: 3 };

/** A field whose entries are added to the JSON form of a record only, for readers that expect their own format. They come first, and
 *  override ours of the same name. */
export const JSON_KEYS = Symbol("keys of the JSON form");

export interface LogOptions {
  /** Called with whole lines, each with its newline. */
  readonly write: (line: string) => void;
  readonly now: () => number;
  /** Default: info. */
  readonly level?: LogLevel;
  /** Default: json. */
  readonly form?: "json" | "text";
}

export function createLog({ write, now, level = "info", form = "json" }: LogOptions): ServerLog {
  const limit = RANK[level];
  return (recordLevel, message, fields = {}) => {
    if (RANK[recordLevel] > limit) return;
    const at = new Date(now()).toISOString();
    const data = plain(fields);
    const line =
      form === "json"
        ? toJson({ ...jsonKeys(fields), at, level: recordLevel, message, ...data, ...jsonKeys(fields) })
        : toText(at, recordLevel, message, data);
    try {
      write(`${safeLine(line)}\n`);
    } catch {
      // A log that cannot be written has nowhere to report it.
    }
  };
}

/** Makes a line safe for any log: escapes control characters, and redacts secrets. */
export function safeLine(line: string): string {
  return redacted(escaped(line));
}

/** Removes the secrets of tokens; their ids stay. */
export function redacted(text: string): string {
  return text.replaceAll(/(pdr_[A-Za-z0-9]{1,16}_|pdj_[a-z0-9]{1,26}_|pds_)[A-Za-z0-9_-]+/g, "$1[redacted]");
}

function jsonKeys(fields: LogFields): object {
  return (fields[JSON_KEYS] ?? {}) as object;
}

/** Errors become text: as JSON they would be `{}`. */
function plain(fields: LogFields): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, value instanceof Error ? errorText(value) : value]),
  );
}

/** With its stack, except for errors of the store. */
function errorText(error: Error): string {
  if (error instanceof PerdureError && error.code.startsWith("store_")) return `${error.code}: ${error.message}`;
  const cause = error.cause instanceof Error ? `\ncaused by ${error.cause.stack ?? String(error.cause)}` : "";
  return `${error.stack ?? String(error)}${cause}`;
}

function toJson(record: Record<string, unknown>): string {
  try {
    return JSON.stringify(record);
  } catch {
    return JSON.stringify({ at: record.at, level: record.level, message: record.message, fields: "cannot be shown" });
  }
}

function toText(at: string, level: string, message: string, fields: Record<string, unknown>): string {
  const pairs = Object.entries(fields).map(
    ([name, value]) =>
      ` ${name}=${typeof value === "string" && /^[\w.:/-]+$/.test(value) ? value : toJson({ v: value }).slice(5, -1)}`,
  );
  return `${at} ${level.padEnd(5)} ${message}${pairs.join("")}`;
}

// Control characters, line separators, and characters that are invisible or change the direction of text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is searched for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function escaped(line: string): string {
  return line.replaceAll(UNSAFE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
