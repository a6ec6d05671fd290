/** Attempts in the port: claim jobs, keep the leases on them, settle them, and read what attempts left. */
import type { BudgetNow } from "../../core/decision/budget.ts";
import type { Crash } from "../../core/decision/evidence.ts";
import type { Resources } from "../../core/input/resources.ts";
import type { Job, Usage } from "../../core/job/job.ts";
import type { Settlement } from "../../core/job/lifecycle.ts";
import type { AttemptRow } from "../../core/job/views.ts";
import type {
  ClaimedJob,
  HeldAttempt,
  RenewAnswer,
  Report,
  SettleAnswer,
  WorkerHealth,
} from "../../core/worker-protocol.ts";

export interface AttemptStore {
  /** Starts due jobs for a session, lowest priority number first, then longest due. */
  claim(requests: readonly ClaimRequest[], now: number): Promise<ClaimAnswer[]>;
  /** The reply to a claim could not be delivered: nothing is claimed under its id again. Returns what the session still holds of
   *  it, to be settled as released; nothing if another reply with the same jobs was given since. */
  withdrawClaim(request: WithdrawRequest): Promise<{ readonly jobId: string; readonly attempt: number }[]>;
  /** Extends session leases. Returns which attempts are no longer held and which are to be cancelled. */
  renew(requests: readonly RenewRequest[], now: number): Promise<RenewAnswer[]>;
  /** Closes attempts. What `decide` returns is written only if the row, under its lock, is the job that `decide` was given;
   *  otherwise the store calls it again. */
  settle(reports: readonly Report[], now: number, decide: DecideReport): Promise<SettleAnswer[]>;
  /** Total usage of a running attempt so far. It never shrinks: of two numbers the larger counts. False if the attempt is not
   *  running. */
  setUsage(jobId: string, attempt: number, usage: Usage): Promise<boolean>;

  /** Closed attempts with their results, oldest first, in pages: as many as fit, and at least one. An empty page is the end. */
  attempts(jobId: string, page?: AttemptsPage): Promise<AttemptRow[]>;
  /** What an attempt has logged so far, also while it runs, in pages, from `after` on (0: the beginning). `attempt` null: the
   *  latest that logged anything. Null if there is nothing more to read. */
  log(jobId: string, attempt: number | null, after?: number): Promise<AttemptLog | null>;
}

// Claim.

export interface ClaimRequest {
  readonly session: string;
  /** The maximum number of jobs; a store may return fewer. */
  readonly limit: number;
  /** A repeated claim with the same id returns the same jobs. Null if replies cannot be lost. */
  readonly claimId: string | null;
  /** Closes this claim id: returns what the id got before, and nothing new is ever claimed under it. */
  readonly last?: boolean;
  /** Limits the cpu and memory of the claimed jobs, in addition to what session and host have free. */
  readonly room?: Resources;
}

export interface ClaimAnswer {
  /** False when the session has ended. */
  readonly alive: boolean;
  /** The session is draining: it gets no jobs. */
  readonly drain: boolean;
  readonly jobs: ClaimedJob[];
  /** Jobs that were due and have failed instead: a budget above them has too little left. */
  readonly overBudget?: readonly OverBudgetJob[];
  /** When the next job for this session is due, if none is due now. */
  readonly nextAt: number | null;
  /** The number of this reply to the claim id, from 1. Null if nothing was claimed, or it has no id. */
  readonly delivery: number | null;
}

export interface OverBudgetJob {
  readonly jobId: string;
  readonly parentId: string | null;
}

export interface WithdrawRequest {
  readonly session: string;
  readonly claimId: string;
  /** The number of the reply that was not delivered. Nothing is withdrawn while any reply to this claim may have been
   *  delivered. */
  readonly delivery: number;
}

export interface RenewRequest {
  readonly session: string;
  readonly held: readonly HeldAttempt[];
  /** A job of this session that the renewal does not list, and that was claimed longer ago than this, counts as never
   *  received. Default: the session's lease. */
  readonly unheardAfterMs?: number;
  /** Unchanged if missing. */
  readonly health?: WorkerHealth | null;
}

// Settle.

/** What `settle` knows beside the job: the session that held it. */
export interface AttemptLease {
  readonly session: string | null;
  readonly renewedAt: number | null;
  /** The session had ended, in good order or not, or its row is missing. */
  readonly ended: boolean;
  /** Usage reported while it ran, for an attempt that ended without a report. */
  readonly usage: Usage | null;
  /** The budgets that cover it, the nearest first, without what this attempt held of them. */
  readonly budgets: readonly BudgetNow[];
  /** Of an attempt reported as lost: what is known about the loss. */
  readonly crash?: Crash | undefined;
}

export type DecideReport = (job: Job, report: Report, held: AttemptLease) => Settlement;

// Reads.

/** Which attempts of a job to read. */
export interface AttemptsPage {
  /** The last attempt that was read; 0: start with the first. */
  readonly after?: number;
  /** At most ATTEMPTS_PAGE, the default. */
  readonly limit?: number;
}

/** A page of an attempt's log: at most LOG_PAGE pieces, each as long as one renewal may carry. */
export interface AttemptLog {
  readonly attempt: number;
  readonly text: string;
  /** Where the next page starts. */
  readonly next: number;
}
