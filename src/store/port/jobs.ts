/** Jobs in the port: store new ones, apply commands to them, and read them. */
import type { BudgetNow } from "../../core/decision/budget.ts";
import type { Failure } from "../../core/decision/failure.ts";
import type { Command, CommandDecision } from "../../core/job/command.ts";
import type { PerdureEvent } from "../../core/job/event.ts";
import type { Job, JobState, Usage } from "../../core/job/job.ts";
import type { JobConditions } from "../../core/job/jobs-filter.ts";
import type { Submission } from "../../core/job/lifecycle.ts";
import type { LateReport } from "../../core/job/views.ts";
import type { Policy } from "../../core/policy/policy.ts";
import type { NewRun } from "../../core/run/run.ts";
import type { TransactionClient } from "../../core/task/task.ts";
import type { RefusedItem } from "../../core/worker-protocol.ts";

export interface JobStore {
  /** Stores new jobs, or finds those that already exist for their submit keys. */
  insert(items: readonly NewJob[], now: number): Promise<InsertAnswer[]>;
  /** The same within the caller's transaction, for jobs without parents: the jobs exist once it commits. Not every store can. */
  insertWithin?(client: TransactionClient, items: readonly NewJob[], now: number): Promise<InsertAnswer[]>;
  /** Applies commands. Those of a parent (`parentId`) apply to its children: it is locked before them, so its state holds until
   *  they are written; if it has ended, its ancestors are locked too, up to the one whose cancel counts. Answers have no
   *  payloads and results: a list of commands may be long. */
  amend(
    commands: readonly { readonly jobId: string; readonly command: Command }[],
    now: number,
    decide: DecideCommand,
    parentId?: string,
  ): Promise<AmendAnswer[]>;

  jobs(ids: readonly string[]): Promise<(JobRow | null)[]>;
  /** The same without payloads and results, which may be megabytes each: for callers that only decide. */
  facts(ids: readonly string[]): Promise<(Job | null)[]>;
  /** Which of these jobs have ended. Cheap, for many waiting callers. */
  ended(ids: readonly string[]): Promise<string[]>;
  /** A call checks a bounded number of jobs (`find.ts`): a page may be short or empty, and there are more while `next`
   *  is not null. By a key, and among few jobs, pages are full. */
  find(filter: JobFilter): Promise<{ readonly jobs: JobRow[]; readonly next: string | null }>;
  /** Everything recorded about one job, for `explain`. `events: false` leaves them out, for callers that read them in pages:
   *  there may be hundreds of thousands. */
  history(jobId: string, options?: { readonly events: boolean }): Promise<History | null>;
}

// Submit.

export interface NewJob {
  readonly id: string;
  readonly namespace: string;
  readonly queue: string;
  readonly kind: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly priority: number;
  readonly runAt: number;
  readonly timeoutMs: number | null;
  readonly expireInMs: number | null;
  readonly deadlineAt: number | null;
  readonly key: string | null;
  /** Hash of kind, queue and payload; two hashes with a space between them if the queue was left open; null without a key. A
   *  key belongs to the same job if one of them is equal: see `isSameBody`. */
  readonly bodyHash: string | null;
  readonly tags: readonly string[];
  readonly payload: string;
  readonly policy: Policy;
  /** Content hash of the policy, which is stored once. */
  readonly policyHash: string;
  /** Whose quota its lane counts towards, if the lane is new. */
  readonly owner?: string | null;
  /** The parent, under whose lock the job is stored. Refused with `parent_ended` unless the parent exists in the same namespace,
   *  has not ended and no cancel was requested; and, if an attempt is named, is running that attempt. */
  readonly parent: { readonly id: string; readonly attempt: number | null } | null;
  readonly depth: number;
  /** Of a step: its run, which is its parent. */
  readonly runId?: string;
  /** Of a run: its details. Its job is stored as `blocked`. */
  readonly run?: NewRun;
  /** JSON text, or null for none. */
  readonly annotations: string | null;
  /** What people see and search for; null for a job that is named after its kind. */
  readonly name: string | null;
  /** The action it came from. */
  readonly action: string | null;
  /** The submit event and the state that follows. */
  readonly transition: Submission;
}

export type InsertAnswer =
  | { readonly status: "inserted"; readonly id: string }
  /** The key belongs to this job already. `pruned`: only its stub is left. */
  | {
      readonly status: "exists";
      readonly id: string;
      readonly state: JobState;
      readonly chapter: number;
      readonly pruned: boolean;
    }
  | { readonly status: "conflict"; readonly id: string }
  | RefusedItem;

// Commands.

/** A parent as it is now, under its lock. */
export interface ParentNow {
  readonly state: JobState;
  readonly attempt: number;
  readonly cancelRequestedAt: number | null;
}

/** The parent that gives a command to its children. */
export interface NamedParent extends ParentNow {
  /** A cancel is in effect: its own or, if it ended without one, that of its nearest ancestor that has not ended. */
  readonly isCancelled: boolean;
}

/** `parent`: null if none was named, or it does not exist. `budgets`: those that cover the job, the nearest first. */
export type DecideCommand = (
  job: Job,
  command: Command,
  parent: NamedParent | null,
  budgets: readonly BudgetNow[],
) => CommandDecision;

export type AmendAnswer =
  | { readonly status: "applied" | "noop"; readonly message: string | null; readonly job: Job }
  | { readonly status: "refused_command"; readonly message: string; readonly isBudget: boolean }
  | { readonly status: "unknown_job" }
  | RefusedItem;

// Reads.

/** A job as people see it. */
export interface JobRow extends Job {
  readonly payload: string;
  readonly progress: string | null;
  /** Of the winning attempt. */
  readonly result: string | null;
  readonly annotations: Readonly<Record<string, string>>;
  /** For people; never empty. */
  readonly name: string;
  /** Of a job that failed, or continues after a failure: how its last attempt failed, without the stack. Null if that attempt
   *  had no failure. */
  readonly failure: Failure | null;
  /** What the running attempt has reported as used so far. */
  readonly liveUsage: Usage | null;
  /** The budgets that cover it, the nearest first. */
  readonly budgets: readonly BudgetNow[];
}

/** Which jobs a search means: the fields of `JOBS_FILTER`, checked. */
export interface JobFilter extends JobConditions {
  readonly namespace?: string;
  /** Characters of payloads, results and failures in a page. The job that exceeds them is the last of the page, and its cursor
   *  continues after it. Default: FIND_CHARS. */
  readonly chars?: number;
}

export interface History {
  readonly job: JobRow;
  readonly events: readonly (PerdureEvent & { readonly jobId: string })[];
  readonly lateReports: readonly LateReport[];
  /** Live sessions that could run it, and since when its queue is paused: the reasons why it waits. */
  readonly capableSessions: number;
  readonly liveSessions: number;
  readonly queuePausedAt: number | null;
  /** It is running, and the row of its session is missing. */
  readonly isOrphan: boolean;
}
