/** A call to the server that did not succeed: what the server said, or that nothing came back. Its code says what to do
 *  about it; `mayPass` says whether trying again can help. */
import { type ErrorCode, isOutage, PerdureError } from "../../core/errors.ts";

export interface WireFacts {
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
