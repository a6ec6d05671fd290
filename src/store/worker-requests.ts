/** Arguments and answers of the store's calls for workers: claim, withdraw and renew, and the task defaults that
 *  sessions publish. */
import type { Resources } from "../core/input/resources.ts";
import type { TaskOptions } from "../core/task/task.ts";
import type { ClaimedJob, HeldAttempt, WorkerHealth } from "../core/worker-protocol.ts";

// `claim`, `withdrawClaim` and `renew`.

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

/** With more replies than this to one claim nothing is withdrawn: its jobs are released when the session renews. */
const MAX_UNDELIVERED = 100;

/** The undelivered replies, including this one, and whether they are all replies that were sent. Replies may be sent
 *  out of order, so a later one says nothing about earlier ones. */
export function noteUndelivered(text: string, delivery: number, deliveries: number): { text: string; all: boolean } {
  const failed = new Set(JSON.parse(text) as number[]);
  if (delivery <= deliveries && failed.size < MAX_UNDELIVERED) failed.add(delivery);
  return { text: JSON.stringify([...failed]), all: failed.size === deliveries };
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

// The task defaults that a session publishes.

/** Empty if the task has no defaults. */
export interface PublishedDefaults {
  readonly session: string;
  readonly worker: string;
  readonly options: TaskOptions;
}

/** How many of the newest sessions are searched. */
export const NEWEST_SESSIONS = 1_000;

export interface PublishedRow {
  readonly session: string;
  readonly worker: string;
  /** JSON, by kind. */
  readonly defaults: string;
}

export function toPublished(row: PublishedRow | undefined, kind: string): PublishedDefaults | null {
  if (row === undefined) return null;
  const all = JSON.parse(row.defaults) as Readonly<Record<string, TaskOptions>>;
  return {
    session: row.session,
    worker: row.worker,
    options: Object.hasOwn(all, kind) ? (all[kind] as TaskOptions) : {},
  };
}
