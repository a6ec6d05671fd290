/** Errors of failed calls to a server: an error reply, or no complete reply. The same for the SDK and for workers;
 *  whether and when a call is repeated is in `repeat.ts`. */
import { type ErrorReply, isLater } from "../contract/wire.ts";
import { ERROR_CODES, type ErrorCode, PerdureError } from "../core/errors.ts";

interface WireFacts {
  /** Status of the reply; null without one. */
  readonly status?: number | null;
  /** How long the server requests to wait. */
  readonly retryAfterMs?: number | null;
  /** The request may have reached the server and been executed. */
  readonly mayBeDone?: boolean;
  /** The address is wrong: another program answers there, or its certificate is not trusted. */
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

/** The server of a call, for messages. */
export interface WireTarget {
  readonly server: string;
  /** The message adds that the call may have been done: for callers that do not repeat it themselves. */
  readonly isDoubtful?: boolean;
}

/** No reply, or an incomplete one. `isSent`: the request may have reached the server. */
export function unreachable({ server, isDoubtful }: WireTarget, thrown: unknown, isSent = true): WireError {
  const { code, cause } = (thrown ?? {}) as { code?: unknown; cause?: { code?: unknown } };
  const isWrongAddress = WRONG.test(String(code ?? cause?.code ?? ""));
  const doubt = isDoubtful && isSent ? "; whether the call was done is unknown" : "";
  const facts = { mayBeDone: isSent, isWrongAddress, cause: typeof thrown === "string" ? undefined : thrown };
  return new WireError(
    "server_unreachable",
    `the server at ${server} cannot be reached: ${wordsOf(thrown)}${doubt}`,
    facts,
  );
}

/** Errors of TLS, and of servers that do not use HTTP. */
const WRONG = /CERT|ISSUER|SIGNATURE|ALTNAME|^ERR_(TLS|SSL)|^EPROTO$|^HPE_/;

/** What a fetch or a socket threw, as text. The reason is in its cause, or in its code where a name has several
 *  addresses: their common error has no message. */
export function wordsOf(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  const { message, code, cause } = (thrown ?? {}) as { message?: unknown; code?: unknown; cause?: unknown };
  const inner = (cause ?? {}) as { message?: unknown; code?: unknown };
  for (const words of [inner.message, inner.code, message, code]) {
    if (typeof words === "string" && words !== "") return words;
  }
  return String(thrown);
}

/** The request cannot be sent: no header can hold its token. */
export function notSent(error: unknown): WireError {
  return new WireError("unauthorized", `the request cannot be sent: ${(error as Error).message}`, { cause: error });
}

export function tooLarge(server: string, limit: number): WireError {
  return new WireError("body_too_large", `the reply of ${server} is over ${limit} bytes`, { mayBeDone: true });
}

/** Another program answers at this address: a repeat does not help. */
export function notOurs(server: string, what: string, status: number | null = null): WireError {
  const message = `${server} answered with ${what}, which is not a reply of a Perdure server; is the address right?`;
  return new WireError("not_found", message, { status, mayBeDone: true, isWrongAddress: true });
}

/** The value of a successful reply; undefined for one without content (204). */
export function parseReply<T>(server: string, status: number, contentType: string | null | undefined, text: string): T {
  if (status === 204) return undefined as T;
  if (text === "") throw notOurs(server, "an empty reply", status);
  try {
    return JSON.parse(text) as T;
  } catch {
    if (!contentType?.includes("json")) throw notOurs(server, "something that is not JSON");
    throw new WireError("internal", `the reply of ${server} is not valid JSON`, { mayBeDone: true });
  }
}

/** An error reply. */
export function refusal(
  target: WireTarget,
  status: number,
  retryAfter: string | null | undefined,
  text: string,
): WireError {
  const { server } = target;
  const retryAfterMs = inMs(retryAfter);
  const reply = errorReply(text);
  // A gateway may reply with a code and a message of its own.
  const isKnown = reply !== null && Object.hasOwn(ERROR_CODES, reply.code);
  if (reply === null || (!isKnown && (OF_GATEWAYS.has(status) || status in OF_PROXIES))) {
    // The reply is from a proxy, or from another program.
    const what = `status ${status}`;
    const reason = reply === null ? "without a reason" : reply.message;
    if (status >= 500) return withFacts(unreachable(target, `${what}, ${reason}`), { status, retryAfterMs });
    const code = status < 400 || status === 404 || status === 405 ? null : (OF_PROXIES[status] ?? "invalid_request");
    if (code === null) return notOurs(server, status < 400 ? "a redirect" : what, status);
    return new WireError(code, `${server} answered with ${what}, ${reason}`, { status, retryAfterMs });
  }
  // 4xx, 503 and 507 mean that nothing was done.
  const mayBeDone = status >= 500 && !isLater(status);
  // Each 404 of a server has a known code: that of a gateway does not mean that a job or a session does not exist.
  const isWrongAddress = status === 404 && !isKnown;
  const facts = { status, retryAfterMs, mayBeDone, isWrongAddress, path: reply.path };
  // A server that is stopping is treated as unreachable: it, or another one, is back soon.
  if (reply.code === "closed") return new WireError("server_unreachable", `the server at ${server} is stopping`, facts);
  return new WireError(reply.code, reply.message, facts);
}

/** Statuses that a server of Perdure never sends. */
const OF_GATEWAYS: ReadonlySet<number> = new Set([502, 504]);

/** Statuses that a proxy in front of the server may send. */
const OF_PROXIES: Readonly<Record<number, ErrorCode>> = {
  401: "unauthorized",
  403: "forbidden",
  407: "unauthorized",
  413: "body_too_large",
  421: "misdirected",
  429: "too_many_requests",
};

function withFacts(error: WireError, facts: WireFacts): WireError {
  return new WireError(error.code, error.message, { mayBeDone: error.mayBeDone, ...facts });
}

/** The code may be one of a newer server: then the status decides. */
function errorReply(text: string): ErrorReply | null {
  try {
    const { code, message, path } = (JSON.parse(text) ?? {}) as Partial<ErrorReply>;
    if (typeof code !== "string" || typeof message !== "string") return null;
    return { code, message, path: typeof path === "string" ? path : null };
  } catch {
    return null;
  }
}

/** In seconds, as our server sends it; dates are not supported. */
function inMs(header: string | null | undefined): number | null {
  const seconds = Number(header ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : null;
}
