/** Reads a job for views: its row with JSON texts as values, its events and attempts a page at a time, since a job that is
 *  retried forever has any number of them, and no process should hold them all. */

import type { JobEvent } from "../core/job/event.ts";
import type { Job } from "../core/job/job.ts";
import { attemptsAtSnapshot } from "../core/job/snapshot.ts";
import type { JobInfo } from "../core/job/views.ts";
import { NO_INPUT } from "../core/worker-protocol.ts";
import type { AttemptRow, JobRow, Store } from "../store/store.ts";

/** A row for people: JSON texts become values. */
export function toInfo(row: JobRow): JobInfo {
  const value = (text: string | null) =>
    text === null || text === NO_INPUT ? undefined : (JSON.parse(text) as unknown);
  return { ...row, payload: value(row.payload), result: value(row.result), progress: value(row.progress) };
}

/** Per page. Each may have a failure with its stack. */
const EVENTS = 500;

/** The events of a job in order, up to this revision: the job may change meanwhile. */
export async function* eachEvent(
  store: Pick<Store, "events">,
  { id, revision }: Pick<Job, "id" | "revision">,
): AsyncGenerator<JobEvent, void, void> {
  for (let after = 0; ; ) {
    const page = await store.events.page({ jobId: id, after, limit: EVENTS });
    for (const event of page.events as JobEvent[]) {
      if (event.n > revision) return;
      yield event;
    }
    if (page.isEnd) return;
    after = page.upTo;
  }
}

/** How many of the latest attempts views of a job show, and with how many characters in all. */
const SHOWN_ATTEMPTS = 300;
const SHOWN_CHARS = 16_777_216;

/** The latest attempts that had ended when this row was read, oldest first. */
export async function lastAttempts(
  store: Pick<Store, "attempts">,
  row: Pick<Job, "id" | "attempt" | "state">,
): Promise<AttemptRow[]> {
  const found: AttemptRow[] = [];
  let chars = 0;
  for (let after = Math.max(0, row.attempt - SHOWN_ATTEMPTS); after < row.attempt && chars < SHOWN_CHARS; ) {
    const page = await store.attempts(row.id, { after });
    if (page.length === 0) break;
    for (const { result, log } of page) chars += (result?.length ?? 0) + (log?.length ?? 0);
    found.push(...page);
    after = page.at(-1)?.attempt as number;
  }
  return attemptsAtSnapshot(row, found);
}
