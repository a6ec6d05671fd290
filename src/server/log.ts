/** The server's log: one record is one line, whatever its fields hold. As JSON for machines, as text for people; in both,
 *  characters that could end a line or steer a terminal are escaped, and what looks like a token loses its secret. */
import { PerdureError } from "../core/errors.ts";

export type LogLevel = "error" | "warn" | "info" | "debug";
/** Fields are data, never part of the message: one record is one line, whatever they hold. */
export type ServerLog = (level: LogLevel, message: string, fields?: LogFields) => void;
export type LogFields = Readonly<Record<string | symbol, unknown>>;

const RANK: Readonly<Record<LogLevel, number>> = { error: 0, warn: 1, info: 2, debug: 3 };

/** A key of the fields of a record: keys that only its JSON form has, for readers with a format of their own. They stand first, and
 *  in place of ours where the names are equal. */
export const JSON_KEYS = Symbol("keys of the JSON form");

export interface LogOptions {
  /** Takes whole lines, each with its line end. */
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
    const told = plain(fields);
    const line =
      form === "json"
        ? toJson({ ...jsonKeys(fields), at, level: recordLevel, message, ...told, ...jsonKeys(fields) })
        : toText(at, recordLevel, message, told);
    try {
      write(`${safeLine(line)}\n`);
    } catch {
      // There is nobody else to tell.
    }
  };
}

/** What a line of any log may hold: nothing that ends it or steers a terminal, and no secret. */
export function safeLine(line: string): string {
  return redacted(escaped(line));
}

/** The secret of whatever looks like a token goes; its id stays, to find it by. */
export function redacted(text: string): string {
  return text.replaceAll(/(pdr_[A-Za-z0-9]{1,16}_|pdj_[a-z0-9]{1,26}_|pds_)[A-Za-z0-9_-]+/g, "$1[redacted]");
}

function jsonKeys(fields: LogFields): object {
  return (fields[JSON_KEYS] ?? {}) as object;
}

/** Errors become text: JSON would make `{}` of them. */
function plain(fields: LogFields): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, value instanceof Error ? told(value) : value]),
  );
}

/** Without a stack where that says nothing: the store is at fault. */
function told(error: Error): string {
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

// Control characters, line separators, and marks that turn the direction of text or are not seen at all.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function escaped(line: string): string {
  return line.replaceAll(UNSAFE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
