/** All that a dialect's view may tell of, read by the library's face: so a view is the same from a server and from data here. */
import type { JobEvent } from "../../core/event.ts";
import type { Perdure } from "../../core/face.ts";
import type { ViewParts } from "../../dialects/dialect.ts";

export async function viewParts(perdure: Perdure, id: string): Promise<ViewParts> {
  const handle = await perdure.job(id);
  const [job, attempts, workers] = await Promise.all([handle.get(), handle.attempts(), perdure.workers()]);
  const events: JobEvent[] = [];
  for await (const event of handle.events()) events.push(event as JobEvent);
  const names = new Map(workers.map((worker) => [worker.id, worker.name]));
  return { job, attempts, events, workerName: (session) => names.get(session) ?? null, now: Date.now() };
}
