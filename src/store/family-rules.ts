/** Rules for parents and children, the same in every adapter: may a child be stored, does a cancel from above apply,
 *  how many blocked jobs are checked at a time. */
import { isTerminal } from "../core/job/job.ts";
import type { RefusedItem } from "../core/worker-protocol.ts";
import type { NamedParent, NewJob, ParentNow } from "./store.ts";

// May a job be stored as the child of another? Asked under the parent's lock, the same in every adapter.

export interface ParentFacts extends ParentNow {
  readonly namespace: string;
  /** The number of the nearest job, from the parent upwards, that has a budget. */
  readonly budget: number | null;
}

/** Null: it may. */
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
  // One of another namespace is not to be told from none.
  if (found === null || found.namespace !== namespace) return `there is no job ${id} to be its parent`;
  if (isTerminal(found.state)) return `its parent ${id} has ended: it is ${found.state}`;
  if (found.cancelRequestedAt !== null) return `its parent ${id} is to be cancelled`;
  if (attempt === null || (found.state === "running" && found.attempt === attempt)) return null;
  return `attempt ${attempt} of its parent ${id} has ended`;
}

// Whether a cancel stands for a job: its own, or one from above that goes through it because it had ended before. It
// is asked under the locks of all jobs in the line, the same in every adapter.

/** The job, its parent, and so on. A line may end where an answer is known. */
export function withStanding(line: readonly ParentNow[]): NamedParent | null {
  const [job] = line;
  if (job === undefined) return null;
  const { state, attempt, cancelRequestedAt } = job;
  return { state, attempt, cancelRequestedAt, isCancelled: stands(line) };
}

/** Whoever has ended without a cancel lets one through from above. Whoever lives without one was given a new start, or nobody
 *  above was cancelled. */
function stands(line: readonly ParentNow[]): boolean {
  const teller = line.find((job) => !letsThrough(job));
  return teller !== undefined && teller.cancelRequestedAt !== null;
}

export function letsThrough({ state, cancelRequestedAt }: ParentNow): boolean {
  return isTerminal(state) && cancelRequestedAt === null;
}

/** So many blocked jobs are looked at together where all are to be looked at. The look after it goes on from there, and
 *  begins again at the end: it is the net under what wakes each of them by name. */
export const BLOCKED_PAGE = 1_000;
