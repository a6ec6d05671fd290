/** Failures: how they are recorded and classified, the errors that handlers throw, and a failure as text. */
import { type Duration, MAX_DURATION_MS, toMs } from "../duration.ts";

// The errors are recognised by a property and not by `instanceof`, so that two copies of this package work together.

/** The kinds that a rule can match, and `lost`, which no rule gets. */
export const FAILURE_KINDS = [
  "exit",
  "signal",
  "oom",
  "error",
  "http",
  "timeout",
  "queue_timeout",
  "result",
  "lost",
] as const;
/** The kind of a failure: an exit code, a signal, an error of a handler, an HTTP status, …
 *  @example
 *  const kind: FailureKind = "exit"; */
export type FailureKind = (typeof FAILURE_KINDS)[number];

/** transient: a retry may help. logical: the task reports that none can. invalid: the input is invalid. budget: the task reports
 *  that its budget is spent. Only the first is retried, unless a fallback rule of the preset retries what a command reports.
 *  @example
 *  const isFinal = (cls: FailureClass) => cls !== "transient"; */
export type FailureClass = "transient" | "logical" | "invalid" | "budget";

/** How an attempt failed, as data.
 *  @example
 *  const previous: Failure | null = ctx.previous;
 *  if (previous?.status === 429) ctx.log("the last attempt was rate limited"); */
export interface Failure {
  readonly kind: FailureKind;
  readonly class: FailureClass;
  readonly message: string;
  /** The error's name (`TypeError`), for rules on `error`. */
  readonly name: string | null;
  /** The error's code (`ECONNRESET`). */
  readonly code: string | null;
  /** 128 + n for a command ended by signal n; null for functions, http and programs that never started. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** HTTP status. */
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  /** Of an error, or the last lines of stderr of a command, where there are more than the one in the message. */
  readonly stack: string | null;
  /** In a stored failure: the line of stderr that a rule or list matched, where it is not in the message, cut to about 200
   *  characters. */
  readonly line?: string;
}

/** A failure; fields that are not given are null.
 *  @example
 *  const cause = failure({ kind: "http", message: "503 from api.example.com", status: 503 }); */
export function failure(parts: Partial<Failure> & Pick<Failure, "kind" | "message">): Failure {
  return {
    class: "transient",
    name: null,
    code: null,
    exitCode: null,
    signal: null,
    status: null,
    retryAfterMs: null,
    stack: null,
    ...parts,
  };
}

const MARK = "perdureFailure";

/** Thrown by a handler to fail its job without a retry, with the reason `rejected`.
 *  @example
 *  if (order.cancelled) throw new NonRetryableError("the order was cancelled"); */
export class NonRetryableError extends Error {
  readonly [MARK] = "logical";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "NonRetryableError";
  }
}

/** Thrown by a handler to be retried no sooner than after `delay` (`"30s"` or milliseconds). It counts like any failure.
 *  @example
 *  if (response.status === 429) throw new RetryAfterError("rate limited", "30s"); */
export class RetryAfterError extends Error {
  readonly [MARK] = "transient";
  readonly retryAfterMs: number;

  constructor(message: string, delay: Duration, options?: ErrorOptions) {
    super(message, options);
    this.name = "RetryAfterError";
    this.retryAfterMs = toMs(delay, "delay");
  }
}

/** Thrown by a handler, or by the worker before it runs, for an invalid input: the job fails with the reason `invalid`.
 *  @example
 *  if (!input.email.includes("@")) throw new InvalidInputError("email: not an address"); */
export class InvalidInputError extends Error {
  readonly [MARK] = "invalid";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "InvalidInputError";
  }
}

/** The failure of whatever a handler threw. Never throws, whatever the value's getters do.
 *  @example
 *  const { message, class: cls } = failureFrom(new NonRetryableError("no such user")); // "logical" */
export function failureFrom(thrown: unknown): Failure {
  if (typeof thrown !== "object" || thrown === null) {
    return failure({ kind: "error", message: `the handler threw ${typeof thrown}: ${safeString(thrown)}` });
  }
  const mark = read(thrown, MARK);
  const status = read(thrown, "status") ?? read(thrown, "statusCode");
  const retryAfterMs = read(thrown, "retryAfterMs");
  const isHttp = typeof status === "number" && Number.isInteger(status) && status >= 100 && status <= 599;
  return failure({
    kind: isHttp ? "http" : "error",
    class: mark === "logical" || mark === "invalid" ? mark : "transient",
    message: text(read(thrown, "message")) ?? safeString(thrown),
    name: text(read(thrown, "name")),
    code: text(read(thrown, "code")),
    status: isHttp ? status : null,
    retryAfterMs: typeof retryAfterMs === "number" && retryAfterMs >= 0 ? wholeMs(retryAfterMs) : null,
    stack: text(read(thrown, "stack")),
  });
}

/** Handlers may throw any object, so a fraction or Infinity must not become a `runAt`. */
function wholeMs(ms: number): number {
  return Math.round(Math.min(ms, MAX_DURATION_MS));
}

function read(value: object, property: string): unknown {
  try {
    return (value as Record<string, unknown>)[property];
  } catch {
    return undefined;
  }
}

function text(value: unknown): string | null {
  if (typeof value === "string") return value;
  return typeof value === "number" ? String(value) : null;
}

function safeString(value: unknown): string {
  try {
    return typeof value === "object" ? (JSON.stringify(value) ?? "an object") : String(value);
  } catch {
    return "a value that cannot be shown";
  }
}

/** The message, and the line that matched where it is another one: `exit code 1: bye (HTTP 401 Unauthorized)`. */
export function failureText({ message, line }: Pick<Failure, "message" | "line">): string {
  return line === undefined ? message : `${message} (${line})`;
}

/** The line that a rule or list matched; undefined where the fields of the failure contain it. */
export function lineBeside({ name, message, code }: Failure, line: string | null): string | undefined {
  if (line === null) return undefined;
  const own = `${name ?? ""}: ${message} ${code ?? ""}`.toLowerCase();
  const part = line.replace(/^…/, "").replace(/…$/, "").toLowerCase();
  return own.includes(part) ? undefined : line;
}
