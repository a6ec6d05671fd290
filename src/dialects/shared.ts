/** Small pieces that several dialects share: the job that a resubmit came from, job ids in documents, the note about
 *  a delay above its cap. */

import { ConfigError } from "../core/errors.ts";
import type { JobInfo } from "../core/job/views.ts";

// Where a job came from that `resubmit` made: the id of the job before stands in an annotation, to be shown, and in a
// tag, by which lists find it with an index.

export const RESUBMIT_OF = "resubmit-of";
/** What a job may have. */
const MAX_TAGS = 20;

/** Null of a job that was not made from another one. */
export function originOf({ annotations }: Pick<JobInfo, "annotations">): string | null {
  return Object.hasOwn(annotations, RESUBMIT_OF) ? (annotations[RESUBMIT_OF] as string) : null;
}

export function originTag(id: string): string {
  return `${RESUBMIT_OF}=${id}`;
}

export function isOriginTag(tag: string): boolean {
  return tag.startsWith(`${RESUBMIT_OF}=`);
}

/** The tags of a job that is made from another. One with no room for another tag is not found by it. */
export function tagsFrom({ id, tags }: Pick<JobInfo, "id" | "tags">): string[] {
  const own = tags.filter((tag) => !isOriginTag(tag));
  return own.length < MAX_TAGS ? [...own, originTag(id)] : own;
}

// The id of a job of ours, where a document names another one. Whether there is such a job, nobody knows here.

const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

export function isJobId(value: unknown): value is string {
  return typeof value === "string" && JOB_ID.test(value);
}

export function asJobId(value: unknown, path: string): string {
  if (isJobId(value)) return value;
  throw new ConfigError({ path, given: value, allowed: "the id of a job, in full: job_ and 26 characters" });
}

// A first delay above the cap is no mistake, but rarely what was meant: the delays then never grow.

interface CappedDelay {
  /** Where it stands, from the document's root. */
  readonly path: string;
  /** The field with its value as it was given, as in `initial_delay is 90`. */
  readonly said: string;
  readonly initialMs: number;
  readonly capMs: number;
  /** Runs in all: of one that has no retry nothing is said. */
  readonly runs: number;
}

/** Adds to `notes` where there is something to tell. */
export function noteCap({ path, said, initialMs, capMs, runs }: CappedDelay, notes: string[]): void {
  if (runs < 2 || initialMs <= capMs) return;
  notes.push(`${path}: ${said}, and every retry waits for the cap of ${capMs / 1_000} s.`);
}
