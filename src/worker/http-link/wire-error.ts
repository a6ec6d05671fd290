/** A call to the server that did not succeed: the code of the server's reply, or that no reply came, and whether a
 *  retry can help. */

import type { IncomingHttpHeaders } from "node:http";
import { ERROR_CODES, type ErrorCode, isOutage, PerdureError } from "../../core/errors.ts";

// A call to the server that did not succeed: what the server said, or that nothing came back. Its code says what to
// do about it; `mayPass` says whether trying again can help.

interface WireFacts {
  /** Of the reply; null without one. */
  readonly status?: number | null;
  /** What the server asked us to wait. */
  readonly retryAfterMs?: number | null;
  /** The request may have reached the server, and been carried out. */
  readonly mayBeDone?: boolean;
  /** The address itself is at fault: another program answers there, or its certificate is not trusted. */
  readonly isWrongAddress?: boolean;
  readonly path?: string | null;
  readonly cause?: unknown;
}

export class WireError extends PerdureError {
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  readonly mayBeDone: boolean;
  readonly isWrongAddress: boolean;

  constructor(code: ErrorCode, message: string, facts: WireFacts = {}) {
    super(code, message, { ...(facts.path ? { path: facts.path } : {}), cause: facts.cause });
    this.status = facts.status ?? null;
    this.retryAfterMs = facts.retryAfterMs ?? null;
    this.mayBeDone = facts.mayBeDone ?? false;
    this.isWrongAddress = facts.isWrongAddress ?? false;
  }
}

/** The token is not, or no longer, good for this. Somebody may mend that while we wait. */
export function isDenied(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "unauthorized" || code === "forbidden";
}

const LATER: readonly unknown[] = ["too_many_requests", "store_full", "store_io"];

/** Trying again may help, now or when somebody has mended something. */
export function mayPass(error: unknown): boolean {
  const { code, isWrongAddress } = (error ?? {}) as { code?: unknown; isWrongAddress?: unknown };
  return isOutage(error) || isDenied(error) || LATER.includes(code) || isWrongAddress === true;
}

/** The server knows nothing of this session, or of this attempt in its hands. */
export function isGone(error: unknown): boolean {
  return error instanceof WireError && !error.isWrongAddress && (error.status === 404 || error.code === "lease_lost");
}

// Tells what went wrong with a call: by the reply's own code where the server gave one, else by what is known.

/** The request never left. */
export function notSent(error: unknown): WireError {
  return new WireError("unauthorized", `the request cannot be sent: ${(error as Error).message}`, { cause: error });
}

/** Nothing came back, or not all of it. */
export function unanswered(server: string, error: NodeJS.ErrnoException, isSent: boolean): WireError {
  const isWrongAddress = WRONG.test(error.code ?? "");
  // Where a name has several addresses, the error of them all has no message of its own.
  const why = error.message === "" ? (error.code ?? error.name) : error.message;
  const facts = { mayBeDone: isSent, isWrongAddress, cause: error };
  return new WireError("server_unreachable", `the server at ${server} cannot be reached: ${why}`, facts);
}

/** Of TLS, and of something that does not speak HTTP. */
const WRONG = /CERT|ISSUER|SIGNATURE|ALTNAME|^ERR_(TLS|SSL)|^EPROTO$|^HPE_/;

export function tooLarge(server: string, limit: number): WireError {
  return new WireError("body_too_large", `the answer of ${server} is over ${limit} bytes`, { mayBeDone: true });
}

export function notJson(server: string, isOtherType: boolean): WireError {
  if (!isOtherType) return new WireError("internal", `the answer of ${server} is not JSON`, { mayBeDone: true });
  const message = `what answers at ${server} is no Perdure server`;
  return new WireError("not_found", message, { mayBeDone: true, isWrongAddress: true });
}

/** A reply that says no. */
export function refusal(server: string, status: number, headers: IncomingHttpHeaders, text: string): WireError {
  const said = saidIn(text);
  const facts = {
    status,
    retryAfterMs: retryAfter(headers["retry-after"]),
    // 4xx, 503 and 507 mean that nothing was done.
    mayBeDone: status >= 500 && status !== 503 && status !== 507,
    path: said?.path ?? null,
  };
  // A server that stops is back soon, or another one is: to a worker elsewhere it is just away.
  if (said?.code === "closed") return new WireError("server_unreachable", `${server} is stopping`, facts);
  if (said !== null) return new WireError(said.code, said.message, facts);
  const code = codeOf(status);
  const message = `${server} answered with status ${status}`;
  if (code !== "not_found") return new WireError(code, message, facts);
  return new WireError(code, `${message}: it is no Perdure server`, { ...facts, isWrongAddress: true });
}

function saidIn(text: string): { code: ErrorCode; message: string; path: string | null } | null {
  try {
    const { code, message, path } = JSON.parse(text) as Record<string, unknown>;
    if (typeof code !== "string" || !(code in ERROR_CODES)) return null;
    return { code: code as ErrorCode, message: String(message), path: typeof path === "string" ? path : null };
  } catch {
    return null;
  }
}

/** Of a reply that is not the server's own: a proxy stands in between, or another program. */
function codeOf(status: number): ErrorCode {
  if (status === 401 || status === 407) return "unauthorized";
  if (status === 403) return "forbidden";
  if (status === 413) return "body_too_large";
  if (status === 429) return "too_many_requests";
  if (status === 502 || status === 503 || status === 504) return "server_unreachable";
  if (status >= 500) return "internal";
  // Redirects too: a token is not carried to another address.
  if (status === 404 || status === 405 || status < 400) return "not_found";
  return "invalid_request";
}

/** In seconds, as our server sends it; a date is left unread. */
function retryAfter(header: string | undefined): number | null {
  const seconds = Number(header);
  return header !== undefined && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : null;
}
