/** Runs a job of the kind `http`: one exchange, and its outcome. Never throws. An expected status completes the job; any other
 *  is a failure with that status, and the policy decides. Every attempt of a job sends the same Idempotency-Key. It cannot know
 *  whether a server that did not answer has done the work; only a server that honours the key makes a retry harmless. */

import { type Failure, failure } from "../../core/decision/failure.ts";
import { MAX_DURATION_MS } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import { type CheckedHttp, checkHttpInput, MAX_BODY_BYTES, shownUrl } from "../../core/input/http-input.ts";
import { NO_INPUT } from "../../core/worker-protocol.ts";
import type { Clock } from "../../lib/clock.ts";
import { jsonDepth } from "../../lib/json-text.ts";
import type { FieldLog } from "../../lib/log.ts";
import { isOver, storable } from "../../lib/text.ts";
import type { AttemptRun } from "../attempt-run.ts";
import type { ExecutionResult, Executor } from "../executor.ts";
import { checkAllow } from "./address.ts";
import { ExchangeError, exchange, type HttpReply, type Lookup } from "./exchange.ts";

export interface HttpExecutorOptions {
  /** Loopback, private and reserved addresses that jobs may reach: addresses, ranges, or "private". */
  readonly allow: readonly string[];
  readonly clock: Clock;
  readonly log?: FieldLog;
  /** Resolves names instead of the system. */
  readonly lookup?: Lookup;
  /** Certificates to trust instead of the system's. */
  readonly ca?: string;
}

/** Characters of the body that an error message quotes. */
const EXCERPT = 200;
/** The limit of payloads; deeper JSON is stored as text. */
const MAX_JSON_DEPTH = 64;
/** Methods with side effects, which get an Idempotency-Key. */
const CHANGING: readonly string[] = ["POST", "PUT", "PATCH", "DELETE"];

/** Throws a `ConfigError` when `allow` has a mistake. */
export function httpExecutor(options: HttpExecutorOptions): Executor {
  const allow = checkAllow(options.allow, "work.allowAddresses");
  return { kind: "http", run: (run) => runHttp(run, { ...options, allow }) };
}

async function runHttp(run: AttemptRun, options: HttpExecutorOptions): Promise<ExecutionResult> {
  let request: CheckedHttp | null = null;
  try {
    request = withOurHeaders(checkHttpInput(inputOf(run.job.payload), "payload"), run.jobId);
    const { allow, clock, log, lookup, ca } = options;
    const onBlocked = (host: string, address: string) =>
      log?.("warn", "request blocked by allowAddresses", { jobId: run.jobId, host, address });
    const injected = { ...(lookup === undefined ? {} : { lookup }), ...(ca === undefined ? {} : { ca }) };
    const reply = await exchange(request, { allow, clock, signal: run.signal, onBlocked, ...injected });
    return judge(request, reply, clock);
  } catch (error) {
    return failed(failureOf(error, request));
  }
}

/** Does not pass on the error of JSON.parse, which quotes the text: it may contain a secret. */
function inputOf(payload: string): unknown {
  if (payload === NO_INPUT) return undefined;
  try {
    return JSON.parse(payload);
  } catch {
    throw new ConfigError({ path: "payload", given: "text", allowed: "JSON", shown: "other text" });
  }
}

function withOurHeaders(request: CheckedHttp, jobId: string): CheckedHttp {
  const given = new Set(request.headers.map(([name]) => name.toLowerCase()));
  const ours: (readonly [string, string])[] = [["user-agent", "perdure"]];
  if (CHANGING.includes(request.method)) ours.push(["idempotency-key", jobId]);
  return { ...request, headers: [...ours.filter(([name]) => !given.has(name)), ...request.headers] };
}

function judge(request: CheckedHttp, reply: HttpReply, clock: Clock): ExecutionResult {
  const { status, url, bytes, isCut } = reply;
  if (!request.expect.some(([low, high]) => status >= low && status <= high)) {
    const excerpt = oneLine(bytes);
    const message = `HTTP ${status} from ${url}${excerpt === "" ? "" : `: ${excerpt}`}`;
    return failed(failure({ kind: "http", status, message, retryAfterMs: retryAfterMs(reply, clock) }));
  }
  const tooLarge = (what: string) => {
    const message = `HTTP ${status} from ${url}: ${what}`;
    return failed(failure({ kind: "error", class: "logical", code: "body_too_large", status, message }));
  };
  if (isCut) return tooLarge(`the body is over ${request.maxBytes} bytes`);
  const result = resultOf(reply);
  // Quoting and base64 make it longer than the body. The engine would refuse it with a less specific message.
  if (isOver(result, MAX_BODY_BYTES)) return tooLarge(`the result is over ${MAX_BODY_BYTES} bytes`);
  return { outcome: { kind: "completed", result } };
}

function resultOf({ status, headers, bytes }: HttpReply): string {
  return `{"status_code":${status},"headers":${JSON.stringify(headers)},"body":${bodyOf(bytes, headers["content-type"])}}`;
}

/** The body as JSON text. JSON is passed on unchanged, so that numbers keep digits that JavaScript would lose. */
function bodyOf(bytes: Buffer, type: HttpReply["headers"][string] | undefined): string {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return JSON.stringify({ base64: bytes.toString("base64") });
  }
  const isJson = typeof type === "string" && /^\s*(application|text)\/([^\s;]+\+)?json\s*(;|$)/i.test(type);
  return isJson && parses(text) ? text : JSON.stringify(text);
}

function parses(text: string): boolean {
  if (jsonDepth(text) > MAX_JSON_DEPTH) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function oneLine(bytes: Buffer): string {
  // A character has at most four bytes; the rest is for white space that is collapsed.
  const text = bytes.subarray(0, EXCERPT * 16).toString("utf8");
  return storable(text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim(), EXCERPT);
}

/** Retry-After is in seconds or a date. A date is compared with the server's `Date` header, if any: our clock may differ. */
function retryAfterMs({ headers }: HttpReply, clock: Clock): number | null {
  const value = String(headers["retry-after"] ?? "").trim();
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1_000, MAX_DURATION_MS);
  const until = dateMs(value);
  if (until === null) return null;
  const now = dateMs(String(headers.date ?? "")) ?? clock.now();
  return Math.min(Math.max(0, Math.round(until - now)), MAX_DURATION_MS);
}

/** The three date formats of HTTP begin with a weekday; JavaScript would parse almost anything as a date. */
function dateMs(text: string): number | null {
  const isDate = /^(mon|tue|wed|thu|fri|sat|sun)[a-z]*,? .*\d\d:\d\d:\d\d/i.test(text);
  const ms = isDate ? Date.parse(/ GMT$/i.test(text) ? text : `${text} GMT`) : Number.NaN;
  return Number.isNaN(ms) ? null : ms;
}

function failed(cause: Failure): ExecutionResult {
  return { outcome: { kind: "failed", failure: cause } };
}

function failureOf(error: unknown, request: CheckedHttp | null): Failure {
  const { name, message, code } = (error instanceof Error ? error : new Error(String(error))) as NodeJS.ErrnoException;
  const parts = { kind: "error", name, message, code: typeof code === "string" ? code : null } as const;
  if (error instanceof ConfigError) return failure({ ...parts, class: "invalid" });
  if (error instanceof ExchangeError) return failure({ ...parts, class: error.class });
  const where = request === null ? "" : `${request.method} ${shownUrl(request.url)}: `;
  return failure({ ...parts, message: `${where}${message}` });
}
