/** Queries for jobs: the filter of a search, blocked jobs that may continue, and children that a cancel reaches. */
import type { JobConditions } from "../core/job/jobs-filter.ts";

/** Which jobs a search means: the fields of `JOBS_FILTER`, checked. */
export interface JobFilter extends JobConditions {
  readonly namespace?: string;
}

// Which blocked jobs may continue, and which children a cancel reaches.

export interface UnblockableQuery {
  /** Null: all blocked jobs. */
  readonly parents: readonly string[] | null;
  readonly limit: number;
}
export interface Unblockable {
  readonly jobs: UnblockableJob[];
  /** Whether more jobs remain to be checked; false at the end of a round. */
  readonly more: boolean;
}
export interface UnblockableJob {
  readonly jobId: string;
  /** The attempt that started to wait. */
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
  /** It has ended: only the jobs below it need the cancel. */
  readonly isOver: boolean;
}
