/** What an error is to the caller. Mistakes of the caller are told with the field at fault. Of our own troubles only the
 *  code and the id of the request are told; the rest goes to the log. */
import type { FastifyError } from "fastify";
import { type ErrorReply, isLater, statusOf } from "../contract/wire.ts";
import { ERROR_CODES, type ErrorCode, PerdureError } from "../core/errors.ts";
import type { StoreState } from "../engine/store-state.ts";
import { storable } from "../lib/text.ts";
import type { ServerLog } from "./log.ts";
import { redacted } from "./log.ts";

export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ErrorReply;
}

/** Errors of Fastify that are the caller's. */
const FASTIFY: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: "body_too_large",
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "unsupported_media_type",
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: "invalid_request",
  FST_ERR_BAD_URL: "not_found",
  FST_ERR_MAX_PARAM_LENGTH: "not_found",
};

const MAX_MESSAGE = 2_000;
const MAX_PATH = 300;

export function answerTo(
  error: unknown,
  requestId: string,
  log: ServerLog,
  storeState?: Pick<StoreState, "failed">,
): ErrorAnswer {
  const known = toKnown(error);
  const code = known?.code ?? "internal";
  const status = statusOf(code);
  // Refusals of a busy or stopping server are many, and no fault.
  if (status >= 500 && code !== "overloaded" && code !== "closed") {
    // While the store is full or away each request fails: they are counted, and only a log for debugging has each.
    if (storeState?.failed(error, "requests")) log("debug", "a request failed", { requestId, code });
    else log("error", "a request failed", { requestId, code, error });
  }
  // The words of a database may name its tables, files and hosts.
  const generic = known === null || status >= 500 || code === "store_refused";
  const message = generic ? `${ERROR_CODES[code]} (request ${requestId})` : told(known.message, MAX_MESSAGE);
  const headers: Record<string, string> = isLater(status) ? { "retry-after": retryAfter(code) } : {};
  const path = known?.path ?? null;
  return { status, headers, body: { code, message, path: path === null ? null : told(path, MAX_PATH) } };
}

const LATEST_SECONDS = 3;
let refusals = 0;

/** Those who were refused because they are too many are spread over some seconds, or they would all be back at once. */
function retryAfter(code: ErrorCode): string {
  return code === "overloaded" ? String(1 + (refusals++ % LATEST_SECONDS)) : "1";
}

/** Messages and paths hold what the caller sent: not its secrets, and not a megabyte of it. */
function told(text: string, limit: number): string {
  return redacted(storable(text, limit));
}

function toKnown(error: unknown): PerdureError | null {
  if (error instanceof PerdureError) return error;
  const { code, statusCode } = (error ?? {}) as Partial<FastifyError>;
  const mapped = code === undefined ? undefined : FASTIFY[code];
  if (mapped !== undefined) return new PerdureError(mapped, ERROR_CODES[mapped]);
  // The caller went away, or its body broke off while it was read.
  if (code === "ECONNRESET" || statusCode === 400) return new PerdureError("invalid_request", "the body broke off");
  return null;
}
