/** Reads a job with its attempts, events and children for a view, bounded: the same from a server and from a local
 *  database. */

import type { JobHandle } from "../core/api/jobs.ts";
import { PerdureError } from "../core/errors.ts";
import type { JobEvent } from "../core/job/event.ts";
import type { JobState } from "../core/job/job.ts";
import { attemptsAtSnapshot, eventsAtSnapshot } from "../core/job/snapshot.ts";
import type { AttemptRow, JobInfo } from "../core/job/views.ts";
import type { ViewChildren, ViewParts } from "./dialect.ts";

// A job with what is recorded of it, read by the library's face: so a view is the same from a server and from data
// here. The job may go on while it is read; what is shown is how it stood when the reading began.

export async function readParts(
  handle: Pick<JobHandle<unknown>, "get" | "attempts" | "events">,
): Promise<Pick<ViewParts, "job" | "attempts" | "events">> {
  const job = await handle.get();
  if (job.revision > VIEWED_EVENTS) throw tooLong(job);
  const [attempts, events] = await Promise.all([attemptsOf(handle, job), eventsOf(handle)]);
  return { job, attempts: attemptsAtSnapshot(job, attempts), events: eventsAtSnapshot(job, events) };
}

/** A view is shown as a whole, so this many events are held for it. */
export const VIEWED_EVENTS = 5_000;
/** Attempts that a view shows, and the characters they may have together: the latest. */
const VIEWED_ATTEMPTS = 300;
const VIEWED_CHARS = 16_777_216;

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

// The children of a job for a view, bounded: a job may have ten thousand, and each may be large.

/** More would fill the screen twice. */
const VIEWED_CHILDREN = 100;

/** A page of children, oldest first; `next` is null after the last. */
export type FindChildren = (filter: {
  readonly limit: number;
  readonly state?: readonly JobState[];
  readonly cursor?: string;
}) => Promise<{ readonly jobs: readonly JobInfo[]; readonly next: string | null }>;

const OTHERS: readonly JobState[] = ["queued", "running", "blocked", "cancelled", "succeeded"];

/** All of them, oldest first. Where they are too many, those that failed come first, and then the oldest of the others. */
export async function readChildren(find: FindChildren): Promise<ViewChildren> {
  const all = await upTo(find, VIEWED_CHILDREN);
  if (!all.more) return all;
  const failed = await upTo(find, VIEWED_CHILDREN, ["failed"]);
  const room = VIEWED_CHILDREN - failed.jobs.length;
  const others = room === 0 ? [] : (await upTo(find, room, OTHERS)).jobs;
  return { jobs: [...failed.jobs, ...others], more: true };
}

/** A page may be short though others follow: where they are heavy, or few of many fit. */
async function upTo(find: FindChildren, most: number, state?: readonly JobState[]): Promise<ViewChildren> {
  const jobs: JobInfo[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<FindChildren>> = await find({
      limit: most - jobs.length,
      ...(state === undefined ? {} : { state }),
      ...(cursor === null ? {} : { cursor }),
    });
    jobs.push(...page.jobs);
    cursor = page.next;
  } while (cursor !== null && jobs.length < most);
  return { jobs, more: cursor !== null };
}
