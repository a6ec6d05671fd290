/** Failures: how they are recorded and classified, the errors that handlers throw, and a failure as text. */
import { type Duration, MAX_DURATION_MS, toMs } from "../duration.ts";

// Failures are data: what went wrong in an attempt, as stored, matched by rules and shown to people. A handler steers
// with two errors only, `NonRetryableError` and `RetryAfterError`; they are recognised by a mark on the object and
// not by `instanceof`, so that two copies of this package in one process agree.

/** Kinds that a rule can match, and `lost`, which no rule sees. */
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
/** What kind of failure it was: an exit code, a signal, an error of a handler, a status of HTTP, …
 *  @example
 *  const kind: FailureKind = "exit"; */
export type FailureKind = (typeof FAILURE_KINDS)[number];

/** transient: may pass by itself. logical: the task itself said no. invalid: the input can never work. budget: the task
 *  reports that it has spent what it was granted. Only the first is retried, unless a fallback rule of the preset retries what
 *  a command reports.
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
  /** Of an error. Of a command: the last lines of its stderr, where there are more than the one in the message. */
  readonly stack: string | null;
  /** Of a stored failure: the line of stderr that a rule or list matched, where it is not in the message. At most about 200
   *  characters. */
  readonly line?: string;
}

/** A failure from the parts that matter; the others are null.
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

/** Thrown by a handler to end its job now: state failed, reason `rejected`.
 *  @example
 *  if (order.cancelled) throw new NonRetryableError("the order was cancelled"); */
export class NonRetryableError extends Error {
  readonly [MARK] = "logical";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "NonRetryableError";
  }
}

/** Thrown by a handler to be retried no sooner than after `delay` (`"30s"` or milliseconds). Charged like any failure.
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

/** Thrown by a handler, or by us before it runs, when the input can never work: state failed, reason `invalid`.
 *  @example
 *  if (!input.email.includes("@")) throw new InvalidInputError("email: not an address"); */
export class InvalidInputError extends Error {
  readonly [MARK] = "invalid";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "InvalidInputError";
  }
}

/** Turns whatever a handler threw into a failure. Never throws itself, whatever the value's getters do.
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

/** Anyone may throw an object with this field: a fraction or Infinity in it must not become a `runAt`. */
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

// How a failure is printed for people: its message, and the line that decided about it where the message is another
// one.

/** `exit code 1: bye (HTTP 401 Unauthorized)`. */
export function failureText({ message, line }: Pick<Failure, "message" | "line">): string {
  return line === undefined ? message : `${message} (${line})`;
}

/** The line that a rule or list matched, cut as it is stored; undefined where the failure's own fields have it. */
export function lineBeside({ name, message, code }: Failure, line: string | null): string | undefined {
  if (line === null) return undefined;
  const own = `${name ?? ""}: ${message} ${code ?? ""}`.toLowerCase();
  const part = line.replace(/^…/, "").replace(/…$/, "").toLowerCase();
  return own.includes(part) ? undefined : line;
}
