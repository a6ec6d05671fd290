/** Has a waiting job waited too long? Its clock starts at `runAt` and stands still while its queue is paused, so the
 *  pauses that fell into the wait are added to its expiry. Where it turns out not to be overdue yet, the sweep's
 *  next look is set to the time when it may be. At exactly its last instant a job may still be started: it is overdue
 *  after it. */
import type { StoredJob } from "./stored-job.ts";

/** While a queue is paused the end of the pause is unknown: look again after this long. */
const PAUSED_LOOK_MS = 5_000;

/** A pause of a job's queue; it still lasts where it has no end. */
export interface PauseSpan {
  readonly from_at: number;
  readonly to_at: number | null;
}

/** Null: it is overdue. Else the instant of the next look, or undefined where none is needed. */
export function nextLook(job: StoredJob, now: number, pauses: () => readonly PauseSpan[]): number | undefined | null {
  if (job.deadlineAt !== null && job.deadlineAt < now) return null;
  if (job.expiresAt === null) return undefined;
  let expiresAt = job.expiresAt;
  let paused = false;
  for (const { from_at, to_at } of [...pauses()].sort((a, b) => a.from_at - b.from_at)) {
    if (from_at > expiresAt) break; // it had expired before this pause
    paused ||= to_at === null;
    expiresAt += Math.max(0, (to_at ?? now) - Math.max(from_at, job.runAt));
  }
  if (expiresAt < now) return null;
  const next = paused ? Math.max(expiresAt, now + PAUSED_LOOK_MS) : expiresAt;
  return job.deadlineAt === null ? next : Math.min(next, job.deadlineAt);
}
