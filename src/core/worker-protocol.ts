/** What passes between an engine and its workers, in one process or over the wire. */

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
  /** Names the process on its machine, so that its end can be proved there; null where that cannot be done. */
  readonly process?: string | null;
  readonly kinds: readonly string[];
  /** Null: all queues of the namespace. */
  readonly queues: readonly string[] | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly slots: number;
  readonly leaseMs: number;
  /** The defaults of its tasks, by kind, for submits by name; a task without any is not in it. Null or left out: it publishes
   *  none, and others are asked. */
  readonly defaults?: Readonly<Record<string, TaskOptions>> | null;
  /** Who opens it, as quotas count, and how many live ones that one may have; left out, any number. */
  readonly owner?: string | null;
  readonly most?: number;
}

/** The payload of a job that was submitted without an input. No JSON text is empty, so it cannot be mistaken. */
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
  /** How the attempt before this one failed, as JSON: most handlers never look. */
  readonly previous: string | null;
  /** What it takes of the worker's cpu and memory; only where it takes any. */
  readonly needs?: Resources;
  /** What its own processes may show to the server, to submit children, read them and tell their usage; only where the
   *  server gives it. */
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

/** How a worker fares, as it says itself, counted since its session began. Shown to people; nothing is decided on it.
 *  @example
 *  const [worker] = await perdure.workers();
 *  const health: WorkerHealth | null = worker?.health ?? null; */
export interface WorkerHealth {
  readonly consecutiveFailures: number;
  /** Attempts that ended here. */
  readonly total: number;
  readonly failed: number;
  readonly averageMs: number;
  readonly inHand: number;
  readonly slots: number;
  /** Of its machine: the number of processes that want to run, over the number of processors. */
  readonly load: number;
}

export interface RenewAnswer {
  readonly alive: boolean;
  readonly leaseMs: number;
  /** It is to take no more jobs, finish what it holds, and close. */
  readonly drain: boolean;
  /** Held attempts that belong to someone else now, or have ended. */
  readonly lost: { readonly jobId: string; readonly attempt: number }[];
  readonly cancel: { readonly jobId: string; readonly attempt: number }[];
  /** Held attempts of jobs that have spent their budget of tokens or money: to be stopped. */
  readonly overspent: { readonly jobId: string; readonly attempt: number }[];
  /** Its lease was over before this renewal, and nobody had ended it yet: it got no jobs meanwhile. */
  readonly wasOver?: boolean;
  /** Running for this session but not listed for a whole lease: to be settled as released. */
  readonly unheard: { readonly jobId: string; readonly attempt: number }[];
}

/** Who settles: the worker that holds the attempt, with its token, or the engine on evidence that it re-checks. */
export type Reporter =
  | { readonly kind: "worker"; readonly token: string; readonly reportId: string }
  /** Only while the session's lease is over. */
  | { readonly kind: "reaper" }
  /** Only while the session still has not started it. */
  /** `undelivered`: the reply to its claim did not get through, so that the same session may have it again. */
  | { readonly kind: "release"; readonly session: string; readonly undelivered?: boolean }
  /** Only while it is queued and overdue. */
  | { readonly kind: "expiry" };

export interface Report {
  readonly jobId: string;
  readonly attempt: number;
  readonly from: Reporter;
  readonly outcome: ReportedOutcome;
  readonly usage: Usage | null;
  /** What it last said of its progress, as JSON text, if no renewal has told it. */
  readonly progress?: string | null;
  readonly log: string | null;
}

/** An outcome as it travels and is stored: the result is JSON text. */
export type ReportedOutcome =
  | { readonly kind: "completed"; readonly result: string | null }
  | { readonly kind: "waiting"; readonly children: readonly string[] }
  | { readonly kind: "failed" | "timeout"; readonly failure: Failure }
  | { readonly kind: "interrupted" | "released" | "lost" | "queue_timeout" | "deadline" };

export type SettleAnswer =
  /** `repeated` when this very report had been accepted before. */
  | {
      readonly status: "accepted";
      readonly repeated: boolean;
      readonly state: JobState;
      readonly reason: FailReason | null;
      readonly runAt: number | null;
    }
  /** The attempt is closed or was never this reporter's; nothing was changed. */
  | { readonly status: "stale"; readonly recorded: string | null }
  | { readonly status: "unknown_job" }
  | RefusedItem;

/** This item could not be stored and never will be as it is. */
export interface RefusedItem {
  readonly status: "refused";
  readonly code: ErrorCode;
  readonly message: string;
}
