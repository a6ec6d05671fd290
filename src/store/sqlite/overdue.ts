/** Asks the database for the pauses of a job's queue, and sets the sweep's next look. */
import { nextLook, type PauseSpan } from "../overdue.ts";
import type { StoredJob } from "../stored-job.ts";
import type { Context } from "./context.ts";

export function overdue({ db }: Context): (job: StoredJob, now: number) => boolean {
  const pauses = db.prepare(
    `select from_at, to_at from past_pause where namespace = ?1 and queue = ?2 and to_at > ?3
     union all select paused_at, null from queue where namespace = ?1 and queue = ?2`,
  );
  const look = db.prepare("update job set check_at = ? where no = ?");

  return (job, now) => {
    const next = nextLook(job, now, () => pauses.all(job.namespace, job.queue, job.runAt) as PauseSpan[]);
    if (next === null) return true;
    if (next !== undefined) look.run(next, job.no);
    return false;
  };
}
