/** The reply to an error. Mistakes of the caller are reported with the invalid field. Errors of the server only have their code and
 *  the request id; the details are logged. */
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

/** Errors of Fastify that are mistakes of the caller. */
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
  // Refusals of a busy server, or one that shuts down, are expected.
  if (status >= 500 && code !== "overloaded" && code !== "closed") {
    // During an outage of the store every request fails: they are counted, and logged at level debug only.
    if (storeState?.failed(error, "requests")) log("debug", "request failed", { requestId, code });
    else log("error", "request failed", { requestId, code, error });
  }
  // Messages of a database may contain names of tables, files and hosts.
  const generic = known === null || status >= 500 || code === "store_refused";
  const message = generic ? `${ERROR_CODES[code]} (request ${requestId})` : shortened(known.message, MAX_MESSAGE);
  const headers: Record<string, string> = isLater(status) ? { "retry-after": retryAfter(code) } : {};
  const path = known?.path ?? null;
  return { status, headers, body: { code, message, path: path === null ? null : shortened(path, MAX_PATH) } };
}

const LATEST_SECONDS = 3;
let refusals = 0;

/** Retries after an overload are spread over a few seconds, so that they do not come back all at once. */
function retryAfter(code: ErrorCode): string {
  return code === "overloaded" ? String(1 + (refusals++ % LATEST_SECONDS)) : "1";
}

/** Messages and paths quote what the caller sent: without secrets, and up to a limit. */
function shortened(text: string, limit: number): string {
  return redacted(storable(text, limit));
}

function toKnown(error: unknown): PerdureError | null {
  if (error instanceof PerdureError) return error;
  const { code, statusCode } = (error ?? {}) as Partial<FastifyError>;
  const mapped = code === undefined ? undefined : FASTIFY[code];
  if (mapped !== undefined) return new PerdureError(mapped, ERROR_CODES[mapped]);
  // The client disconnected, or the body ended early.
  if (code === "ECONNRESET" || statusCode === 400) return new PerdureError("invalid_request", "the body is incomplete");
  return null;
}
