/** What the store's calls for workers take and return: claim, withdraw, renew, and the task defaults that sessions
 *  publish. */
import type { Resources } from "../core/input/resources.ts";
import type { TaskOptions } from "../core/task/task.ts";
import type { ClaimedJob, HeldAttempt, WorkerHealth } from "../core/worker-protocol.ts";

// What `claim`, `withdrawClaim` and `renew` of the port take and answer.

export interface ClaimRequest {
  readonly session: string;
  /** At most so many; a store may give fewer at a time. */
  readonly limit: number;
  /** Repeated with the same id, a claim returns the same jobs. Null where replies cannot be lost. */
  readonly claimId: string | null;
  /** The last word on this claim id: it gets what the id got before, and nothing new is ever claimed under it. */
  readonly last?: boolean;
  /** It takes no more cpu and memory than this, whatever the store finds free of its session's and its host's. */
  readonly room?: Resources;
}

export interface ClaimAnswer {
  /** False when the session has ended. */
  readonly alive: boolean;
  /** The session is to take no more jobs: it gets none. */
  readonly drain: boolean;
  readonly jobs: ClaimedJob[];
  /** Jobs that were due and have failed instead: a budget above them has too little left. */
  readonly overBudget?: readonly OverBudgetJob[];
  /** When the next job for this session falls due, if none is due now. */
  readonly nextAt: number | null;
  /** Which reply to its claim id this is, from 1. Null where nothing was claimed, or it has no id. */
  readonly delivery: number | null;
}

export interface OverBudgetJob {
  readonly jobId: string;
  readonly parentId: string | null;
}

export interface WithdrawRequest {
  readonly session: string;
  readonly claimId: string;
  /** Of the reply that did not get through: nothing is withdrawn until every reply to this claim has not. */
  readonly delivery: number;
}

/** With more replies than this to one claim nothing is withdrawn: its jobs come back when the session renews. */
const MAX_UNDELIVERED = 100;

/** The replies that did not get through, this one included, and whether they are all that were given. Replies are not given in the
 *  order of their calls, so a later one says nothing about those before it. */
export function noteUndelivered(text: string, delivery: number, deliveries: number): { text: string; all: boolean } {
  const failed = new Set(JSON.parse(text) as number[]);
  if (delivery <= deliveries && failed.size < MAX_UNDELIVERED) failed.add(delivery);
  return { text: JSON.stringify([...failed]), all: failed.size === deliveries };
}

export interface RenewRequest {
  readonly session: string;
  readonly held: readonly HeldAttempt[];
  /** A job of this session that it does not list, and claimed longer ago than this, is one it never heard of. The
   *  session's lease, where it is not said. */
  readonly unheardAfterMs?: number;
  /** Left as it was where nothing is said. */
  readonly health?: WorkerHealth | null;
}

// What a session publishes of its tasks, read back.

/** Of a session; empty where its task has no defaults. */
export interface PublishedDefaults {
  readonly session: string;
  readonly worker: string;
  readonly options: TaskOptions;
}

/** Of more than these, older ones are not asked. */
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
