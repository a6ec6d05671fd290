/** Runs the statements of a job on one connection, as one transaction. The extended protocol takes one statement at a time, so that a
 *  `;` within a text can never hide a `commit`. */
import type { CheckedPostgres, CheckedStatement } from "../../core/input/postgres-input.ts";
import { mayCommit } from "../../core/input/postgres-input.ts";
import type { HeldConnection } from "./connections.ts";
import { Rows } from "./rows.ts";

/** The result is above a limit: everything was rolled back. */
export class TooLargeError extends Error {
  readonly code = "too_large";
}

/** An error of one statement. */
export class StatementError extends Error {
  readonly code: string | null;

  constructor(message: string, cause: unknown) {
    super(message, { cause });
    const { code } = cause as { code?: unknown };
    this.code = typeof code === "string" ? code : null;
  }
}

/** PostgreSQL refuses the statement in a transaction, before it does anything. */
const NOT_IN_TRANSACTION = "25001";
const LOST = "the connection was lost during the commit, so the statements may have been committed";

const CANCELLED = "cancelled, and rolled back";

/** Returns the result as JSON text. `timeoutMs`: of each statement, at the server; null: the server's own limit. Nothing is stored
 *  if it throws, except after a connection was lost during the commit, and in a statement that runs outside of a transaction. */
export async function runStatements(
  held: HeldConnection,
  input: CheckedPostgres,
  timeoutMs: number | null,
): Promise<string> {
  const { statements } = input;
  const [only] = statements as [CheckedStatement];
  const settings = settingsFor(timeoutMs);
  const isAlone = statements.length === 1;
  if (isAlone && mayCommit(only)) return runAlone(held, input, settings);
  try {
    return await runTogether(held, input, settings);
  } catch (error) {
    if (!isAlone || (error as Partial<StatementError>).code !== NOT_IN_TRANSACTION) throw error;
    return runAlone(held, input, settings);
  }
}

/** `bytea_output`: the format that `column-text.ts` reads. The style of dates keeps the order of day and month that is set. */
function settingsFor(timeoutMs: number | null): (scope: string) => string {
  return (scope) => {
    const limit = timeoutMs === null ? "" : `; set ${scope} statement_timeout = ${Math.max(1, Math.ceil(timeoutMs))}`;
    return `set ${scope} bytea_output = 'hex'; set ${scope} datestyle = 'ISO'${limit}`;
  };
}

async function runTogether(
  held: HeldConnection,
  { statements, ...limits }: CheckedPostgres,
  settings: (scope: string) => string,
): Promise<string> {
  const { client } = held;
  await client.query(`begin; ${settings("local")}`);
  let result = "";
  try {
    for (const [index, statement] of statements.entries()) {
      const isLast = index === statements.length - 1;
      result = await runOne(held, statement, isLast ? new Rows(limits) : null, { index, of: statements.length });
    }
    await commit(held);
    return result;
  } catch (error) {
    // A lost connection has rolled back too; after a commit that failed there is nothing left to roll back.
    await client.query("rollback").catch(() => {});
    throw error;
  }
}

async function commit({ client, isCancelled }: HeldConnection): Promise<void> {
  let command: string;
  if (isCancelled) throw new Error(CANCELLED);
  try {
    ({ command } = await client.query("commit"));
  } catch (error) {
    const isAnswer = /^[0-9A-Z]{5}$/.test(String((error as { code?: unknown }).code)) && !isShutdown(error);
    throw new StatementError(isAnswer ? `commit: ${messageOf(error)}` : `${LOST} (${messageOf(error)})`, error);
  }
  if (command !== "COMMIT") throw new Error("the transaction was rolled back by the server");
}

/** The server ends the connection, in whatever state the commit is. */
function isShutdown(error: unknown): boolean {
  return /^(57P|08)/.test(String((error as { code?: unknown }).code));
}

async function runAlone(
  held: HeldConnection,
  { statements, ...limits }: CheckedPostgres,
  settings: (scope: string) => string,
): Promise<string> {
  await held.client.query(settings("session"));
  return runOne(held, statements[0] as CheckedStatement, new Rows(limits), { index: 0, of: 1 });
}

interface QueryFields {
  readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[];
}

/** Values arrive as text, whatever their type. */
const TYPES = { getTypeParser: () => (text: string) => text };

/** The result as JSON text, empty for a statement without `rows`: then its rows are dropped as they arrive. */
function runOne(
  held: HeldConnection,
  { text, values }: CheckedStatement,
  rows: Rows | null,
  place: { readonly index: number; readonly of: number },
): Promise<string> {
  // The cancel of a statement that had just ended must not let the next one run.
  if (held.isCancelled) return Promise.reject(new Error(CANCELLED));
  const config = { text, values: [...values], rowMode: "array", queryMode: "extended", types: TYPES };
  const query = new held.pg.Query(config as never);
  return new Promise((resolve, reject) => {
    query.on("row", (row: unknown, result: unknown) => {
      if (rows === null || rows.problem !== null) return;
      rows.add(row as (string | null)[], (result as QueryFields).fields);
      if (rows.problem !== null) held.cancel();
    });
    query.on("error", (error) => {
      if (rows?.problem != null) reject(new TooLargeError(tooLargeText(rows.problem)));
      else reject(new StatementError(`${nameOf(place)}${messageOf(error)}`, error));
    });
    query.on("end", (result) => {
      if (rows?.problem != null) reject(new TooLargeError(tooLargeText(rows.problem)));
      else resolve(rows === null ? "" : rows.result(result.rowCount ?? 0));
    });
    held.client.query(query);
  });
}

function tooLargeText(problem: string): string {
  return `the result has ${problem}; select less, or write it to a table`;
}

function nameOf({ index, of }: { readonly index: number; readonly of: number }): string {
  return of === 1 ? "" : `statement ${index + 1} of ${of}: `;
}

/** With the detail, which names the row that a constraint refused. */
function messageOf(error: unknown): string {
  const { message, detail, hint } = error as { message: string; detail?: unknown; hint?: unknown };
  const more = [detail, hint].filter((each) => typeof each === "string" && each !== "");
  return [message, ...more].join("; ");
}
