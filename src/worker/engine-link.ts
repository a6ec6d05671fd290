/** How a worker speaks to its engine: in the same process or, later, over HTTP. A worker decides nothing and holds no
 *  credentials of a database; every call names its session. */
import type { ClaimedJob, HeldAttempt, NewSession, RenewAnswer, Report, SettleAnswer } from "../core/work.ts";

export type SessionRequest = Omit<NewSession, "id" | "leaseMs">;

export interface EngineLink {
  /** Claims of one worker that are worth making at a time. */
  readonly claimsAtOnce: number;
  openSession(request: SessionRequest): Promise<{ readonly session: string; readonly leaseMs: number }>;
  closeSession(session: string): Promise<void>;
  /** Waits for a job up to `waitMs`. */
  claim(
    session: string,
    options: { readonly limit: number; readonly waitMs: number; readonly signal: AbortSignal },
  ): Promise<{ readonly alive: boolean; readonly jobs: readonly ClaimedJob[] }>;
  renew(session: string, held: readonly HeldAttempt[]): Promise<RenewAnswer>;
  report(report: Report): Promise<SettleAnswer>;
  /** Calls as soon as a cancel is known; renewals tell it too. */
  onCancel(session: string, call: (jobId: string, attempt: number) => void): () => void;
}

/** The engine was closed under us: there is nobody to speak to any more. */
export function isClosed(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "closed";
}
