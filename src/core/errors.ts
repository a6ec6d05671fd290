/** Errors of calls, each with a code that is the same in every process and language. Failures of jobs are data
 *  (`failure.ts`). Compare `code`, never `instanceof`. */

/** The codes; a test compares them with `docs/errors.md`. */
export const ERROR_CODES = {
  invalid_config: "an option or a policy has a mistake; the message names the field",
  invalid_payload: "the payload is not JSON, too deep, or over its limit",
  invalid_cursor: "a cursor was not made by this store, or not for this query",
  key_conflict: "the submit key belongs to a job with another body",
  job_not_found: "no job has this id, or it was pruned",
  job_failed: "the job ended as failed; the error carries the reason and the last failure",
  job_cancelled: "the job ended as cancelled",
  result_timeout: "the job did not end within the time given to result()",
  wrong_state: "the command does not apply to a job in this state",
  budget_spent: "a budget that covers the job has nothing left; grant more with the redrive",
  parent_ended: "the parent of this job has ended, is being cancelled, or does not exist; nothing was stored",
  output_too_large: "the outputs of an attempt are over their limit; nothing of this write was kept beyond it",
  invalid_playbook: "the playbook has mistakes; the message names each with its place",
  playbook_not_found: "the catalog has no playbook of this path, or not this version",
  playbook_incompatible: "a run cannot continue with this definition; nothing was changed",
  closed: "the engine, worker or store was closed",
  store_not_a_database: "the file is not a Perdure database; nothing was changed in it",
  store_newer: "the database was written by a newer version of Perdure",
  store_driver_missing: "no SQLite driver can be loaded on this version of Node",
  store_full: "the disk is full; nothing of this call was stored",
  store_io: "the disk failed, or the database refused access; the message has its reason",
  store_unavailable: "the database cannot be reached or does not accept writes; nothing of this call was stored",
  store_unknown:
    "the connection or the disk failed; whether this call was stored is unknown, and repeating it with its key is safe",
  store_refused: "the store refused this item; nothing of it was stored",
  invalid_request: "a request does not match the schema of the server; the message names the field",
  unauthorized: "the server requires a token, and this one is missing, unknown, expired or revoked",
  forbidden: "the token does not permit this, or the request is from a foreign web page",
  not_found: "the server has nothing at this address",
  signing_key_missing: "this server does not have the signing secret in use yet; nothing was done, try again later",
  lease_lost: "this session does not hold the attempt, or no longer; nothing was changed",
  body_too_large: "the request is over the server's limit; nothing of it was done",
  unsupported_media_type: "the server does not read requests of this type; send JSON",
  misdirected: "the server does not accept this host name; add it to the allowed hosts",
  too_many_requests: "too many requests of this kind; nothing was done, try again later",
  overloaded: "the server is overloaded; nothing was done, try again later",
  internal: "an error of the server; the call may have taken effect, and repeating it with its key is safe",
  server_unreachable:
    "the server cannot be reached; whether the call took effect is unknown, and repeating it with its key is safe",
} as const;

/** The code of an error: the same in every process and language. `docs/errors.md` has them all.
 *  @example
 *  const code: ErrorCode = "key_conflict"; */
export type ErrorCode = keyof typeof ERROR_CODES;

/** A call that failed. Compare its `code`, not its class: there may be two copies of the package.
 *  @example
 *  await perdure.submit(resize, { url }, { key: "a" }).catch((error: PerdureError) => {
 *    if (error.code !== "key_conflict") throw error;
 *  }); */
export class PerdureError extends Error {
  readonly code: ErrorCode;
  /** The field at fault (`retry.backoff.max`), where there is one. */
  readonly path: string | null;

  constructor(code: ErrorCode, message: string, options?: { path?: string; cause?: unknown }) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = "PerdureError";
    this.code = code;
    this.path = options?.path ?? null;
  }
}

/** The store or the server is not available at the moment; a caller that only waits may continue to wait. */
export function isOutage(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return OUTAGES.includes(code);
}

const OUTAGES: readonly unknown[] = [
  "store_unavailable",
  "store_unknown",
  "server_unreachable",
  "overloaded",
  "signing_key_missing",
  "internal",
] satisfies ErrorCode[];

/** A mistake in something a person wrote: the path of the field, what was given, what is allowed, the nearest known name.
 *  The message is `PATH: must be ALLOWED; got GIVEN`, or, where the given value does not show the problem,
 *  `PATH: PROBLEM; must be ALLOWED` or `PATH: PROBLEM; FIX`.
 *  @example
 *  try {
 *    resolvePolicy({ maxAttempts: 0 });
 *  } catch (error) {
 *    if (error instanceof ConfigError) console.error(error.path, error.allowed); // retry.maxAttempts
 *  } */
export class ConfigError extends PerdureError {
  readonly given: unknown;
  readonly allowed: string;
  readonly nearest: string | null;
  /** The message without the path and the nearest name. */
  readonly problem: string;

  constructor(parts: ConfigErrorParts) {
    const problem = problemText(parts);
    const hint = parts.nearest ? ` Did you mean "${parts.nearest}"?` : "";
    const at = parts.path === "" ? "" : `${parts.path}: `; // without a path, it is about the whole
    super("invalid_config", `${at}${problem}.${hint}`, { path: parts.path });
    this.name = "ConfigError";
    this.given = parts.given;
    this.allowed = parts.allowed ?? parts.fix ?? "";
    this.nearest = parts.nearest ?? null;
    this.problem = problem;
  }
}

interface ConfigErrorParts {
  readonly path: string;
  readonly given: unknown;
  /** What is accepted, as it follows "must be": `a whole number, at least 1`. */
  readonly allowed?: string;
  readonly nearest?: string | null;
  /** The given value for the message, where its JSON is too long or a secret. */
  readonly shown?: string;
  /** What is wrong, where the given value does not show it. */
  readonly problem?: string | undefined;
  /** What to do, where `allowed` does not show it: `remove one of them`. Requires `problem`. */
  readonly fix?: string;
}

function problemText({ given, allowed, shown, problem, fix }: ConfigErrorParts): string {
  if (problem !== undefined) {
    const end = fix ?? (allowed === undefined ? null : `must be ${allowed}`);
    return end === null ? problem : `${problem}; ${end}`;
  }
  if (given === undefined) return `is missing; must be ${allowed}`;
  return `must be ${allowed}; got ${shown ?? show(given)}`;
}

/** A value for a message: short, one line, never throwing. */
export function show(value: unknown): string {
  if (typeof value === "function") return "a function";
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "number") return String(value);
  if (value instanceof Date && Number.isNaN(value.getTime())) return "an invalid Date";
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    text = undefined;
  }
  text ??= hasNoText(value) ? "a value that cannot be shown" : String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** An object without a prototype, or with a `toString` that throws, has no text. */
function hasNoText(value: unknown): boolean {
  try {
    String(value);
    return false;
  } catch {
    return true;
  }
}
