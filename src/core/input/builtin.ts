/** The kinds that every worker can run without code of its own: commands and HTTP requests. They are tasks like others,
 *  for `submit` and `work`; what runs them is an executor of the worker. */

import { type Task, task } from "../task/task.ts";
import type { ExecInput } from "./exec-input.ts";
import type { HttpInput } from "./http-input.ts";

/** What a command that succeeded leaves as its result.
 *  @example
 *  const { exitCode, outputs }: ExecResult = await (await perdure.submit(exec, { argv: ["make"] })).result(); */
export interface ExecResult {
  /** Null where nobody saw it end: its worker was lost, and its verdict had been complete before. */
  readonly exitCode: number | null;
  /** Of its `result.json`: `output`, or all of it where it has no `status`. */
  readonly output: unknown;
  /** What it left in `artifacts/`. */
  readonly outputs: readonly {
    readonly name: string;
    readonly size: number;
    readonly mime: string;
    readonly sha256: string;
  }[];
  /** Files that are not listed: too many, or unreadable. */
  readonly moreOutputs?: number;
  /** Bytes written, and of these how many were dropped to stay within the cap. */
  readonly stdout: { readonly bytes: number; readonly dropped: number };
  readonly stderr: { readonly bytes: number; readonly dropped: number };
}

/** What a request that succeeded leaves as its result.
 *  @example
 *  const { status_code, body }: HttpResult = await (await perdure.submit(http, { url })).result(); */
export interface HttpResult {
  readonly status_code: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
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
