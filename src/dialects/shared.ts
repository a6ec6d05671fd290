/** Shared by several dialects: the origin of a resubmitted job, job ids in documents, and the note about a delay above
 *  its cap. */

import { ConfigError } from "../core/errors.ts";
import type { JobInfo } from "../core/job/views.ts";

// `resubmit` records the id of the original job in an annotation, to be shown, and in a tag, so that lists can find it by
// an index.

export const RESUBMIT_OF = "resubmit-of";
/** The limit of tags per job. */
const MAX_TAGS = 20;

/** Null for a job that was not resubmitted from another. */
export function originOf({ annotations }: Pick<JobInfo, "annotations">): string | null {
  return Object.hasOwn(annotations, RESUBMIT_OF) ? (annotations[RESUBMIT_OF] as string) : null;
}

export function originTag(id: string): string {
  return `${RESUBMIT_OF}=${id}`;
}

export function isOriginTag(tag: string): boolean {
  return tag.startsWith(`${RESUBMIT_OF}=`);
}

/** The tags of the new job. If there is no space for one more tag, lists do not find it by its origin. */
export function tagsFrom({ id, tags }: Pick<JobInfo, "id" | "tags">): string[] {
  const own = tags.filter((tag) => !isOriginTag(tag));
  return own.length < MAX_TAGS ? [...own, originTag(id)] : own;
}

// A job id in a document. Whether that job exists is checked later.

const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

export function isJobId(value: unknown): value is string {
  return typeof value === "string" && JOB_ID.test(value);
}

export function asJobId(value: unknown, path: string): string {
  if (isJobId(value)) return value;
  throw new ConfigError({ path, given: value, allowed: "the id of a job, in full: job_ and 26 characters" });
}

// A first delay above the cap is valid, but rarely intended: the delays never grow.

interface CappedDelay {
  /** Its path from the document's root. */
  readonly path: string;
  /** The field with its value, as in `initial_delay is 90`. */
  readonly field: string;
  readonly initialMs: number;
  readonly capMs: number;
  /** Attempts in total; without a retry there is no note. */
  readonly attempts: number;
}

/** Adds a note if the first delay is above the cap. */
export function noteCap({ path, field, initialMs, capMs, attempts }: CappedDelay, notes: string[]): void {
  if (attempts < 2 || initialMs <= capMs) return;
  notes.push(`${path}: ${field}, and every retry waits for the cap of ${capMs / 1_000} s.`);
}
