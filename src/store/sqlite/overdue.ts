/** Has a waiting job waited too long? Its clock starts at `runAt` and stands still while its queue is paused, so the
 *  pauses that fell into the wait are added to its expiry. Where it turns out not to be overdue yet, the sweep's
 *  next look is set to the time when it may be. */
import type { Context } from "./context.ts";
import type { StoredJob } from "./rows.ts";

/** While a queue is paused the end of the pause is unknown: look again after this long. */
const PAUSED_LOOK_MS = 5_000;

export function overdue({ db }: Context): (job: StoredJob, now: number) => boolean {
  const pauses = db.prepare(
    `select from_at, to_at from past_pause where namespace = ?1 and queue = ?2 and to_at > ?3
     union all select paused_at, null from queue where namespace = ?1 and queue = ?2`,
  );
  const look = db.prepare("update job set check_at = ? where no = ?");

  return (job, now) => {
    if (job.deadlineAt !== null && job.deadlineAt <= now) return true;
    if (job.expiresAt === null) return false;
    let expiresAt = job.expiresAt;
    let paused = false;
    const rows = pauses.all(job.namespace, job.queue, job.runAt) as { from_at: number; to_at: number | null }[];
    for (const { from_at, to_at } of rows.sort((a, b) => a.from_at - b.from_at)) {
      if (from_at >= expiresAt) break; // it had expired before this pause
      paused ||= to_at === null;
      expiresAt += Math.max(0, (to_at ?? now) - Math.max(from_at, job.runAt));
    }
    if (expiresAt <= now) return true;
    const next = paused ? Math.max(expiresAt, now + PAUSED_LOOK_MS) : expiresAt;
    look.run(job.deadlineAt === null ? next : Math.min(next, job.deadlineAt), job.no);
    return false;
  };
}
