/** What an error is on the wire. 4xx, 503 and 507: nothing was done. Any other 5xx: it may have been done, and repeating it
 *  is safe (a submit with its key, a claim with its id, a report with its id). */
import type { ErrorCode } from "../core/errors.ts";

/** The one shape of every error reply. */
export interface ErrorReply {
  readonly code: ErrorCode;
  readonly message: string;
  /** The field at fault, where there is one. */
  readonly path: string | null;
}

const STATUS: Partial<Readonly<Record<ErrorCode, number>>> = {
  invalid_config: 400,
  invalid_payload: 400,
  invalid_cursor: 400,
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
  job_not_found: 404,
  not_found: 404,
  key_conflict: 409,
  wrong_state: 409,
  budget_spent: 409,
  parent_ended: 409,
  lease_lost: 409,
  body_too_large: 413,
  output_too_large: 413,
  unsupported_media_type: 415,
  misdirected: 421,
  store_refused: 422,
  too_many_requests: 429,
  closed: 503,
  overloaded: 503,
  signing_key_missing: 503,
  store_unavailable: 503,
  store_full: 507,
};

export function statusOf(code: ErrorCode): number {
  return STATUS[code] ?? 500;
}

/** Statuses that say: not done, try again later. They carry `Retry-After`. */
export function isLater(status: number): boolean {
  return status === 429 || status === 503 || status === 507;
}
