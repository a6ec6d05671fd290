/** Attempts and events as of the instant at which the row of a job was read. They are read one after the other, and the job may
 *  change in between. Records only grow, so dropping those that are newer than the row makes all three consistent. The row must
 *  be read first. A job that is pruned meanwhile may have no records. */
import type { Job } from "./job.ts";

/** The attempts that had ended at that instant. */
export function attemptsAtSnapshot<A extends { readonly attempt: number }>(
  { attempt, state }: Pick<Job, "attempt" | "state">,
  attempts: readonly A[],
): A[] {
  return attempts.filter((each) => each.attempt < attempt || (each.attempt === attempt && state !== "running"));
}

/** The number of an event is the revision that it made. */
export function eventsAtSnapshot<E extends { readonly n: number }>(
  { revision }: Pick<Job, "revision">,
  events: readonly E[],
): E[] {
  return events.filter(({ n }) => n <= revision);
}
