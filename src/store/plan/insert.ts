/** Plans an insert: the answer for a submit key that exists already, and whether a child may be stored. Pure: an adapter
 *  reads the facts under its locks. */
import { isTerminal, JOB_STATES, type JobState } from "../../core/job/job.ts";
import type { RefusedItem } from "../../core/worker-protocol.ts";
import type { InsertAnswer, NewJob, ParentNow } from "../store.ts";
import { isSameBody } from "../stored-job.ts";

// Submit keys.

/** What a submit key names: a job or, once that was pruned, its stub. */
export interface KeyOwner {
  readonly id: string;
  readonly bodyHash: string;
  /** Codes of the job, else of its stub; null for a job of the same list, which has no row yet. */
  readonly state: number | null;
  readonly chapter: number | null;
  /** The end of a stub's window; null for a job. */
  readonly until: number | null;
}

/** A key can be used again after its window. */
export function isFree({ until }: KeyOwner, now: number): boolean {
  return until !== null && until <= now;
}

export function keyAnswer({ bodyHash }: NewJob, owner: KeyOwner): InsertAnswer {
  const { id, state, chapter, until } = owner;
  if (!isSameBody(owner.bodyHash, bodyHash)) return { status: "conflict", id };
  return {
    ...{ status: "exists", id, chapter: chapter ?? 1, pruned: until !== null },
    state: JOB_STATES[state ?? 0] as JobState,
  };
}

/** A run names a definition that is not stored. */
export function unknownPlaybook(hash: string): RefusedItem {
  return {
    status: "refused",
    code: "store_refused",
    message: `playbook ${hash} is not stored; the run was not stored`,
  };
}

// Whether a job may be stored as a child of another. Checked under the parent's lock.

export interface ParentFacts extends ParentNow {
  readonly namespace: string;
  /** The number of the nearest job with a budget, from the parent upwards. */
  readonly budget: number | null;
}

/** The columns of a parent's row. */
export interface ParentRow {
  readonly state: number;
  readonly attempt: number;
  readonly cancel_requested_at: number | null;
  readonly budget: number | null;
}

export function parentFacts(row: ParentRow, namespace: string): ParentFacts {
  const { state, attempt, cancel_requested_at, budget } = row;
  return {
    ...{ namespace, attempt, budget },
    state: JOB_STATES[state] as JobState,
    cancelRequestedAt: cancel_requested_at,
  };
}

/** Null: the child may be stored. */
export function refusedChild({ parent, namespace }: NewJob, found: ParentFacts | null): RefusedItem | null {
  if (parent === null) return null;
  const why = objection(parent, namespace, found);
  return why === null ? null : { status: "refused", code: "parent_ended", message: `${why}; the child was not stored` };
}

function objection(
  { id, attempt }: NonNullable<NewJob["parent"]>,
  namespace: string,
  found: ParentFacts | null,
): string | null {
  // A parent in another namespace must be indistinguishable from a missing one.
  if (found === null || found.namespace !== namespace) return `parent job ${id} does not exist`;
  if (isTerminal(found.state)) return `parent job ${id} has already ended (${found.state})`;
  if (found.cancelRequestedAt !== null) return `parent job ${id} is being cancelled`;
  if (attempt === null || (found.state === "running" && found.attempt === attempt)) return null;
  return `attempt ${attempt} of parent job ${id} has ended`;
}
