/** The built-in kinds: commands, HTTP requests and SQL. They are tasks for `submit` and `work`; an executor of the worker runs them. */

import { type Task, task } from "../task/task.ts";
import type { ExecInput } from "./exec-input.ts";
import type { HttpInput } from "./http-input.ts";
import type { PostgresInput } from "./postgres-input.ts";

/** The result of a command.
 *  @example
 *  const { exitCode, outputs }: ExecResult = await (await perdure.submit(exec, { argv: ["make"] })).result(); */
export interface ExecResult {
  /** Null where its worker was lost after its verdict was complete. */
  readonly exitCode: number | null;
  /** `output` of its `result.json`, or the whole file if that has no `status`. */
  readonly output: unknown;
  /** The files in `artifacts/`. */
  readonly outputs: readonly {
    readonly name: string;
    readonly size: number;
    readonly mime: string;
    readonly sha256: string;
  }[];
  /** Files that are not listed: too many, or unreadable. */
  readonly moreOutputs?: number;
  /** Bytes written, and how many of them were dropped because of the limit. */
  readonly stdout: {
    readonly bytes: number;
    readonly dropped: number;
    /** With `resultStdout`: its beginning as text, at most 64 KiB. What is not UTF-8 is U+FFFD. Absent where its worker was
     *  lost after its verdict was complete. */
    readonly text?: string;
    /** There is more than `text`. */
    readonly textCut?: true;
  };
  readonly stderr: { readonly bytes: number; readonly dropped: number };
}

/** The result of a request.
 *  @example
 *  const { status_code, body }: HttpResult = await (await perdure.submit(http, { url })).result(); */
export interface HttpResult {
  readonly status_code: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** The result of the last statement.
 *  @example
 *  const { rows, rowCount }: PostgresResult = await (await perdure.submit(postgres, input)).result(); */
export interface PostgresResult {
  /** JSON columns as JSON; numbers that JavaScript cannot hold exactly as text; times as ISO text; bytea as base64. */
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  /** Rows that were returned or changed. */
  readonly rowCount: number;
}

/** Runs a command. Its input is an `ExecInput`.
 *  @example
 *  await perdure.work([exec]);
 *  await perdure.submit(exec, { argv: ["pg_dump", "shop"] }, { retry: 3, timeout: "10m" }); */
export const exec: Task<ExecInput, ExecResult> = task("exec", () => {
  throw new Error("commands are run by a worker: perdure.work([exec])");
});

/** Makes an HTTP request. Its input is an `HttpInput`.
 *  @example
 *  await perdure.work([http]);
 *  await perdure.submit(http, { url: "https://example.com/hook", method: "POST", body: { id: 7 } }); */
export const http: Task<HttpInput, HttpResult> = task("http", () => {
  throw new Error("requests are made by a worker: perdure.work([http])");
});

/** Runs SQL statements in one transaction. Its input is a `PostgresInput`; the worker knows the address of the connection.
 *  @example
 *  await perdure.work([postgres], { connections: { shop: "postgres://app:secret@db/shop" } });
 *  const statements = [{ text: "select name from users where id = $1", values: [7] }];
 *  await perdure.submit(postgres, { connection: "shop", statements }); */
export const postgres: Task<PostgresInput, PostgresResult> = task("postgres", () => {
  throw new Error("statements are run by a worker: perdure.work([postgres], { connections })");
});
