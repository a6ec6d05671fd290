/** Rules for parents and children, the same in every adapter: whether a cancel from above applies, and how
 *  many blocked jobs are checked at a time. */
import { isTerminal } from "../core/job/job.ts";
import type { NamedParent, ParentNow } from "./store.ts";

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
