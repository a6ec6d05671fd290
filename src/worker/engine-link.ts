/** The worker's interface to its engine: in the same process, or over HTTP. A worker decides nothing and has no database
 *  credentials; every call names its session. */
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
  /** The worker must stop claiming. */
  readonly drain: boolean;
  readonly jobs: readonly ClaimedJob[];
}

export interface EngineLink {
  /** Useful number of concurrent claims of one worker; known once a session is open. */
  readonly claimsAtOnce: number;
  /** The interval of renewals, if it should be shorter than a third of the lease. */
  readonly heartbeatMs?: number;
  /** May wait for an engine that cannot be reached, until the signal is aborted. */
  openSession(
    request: LinkSessionRequest,
    options?: { readonly signal: AbortSignal },
  ): Promise<{ readonly session: string; readonly leaseMs: number }>;
  closeSession(session: string): Promise<void>;
  /** Waits for a job up to `waitMs`. */
  claim(session: string, options: LinkClaimOptions): Promise<LinkClaimAnswer>;
  renew(session: string, held: readonly HeldAttempt[], health?: WorkerHealth): Promise<RenewAnswer>;
  /** `session` is the one that claimed the job, which need not be the current one. */
  report(report: Report, session: string): Promise<SettleAnswer>;
  /** Calls back as soon as a cancel is known; renewals return it too. */
  onCancel(session: string, call: (jobId: string, attempt: number) => void): () => void;
  /** For handlers that submit children and wait for them; undefined if the link does not support that. */
  readonly family?: Family;
  /** Environment variables with which a command of this attempt reaches its server: `PERDURE_URL`, and the job's own token in
   *  `PERDURE_TOKEN`. Empty without a server. */
  access?(job: ClaimedJob): Readonly<Record<string, string>>;
  /** Content that is stored with a playbook, by its SHA-256; null if it does not exist. May wait for an engine that cannot be
   *  reached. */
  asset?(hash: string): Promise<Uint8Array | null>;
  /** Calls back as soon as a drain is known; claims and renewals return it too. */
  onDrain?(session: string, call: () => void): () => void;
}

/** The engine, or the link to it, was closed in this process. */
export function isClosed(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "closed";
}
