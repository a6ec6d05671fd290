/** May a job be stored as the child of another? Asked under the parent's lock, the same in every adapter. */
import { isTerminal } from "../core/job.ts";
import type { Refused } from "../core/work.ts";
import type { NewJob, ParentNow } from "./store.ts";

export interface ParentFacts extends ParentNow {
  readonly namespace: string;
  /** The number of the nearest job, from the parent upwards, that has a budget. */
  readonly budget: number | null;
}

/** Null: it may. */
export function refusedChild({ parent, namespace }: NewJob, found: ParentFacts | null): Refused | null {
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
