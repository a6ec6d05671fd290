/** The data that an engine and its workers exchange, in one process or over the wire. */

import type { Failure } from "./decision/failure.ts";
import type { ErrorCode } from "./errors.ts";
import type { Resources } from "./input/resources.ts";
import type { FailReason, JobState, Usage } from "./job/job.ts";
import type { TaskOptions } from "./task/task.ts";

/** The size limit of a payload, and of a result, as JSON in UTF-8. Workers check results before they report them. */
export const MAX_JOB_BODY_BYTES = 1_048_576;

export interface NewSession {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  /** Identifies the process on its machine, so that its exit can be proved; null where that is not possible. */
  readonly process?: string | null;
  readonly kinds: readonly string[];
  /** Null: all queues of the namespace. */
  readonly queues: readonly string[] | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly slots: number;
  readonly leaseMs: number;
  /** The defaults of its tasks by kind, for submits by name. Null or absent: it publishes none. */
  readonly defaults?: Readonly<Record<string, TaskOptions>> | null;
  /** The owner for quotas, and the limit of live sessions of that owner; absent: no limit. */
  readonly owner?: string | null;
  readonly most?: number;
}

/** The payload of a job without an input. It is not valid JSON, so it is unambiguous. */
export const NO_INPUT = "";

export interface ClaimedJob {
  readonly id: string;
  readonly namespace: string;
  readonly queue: string;
  readonly kind: string;
  readonly attempt: number;
  readonly chapter: number;
  readonly token: string;
  readonly payload: string;
  readonly timeoutMs: number | null;
  readonly failures: number;
  readonly maxAttempts: number;
  readonly tags: readonly string[];
  /** The failure of the previous attempt, as JSON, which most handlers do not read. */
  readonly previous: string | null;
  /** The cpu and memory that it takes; absent for none. */
  readonly needs?: Resources;
  /** A token for its own processes, to submit and read children and report usage; only if the server issues one. */
  readonly jobToken?: string;
}

export interface HeldAttempt {
  readonly jobId: string;
  readonly attempt: number;
  readonly usage?: Usage | null;
  readonly progress?: string | null;
  /** Log text since the last renewal. */
  readonly log?: string | null;
}

/** The health of a worker as it reports it, since the start of its session. For display only.
 *  @example
 *  const [worker] = await perdure.workers();
 *  const health: WorkerHealth | null = worker?.health ?? null; */
export interface WorkerHealth {
  readonly consecutiveFailures: number;
  /** Attempts that ended on this worker. */
  readonly total: number;
  readonly failed: number;
  readonly averageMs: number;
  readonly inHand: number;
  readonly slots: number;
  /** The load average of its machine per processor. */
  readonly load: number;
}

export interface RenewAnswer {
  readonly alive: boolean;
  readonly leaseMs: number;
  /** The worker must drain: take no more jobs, finish what it holds, and close. */
  readonly drain: boolean;
  /** Held attempts that another session holds now, or that have ended. */
  readonly lost: { readonly jobId: string; readonly attempt: number }[];
  readonly cancel: { readonly jobId: string; readonly attempt: number }[];
  /** Held attempts of jobs that have exceeded a budget; they must stop. */
  readonly overspent: { readonly jobId: string; readonly attempt: number }[];
  /** Its lease had expired before this renewal, but no reaper had ended it yet; it got no jobs meanwhile. */
  readonly wasOver?: boolean;
  /** Running for this session, but not listed by it for a whole lease; settled as released. */
  readonly unheard: { readonly jobId: string; readonly attempt: number }[];
}

/** Who settles an attempt: the worker that holds it, with its token, or the engine, with a condition that is checked again. */
export type Reporter =
  | { readonly kind: "worker"; readonly token: string; readonly reportId: string }
  /** Only if the lease of the session has expired. */
  | { readonly kind: "reaper" }
  /** Only if the session has not started it. `undelivered`: the reply to its claim was not delivered, so the same session may claim
   *  it again. */
  | { readonly kind: "release"; readonly session: string; readonly undelivered?: boolean }
  /** Only if it is queued and has expired. */
  | { readonly kind: "expiry" };

export interface Report {
  readonly jobId: string;
  readonly attempt: number;
  readonly from: Reporter;
  readonly outcome: ReportedOutcome;
  readonly usage: Usage | null;
  /** Its last progress as JSON text, if no renewal has reported it. */
  readonly progress?: string | null;
  readonly log: string | null;
}

/** An outcome as it is sent and stored: the result is JSON text. */
export type ReportedOutcome =
  | { readonly kind: "completed"; readonly result: string | null }
  | { readonly kind: "waiting"; readonly children: readonly string[] }
  | { readonly kind: "failed" | "timeout"; readonly failure: Failure }
  | { readonly kind: "interrupted" | "released" | "lost" | "queue_timeout" | "deadline" };

export type SettleAnswer =
  /** `repeated`: this report was accepted before. */
  | {
      readonly status: "accepted";
      readonly repeated: boolean;
      readonly state: JobState;
      readonly reason: FailReason | null;
      readonly runAt: number | null;
    }
  /** The attempt has ended or belongs to another reporter; nothing was changed. */
  | { readonly status: "stale"; readonly recorded: string | null }
  | { readonly status: "unknown_job" }
  | RefusedItem;

/** The item cannot be stored; a repeat would be refused too. */
export interface RefusedItem {
  readonly status: "refused";
  readonly code: ErrorCode;
  readonly message: string;
}
