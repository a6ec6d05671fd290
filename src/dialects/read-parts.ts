/** A job with what is recorded of it, read by the library's face: so a view is the same from a server and from data here. The
 *  job may go on while it is read; what is shown is how it stood when the reading began. */
import { attemptsAsOf, eventsAsOf } from "../core/as-of.ts";
import { PerdureError } from "../core/errors.ts";
import type { JobEvent } from "../core/event.ts";
import type { JobHandle } from "../core/face.ts";
import type { AttemptRow, JobInfo } from "../core/views.ts";
import type { ViewParts } from "./dialect.ts";

export async function readParts(
  handle: Pick<JobHandle<unknown>, "get" | "attempts" | "events">,
): Promise<Pick<ViewParts, "job" | "attempts" | "events">> {
  const job = await handle.get();
  if (job.revision > VIEWED_EVENTS) throw tooLong(job);
  const [attempts, events] = await Promise.all([attemptsOf(handle, job), eventsOf(handle)]);
  return { job, attempts: attemptsAsOf(job, attempts), events: eventsAsOf(job, events) };
}

/** A view is shown as a whole, so this many events are held for it. */
export const VIEWED_EVENTS = 5_000;
/** Attempts that a view shows, and the characters they may have together: the latest. */
export const VIEWED_ATTEMPTS = 300;
export const VIEWED_CHARS = 16_777_216;

export function tooLong({ id, revision }: Pick<JobInfo, "id" | "revision">): PerdureError {
  const message = `view: ${id} has ${revision} events, and a view shows up to ${VIEWED_EVENTS}; read events and attempts, which come in pages`;
  return new PerdureError("invalid_request", message, { path: "view" });
}

async function attemptsOf(handle: Pick<JobHandle<unknown>, "attempts">, job: JobInfo): Promise<AttemptRow[]> {
  const found: AttemptRow[] = [];
  let chars = 0;
  for (let after = Math.max(0, job.attempt - VIEWED_ATTEMPTS); after < job.attempt && chars < VIEWED_CHARS; ) {
    const page = await handle.attempts({ after });
    // A server of an earlier version knows no pages, and sends all of them.
    const next = page.filter(({ attempt }) => attempt > after);
    if (next.length === 0) break;
    for (const { result, log } of next) chars += (result?.length ?? 0) + (log?.length ?? 0);
    found.push(...next);
    after = next.at(-1)?.attempt as number;
  }
  return found;
}

async function eventsOf(handle: Pick<JobHandle<unknown>, "events">): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  // All of them are of this job.
  for await (const event of handle.events()) events.push(event as JobEvent);
  return events;
}
