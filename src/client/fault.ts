/** What went wrong with a call, and whether it may be made again. */
import { type ErrorReply, isLater } from "../contract/wire.ts";
import { type ErrorCode, PerdureError } from "../core/errors.ts";

export class Fault extends Error {
  readonly error: PerdureError;
  /** `no`: the server has done nothing, and may take it later. `maybe`: nobody can tell. `answered`: asked again, it would
   *  say the same. */
  readonly done: "no" | "maybe" | "answered";
  /** The server's own wish. */
  readonly retryAfterMs: number;

  constructor(error: PerdureError, done: Fault["done"], retryAfterMs = 0) {
    super(error.message);
    this.error = error;
    this.done = done;
    this.retryAfterMs = retryAfterMs;
  }
}

const AWAY: ReadonlySet<ErrorCode> = new Set([
  ...(["server_unreachable", "store_unavailable", "store_unknown", "store_full"] as const),
  ...(["overloaded", "too_many_requests", "closed"] as const),
]);

/** The server is away, or cannot take it now. Who only waits, waits on. */
export function isAway(error: unknown): boolean {
  return error instanceof PerdureError && AWAY.has(error.code);
}

/** What was called. A read changes nothing, so that it does not matter whether it was done. */
export interface CalledOperation {
  readonly where: string;
  readonly isRead: boolean;
}

/** No reply came, or it broke off. */
export function unreachable({ where, isRead }: CalledOperation, why: string, cause?: unknown): Fault {
  const message = `${where} cannot be reached: ${why}${isRead ? "" : "; whether the call was done is unknown"}`;
  const options = cause === undefined ? {} : { cause };
  return new Fault(new PerdureError("server_unreachable", message, options), "maybe");
}

/** The words of whatever a fetch threw: the reason lies in its cause, or in the list of those of several addresses. */
export function wordsOf(thrown: unknown): string {
  const { message, cause } = (thrown ?? {}) as { message?: unknown; cause?: unknown };
  const inner = (cause ?? {}) as { message?: unknown; code?: unknown };
  for (const words of [inner.message, inner.code, message]) if (typeof words === "string" && words !== "") return words;
  return String(thrown);
}

/** Statuses that a proxy before the server may answer with, in words of its own. */
const OF_PROXIES: Readonly<Record<number, ErrorCode>> = {
  401: "unauthorized",
  403: "forbidden",
  413: "body_too_large",
  421: "misdirected",
  429: "too_many_requests",
};

/** A reply that is no success. */
export function faultOf(called: CalledOperation, status: number, text: string, retryAfter: string | null): Fault {
  const { where } = called;
  const reply = errorReply(text);
  if (reply === null) {
    if (status >= 500) return unreachable(called, `it answered ${status} without saying why`);
    const code = OF_PROXIES[status] ?? "not_found";
    return new Fault(new PerdureError(code, `${where} answered ${status}, ${NOT_OURS}`), "answered");
  }
  const error = new PerdureError(reply.code, reply.message, reply.path === null ? {} : { path: reply.path });
  if (isLater(status)) return new Fault(error, "no", retryAfterMs(retryAfter));
  // Of the other faults of a server only a broken connection to its database passes by itself.
  return new Fault(error, reply.code === "store_unknown" ? "maybe" : "answered");
}

/** Something answers there, but it is no server of ours: asking again would not help. */
export function notOurs(where: string, what: string): Fault {
  return new Fault(new PerdureError("not_found", `${where} answered with ${what}, ${NOT_OURS}`), "answered");
}

const NOT_OURS = "and not as a Perdure server does; is the address right?";

function errorReply(text: string): ErrorReply | null {
  try {
    const { code, message, path } = (JSON.parse(text) ?? {}) as Partial<ErrorReply>;
    if (typeof code !== "string" || typeof message !== "string") return null;
    return { code, message, path: typeof path === "string" ? path : null };
  } catch {
    return null;
  }
}

/** In seconds; our servers send no dates. */
function retryAfterMs(header: string | null): number {
  const seconds = Number(header ?? "0");
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : 0;
}
