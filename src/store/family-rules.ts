/** Rules for parents and children, the same in every adapter: whether a child may be stored, whether a cancel from
 *  above applies, and how many blocked jobs are checked at a time. */
import { isTerminal } from "../core/job/job.ts";
import type { RefusedItem } from "../core/worker-protocol.ts";
import type { NamedParent, NewJob, ParentNow } from "./store.ts";

// Whether a job may be stored as a child of another. Checked under the parent's lock.

export interface ParentFacts extends ParentNow {
  readonly namespace: string;
  /** The number of the nearest job with a budget, from the parent upwards. */
  readonly budget: number | null;
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

// Whether a cancel applies to a job: its own, or one from above that passes through ended ancestors. Checked under the
// locks of all jobs in the line.

/** The job, its parent, and so on. The line may end where the answer is known. */
export function namedParent(line: readonly ParentNow[]): NamedParent | null {
  const [job] = line;
  if (job === undefined) return null;
  const { state, attempt, cancelRequestedAt } = job;
  return { state, attempt, cancelRequestedAt, isCancelled: isCancelled(line) };
}

/** An ancestor that ended without a cancel lets one from above through. One that is live without a cancel was redriven,
 *  or nothing above it was cancelled. */
function isCancelled(line: readonly ParentNow[]): boolean {
  const decisive = line.find((job) => !letsThrough(job));
  return decisive !== undefined && decisive.cancelRequestedAt !== null;
}

export function letsThrough({ state, cancelRequestedAt }: ParentNow): boolean {
  return isTerminal(state) && cancelRequestedAt === null;
}

/** Blocked jobs checked at a time when all are checked. The next check continues from there and starts again at the
 *  end. This is the safety net under the wake-ups of single jobs. */
export const BLOCKED_PAGE = 1_000;
