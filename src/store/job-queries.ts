/** Queries for jobs: the filter of a search, blocked jobs that may continue, and children that a cancel reaches. */
import type { FailReason, JobState } from "../core/job/job.ts";

// Which jobs a search means.

export interface JobFilter {
  readonly namespace?: string;
  readonly state?: readonly JobState[];
  readonly kind?: readonly string[];
  readonly queue?: readonly string[];
  readonly tag?: string;
  readonly key?: string;
  /** Children of this job. */
  readonly parentId?: string;
  /** Failed and not discarded. */
  readonly deadLetter?: boolean;
  readonly submittedAfter?: number;
  readonly submittedBefore?: number;
  /** Their names, and the actions they came from: a text, or a pattern with `*` and `?`. */
  readonly name?: string;
  readonly action?: string;
  readonly reason?: readonly FailReason[];
  /** The id begins with this. */
  readonly idPrefix?: string;
  readonly order?: "newest" | "oldest";
  readonly limit?: number;
  readonly cursor?: string;
}

// What the port says of jobs and their children: which blocked jobs may go on, and whom a cancel concerns.

export interface UnblockableQuery {
  /** Null: all that are blocked. */
  readonly parents: readonly string[] | null;
  readonly limit: number;
}
export interface Unblockable {
  readonly jobs: UnblockableJob[];
  /** Whether there are others to look at; false at the end of a round. */
  readonly more: boolean;
}
export interface UnblockableJob {
  readonly jobId: string;
  /** The run that began to wait. */
  readonly attempt: number;
}

export interface ReachableQuery {
  readonly parentId: string;
  /** From the page before; null for the first. */
  readonly after: number | null;
  readonly limit: number;
}
export interface Reachable {
  readonly jobs: ReachableJob[];
  /** Where the next page begins; null after the last. */
  readonly next: number | null;
}

export interface ReachableJob {
  readonly jobId: string;
  /** It has ended: nothing is to be asked of it, but of those below it. */
  readonly isOver: boolean;
}
