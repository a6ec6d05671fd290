/** Which jobs a search means. */
import type { FailReason, JobState } from "../core/job.ts";

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
