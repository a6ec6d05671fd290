/** Constants and formats of the wire that need no schema library: headers and limits, the status of each error code,
 *  and the health of a worker. */
import type { ErrorCode } from "../core/errors.ts";
import type { Usage } from "../core/job/job.ts";
import type { WorkerHealth } from "../core/worker-protocol.ts";

/** Perdure's own headers; Node and browsers ignore their case. */
export const HEADER = {
  /** The namespace, for a token of all namespaces; default: `default`. */
  namespace: "perdure-namespace",
  /** Proves that the caller is the session it names. */
  sessionKey: "perdure-session-key",
  /** The lease token of the attempt whose files are written or read. */
  lease: "perdure-lease",
  /** The attempt of a log. */
  attempt: "perdure-attempt",
  /** Where the next page of a log begins. */
  logNext: "perdure-log-next",
  /** Features of a worker or a server beyond 0.1.0 (`features.ts`). */
  features: "perdure-features",
  /** On every reply, and in the server's log. */
  requestId: "perdure-request-id",
  /** The code of an error in the format of another system, whose body has no field for it. */
  errorCode: "perdure-error-code",
} as const;

export const API_VERSION = 1;

export const LIMIT = {
  /** A held request is answered within this time, whatever happens. */
  waitMs: 30_000,
  submitMany: 10_000,
  /** Different retry policies in one such request. */
  policies: 1_000,
  claim: 500,
  reports: 1_000,
  held: 100_000,
  waitJobs: 1_000,
  events: 1_000,
  attempts: 100,
  workers: 200,
  /** Attempts in a page of outputs. */
  outputs: 100,
  queues: 1_000,
  tokens: 1_000,
  jobs: 1_000,
  steps: 1_000,
  playbooks: 200,
  /** Of one text of a playbook. */
  playbookChars: 1_048_576,
} as const;

// Errors on the wire. 4xx, 503 and 507: nothing was done. Any other 5xx: it may have been done, and a repeat is safe (a
// submit with its key, a claim with its id, a report with its id).

/** The body of every error reply. */
export interface ErrorReply {
  readonly code: ErrorCode;
  readonly message: string;
  /** The invalid field, if there is one. */
  readonly path: string | null;
}

const STATUS: Partial<Readonly<Record<ErrorCode, number>>> = {
  invalid_config: 400,
  invalid_payload: 400,
  invalid_cursor: 400,
  invalid_request: 400,
  invalid_playbook: 400,
  unauthorized: 401,
  forbidden: 403,
  job_not_found: 404,
  not_found: 404,
  playbook_not_found: 404,
  key_conflict: 409,
  wrong_state: 409,
  playbook_incompatible: 409,
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

/** Statuses of calls that were not done and may be repeated later. They have `Retry-After`. */
export function isLater(status: number): boolean {
  return status === 429 || status === 503 || status === 507;
}

/** Only the fields of the wire, for the sender and for the receiver. */
export function toWireUsage({ tokensIn, tokensOut, costUsd }: Usage): Usage {
  return { tokensIn, tokensOut, costUsd };
}

// The health of a worker on the wire, with the field names that operators of other systems know.

export interface WireHealth {
  readonly consecutive_failures: number;
  readonly total: number;
  readonly failed: number;
  readonly average_ms: number;
  readonly in_hand: number;
  readonly slots: number;
  readonly load: number;
}

export function toWireHealth(health: WorkerHealth): WireHealth {
  const { consecutiveFailures, total, failed, averageMs, inHand, slots, load } = health;
  return {
    consecutive_failures: consecutiveFailures,
    total,
    failed,
    average_ms: averageMs,
    in_hand: inHand,
    slots,
    load,
  };
}

export function fromWireHealth(health: WireHealth): WorkerHealth {
  const { consecutive_failures, total, failed, average_ms, in_hand, slots, load } = health;
  return {
    consecutiveFailures: consecutive_failures,
    total,
    failed,
    averageMs: average_ms,
    inHand: in_hand,
    slots,
    load,
  };
}
