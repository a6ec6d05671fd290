/** A job with what is recorded of it, read by the library's face: so a view is the same from a server and from data here. The
 *  job may go on while it is read; what is shown is how it stood when the reading began. */
import { attemptsAsOf, eventsAsOf } from "../core/as-of.ts";
import type { JobEvent } from "../core/event.ts";
import type { JobHandle } from "../core/face.ts";
import type { ViewParts } from "./dialect.ts";

export async function readParts(
  handle: Pick<JobHandle<unknown>, "get" | "attempts" | "events">,
): Promise<Pick<ViewParts, "job" | "attempts" | "events">> {
  const job = await handle.get();
  const [attempts, events] = await Promise.all([handle.attempts(), eventsOf(handle)]);
  return { job, attempts: attemptsAsOf(job, attempts), events: eventsAsOf(job, events) };
}

async function eventsOf(handle: Pick<JobHandle<unknown>, "events">): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  // All of them are of this job.
  for await (const event of handle.events()) events.push(event as JobEvent);
  return events;
}
