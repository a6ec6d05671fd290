/** Whether a cancel stands for a job: its own, or one from above that goes through it because it had ended before. It is asked
 *  under the locks of all jobs in the line, the same in every adapter. */
import { isTerminal } from "../core/job.ts";
import type { NamedParent, ParentNow } from "./store.ts";

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
