/** How a worker speaks to its engine: in the same process, or over HTTP. A worker decides nothing and holds no
 *  credentials of a database; every call names its session. */
import type { Family } from "../core/task/task.ts";
import type {
  ClaimedJob,
  HeldAttempt,
  NewSession,
  RenewAnswer,
  Report,
  SettleAnswer,
  WorkerHealth,
} from "../core/worker-protocol.ts";

export type LinkSessionRequest = Omit<NewSession, "id" | "leaseMs">;

export interface LinkClaimOptions {
  readonly limit: number;
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

export interface LinkClaimAnswer {
  readonly alive: boolean;
  /** It is to take no more. */
  readonly drain: boolean;
  readonly jobs: readonly ClaimedJob[];
}

export interface EngineLink {
  /** Claims of one worker that are worth making at a time; known when a session is open. */
  readonly claimsAtOnce: number;
  /** The time between two renewals, where a third of the lease is not often enough. */
  readonly heartbeatMs?: number;
  /** May wait for an engine that is away, until the signal is aborted. */
  openSession(
    request: LinkSessionRequest,
    options?: { readonly signal: AbortSignal },
  ): Promise<{ readonly session: string; readonly leaseMs: number }>;
  closeSession(session: string): Promise<void>;
  /** Waits for a job up to `waitMs`. */
  claim(session: string, options: LinkClaimOptions): Promise<LinkClaimAnswer>;
  renew(session: string, held: readonly HeldAttempt[], health?: WorkerHealth): Promise<RenewAnswer>;
  /** `session` is the one that claimed it, which may not be the present one. */
  report(report: Report, session: string): Promise<SettleAnswer>;
  /** Calls as soon as a cancel is known; renewals tell it too. */
  onCancel(session: string, call: (jobId: string, attempt: number) => void): () => void;
  /** For handlers that submit children and wait for them. */
  readonly family?: Family;
  /** What a command of this attempt finds in its environment to reach its server: `PERDURE_URL` and `PERDURE_TOKEN`, which is
   *  the job's own. Nothing where there is no server. */
  access?(job: ClaimedJob): Readonly<Record<string, string>>;
  /** Calls as soon as a drain is known; claims and renewals tell it too. */
  onDrain?(session: string, call: () => void): () => void;
}

/** The engine was closed under us: there is nobody to speak to any more. */
export function isClosed(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "closed";
}
