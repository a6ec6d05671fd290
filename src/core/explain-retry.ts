/** Why a job was run again, as data: one entry for each retry that was granted and for each redrive. In neutral terms; a dialect
 *  may have a term of its own for it. Attempts that were handed back unharmed, or wait for children, are no retries. */
import type { JobEvent } from "./event.ts";
import { isDecided, type ShownFailure } from "./explain-decision.ts";

export interface RetryStory {
  readonly at: number;
  /** The attempt that ended; null where none did: nobody started it in time, or a person asked for another. */
  readonly attempt: number | null;
  /** What the end counted as (`failure`, `timeout`, `lost`, `queue_timeout`, `polled`), or `redrive`. */
  readonly cause: string;
  /** The rule, list, condition or switch that granted it; which part of that, and the line in which the part was found. */
  readonly matched: string | null;
  readonly matchedPart: string | null;
  readonly matchedText: string | null;
  readonly failure: ShownFailure | null;
}

/** A retry with its place in a story. */
export interface StepRetry extends RetryStory {
  /** The last line about it, as an index of the story's lines. */
  readonly line: number;
}

/** Null for an event that grants no retry. */
export function retryIn(event: JobEvent): RetryStory | null {
  if (event.name === "job.redriven") {
    const nothing = { matched: null, matchedPart: null, matchedText: null, failure: null };
    return { at: event.at, attempt: null, cause: "redrive", ...nothing };
  }
  if (!isDecided(event)) return null;
  const { attempt, decision, failure = null } = event.data;
  if (decision.kind !== "retry" || decision.class === "handback") return null;
  const { matched, matchedPart = null, matchedText = null } = decision;
  const ended = event.name === "job.queue_timeout" ? null : attempt;
  return { at: event.at, attempt: ended, cause: decision.class, matched, matchedPart, matchedText, failure };
}
