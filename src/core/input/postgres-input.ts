/** The input of a job of kind `postgres`: SQL statements with their values apart, for a named connection of the worker. Checked at
 *  submit, and again by the worker. The address and its password are settings of the worker and never part of a job. Messages
 *  contain no values, which may be secret. */
import { asInteger, asList, asObject, fieldPath, reader } from "../check.ts";
import { ConfigError } from "../errors.ts";
import { connectionName } from "./connections.ts";
import { MIB } from "./resources.ts";

/** Statements for one transaction. The result is that of the last one.
 *  @example
 *  const input: PostgresInput = {
 *    connection: "shop",
 *    statements: [{ text: "update stock set count = count - $1 where id = $2 returning count", values: [2, "A-7"] }],
 *  }; */
export interface PostgresInput {
  /** The name of a connection of the worker. */
  readonly connection: string;
  readonly statements: readonly PostgresStatement[];
  /** More rows in the result fail the job. Default: 1,000; at most 10,000. */
  readonly maxRows?: number;
  /** A larger result, as JSON, fails the job. Default: 1 MiB, which is also the limit. */
  readonly maxBytes?: number;
}

/** One statement, with `$1` for the first of its values.
 *  @example
 *  const statement: PostgresStatement = { text: "select * from stock where id = $1", values: ["A-7"] }; */
export interface PostgresStatement {
  readonly text: string;
  /** PostgreSQL infers their types, as for a literal. Lists and objects are sent as JSON. */
  readonly values?: readonly unknown[];
}

export interface CheckedPostgres {
  /** In its normal form. */
  readonly connection: string;
  readonly statements: readonly CheckedStatement[];
  readonly maxRows: number;
  readonly maxBytes: number;
}

export interface CheckedStatement {
  readonly text: string;
  /** As they are sent: text, or null for NULL. */
  readonly values: readonly (string | null)[];
}

const FIELDS = ["connection", "statements", "maxRows", "maxBytes"] as const;
const MAX_STATEMENTS = 100;
const MAX_TEXT = MIB;
/** The limit of the protocol. */
const MAX_VALUES = 65_535;
const DEFAULT_ROWS = 1_000;
const MAX_ROWS = 10_000;
/** The limit of a result. */
export const MAX_RESULT_BYTES = MIB;

export function checkPostgresInput(value: unknown, path: string): CheckedPostgres {
  const fields = asObject(value, path, FIELDS);
  const read = reader(fields, path);
  return {
    connection: connectionName(fields.connection, fieldPath(path, "connection")),
    statements: asList(fields.statements, fieldPath(path, "statements"), asStatement, MAX_STATEMENTS, 1),
    maxRows: read("maxRows", (given, at) => asInteger(given, at, { min: 0, max: MAX_ROWS }), DEFAULT_ROWS),
    maxBytes: read(
      "maxBytes",
      (given, at) => asInteger(given, at, { min: 0, max: MAX_RESULT_BYTES }),
      MAX_RESULT_BYTES,
    ),
  };
}

function asStatement(value: unknown, path: string): CheckedStatement {
  const { text, values = [] } = asObject(value, path, ["text", "values"]);
  const at = fieldPath(path, "text");
  if (typeof text !== "string" || text.trim() === "" || text.length > MAX_TEXT || !isStorable(text)) {
    const allowed = `SQL of 1 to ${MAX_TEXT} characters, well-formed and without NUL`;
    throw new ConfigError({ path: at, given: "other text", allowed, shown: "something else" });
  }
  const ending = transactionWord(text);
  if (ending !== null) {
    const problem = `${ending} is not possible: all statements of a job run in one transaction, which the worker begins and commits`;
    throw new ConfigError({ path: at, given: ending, problem });
  }
  return { text, values: asList(values, fieldPath(path, "values"), asParameter, MAX_VALUES) };
}

/** Never altered: what cannot be stored as it is, is refused. */
function asParameter(value: unknown, path: string): string | null {
  if (value === null || value === undefined) return null;
  const text = typeof value === "string" ? value : jsonText(value);
  if (text !== null && isStorable(text)) return text;
  const allowed = "a JSON value; a text must be well-formed and without NUL, which PostgreSQL cannot store";
  throw new ConfigError({ path, given: "other text", allowed, shown: `a ${typeof value} that it cannot store` });
}

function jsonText(value: unknown): string | null {
  try {
    return JSON.stringify(value) ?? null;
  } catch {
    return null; // circular, a BigInt, or too deep
  }
}

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

const TRANSACTION = new Set(["begin", "start", "commit", "end", "rollback", "abort"]);

/** The words of a statement that would begin or end the transaction; null for any other. Savepoints are allowed. */
function transactionWord(text: string): string | null {
  const [first = "", second = "", third = ""] = leadingWords(text, 3);
  if (first === "prepare") return second === "transaction" ? "prepare transaction" : null;
  if (!TRANSACTION.has(first)) return null;
  const after = second === "work" || second === "transaction" ? third : second;
  return first === "rollback" && after === "to" ? null : first;
}

/** A procedure or block may commit by itself, which PostgreSQL permits only outside of a transaction. */
export function mayCommit({ text }: CheckedStatement): boolean {
  const [first] = leadingWords(text, 1);
  return first === "call" || first === "do";
}

/** The first words of a statement in lower case, without comments. PostgreSQL skips semicolons before it. */
export function leadingWords(text: string, count: number): string[] {
  const words: string[] = [];
  for (let at = 0; words.length < count; ) {
    at = afterBlank(text, at);
    const [word] = /^[a-z_]+/i.exec(text.slice(at, at + 64)) ?? [];
    if (word === undefined) break;
    words.push(word.toLowerCase());
    at += word.length;
  }
  return words;
}

/** The position after white space, semicolons and comments; those between slash and asterisk can be nested. */
function afterBlank(text: string, from: number): number {
  for (let at = from; ; ) {
    if (/[\s;]/.test(text.charAt(at))) at += 1;
    else if (text.startsWith("--", at)) {
      const end = text.slice(at).search(/[\r\n]/);
      at = end === -1 ? text.length : at + end;
    } else if (text.startsWith("/*", at)) at = afterComment(text, at);
    else return at;
  }
}

function afterComment(text: string, from: number): number {
  let depth = 0;
  for (const { 0: mark, index } of text.slice(from).matchAll(/\/\*|\*\//g)) {
    depth += mark === "/*" ? 1 : -1;
    if (depth === 0) return from + index + 2;
  }
  return text.length;
}
