/** What is recorded of a job, as of the instant at which its row was read. Row, attempts and events are read one after the
 *  other, and a job that is retried quickly goes on in between: all three together would contradict each other. What is
 *  recorded never changes, it only grows. So what came after the row is left out, and the rest is what stood beside it.
 *
 *  The row must be read first, or something may be missing. Not promised: the records of a job that is pruned meanwhile. */
import type { Job } from "./job.ts";

/** The attempts that had ended. */
export function attemptsAtSnapshot<A extends { readonly attempt: number }>(
  { attempt, state }: Pick<Job, "attempt" | "state">,
  attempts: readonly A[],
): A[] {
  return attempts.filter((each) => each.attempt < attempt || (each.attempt === attempt && state !== "running"));
}

/** Each change of a job is one event, which has the number of the revision that it made. */
export function eventsAtSnapshot<E extends { readonly n: number }>(
  { revision }: Pick<Job, "revision">,
  events: readonly E[],
): E[] {
  return events.filter(({ n }) => n <= revision);
}
