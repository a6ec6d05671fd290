/** Jobs and their events in the format of a dialect, for `?view=`. An unknown view is refused with the nearest name. */
import type { JobEvent } from "../core/job/event.ts";
import type { ViewChildren, ViewParts } from "../dialects/dialect.ts";
import { readChildren, tooLong, VIEWED_EVENTS } from "../dialects/read-view.ts";
import { eventView, jobView, showsChildren } from "../dialects/registry.ts";
import { eachEvent, lastAttempts, toInfo } from "../engine/read-job.ts";
import type { JobRow } from "../store/store.ts";
import type { ServerParts } from "./context.ts";

export async function viewOfJob(parts: Pick<ServerParts, "engine">, row: JobRow, name: unknown): Promise<unknown> {
  const view = jobView(name, "view");
  const found = await viewParts(parts, row);
  return view(showsChildren(name) ? { ...found, children: await childrenOf(parts, row) } : found);
}

function childrenOf({ engine }: Pick<ServerParts, "engine">, { id }: JobRow): Promise<ViewChildren> {
  return readChildren(async (filter) => {
    const { jobs, next } = await engine.store.find({ ...filter, parentId: id, order: "oldest" });
    return { jobs: jobs.map(toInfo), next };
  });
}

export async function viewOfEvents(
  parts: Pick<ServerParts, "engine">,
  row: JobRow,
  name: unknown,
): Promise<readonly unknown[]> {
  const view = eventView(name, "view");
  return view(await viewParts(parts, row));
}

/** Attempts and events up to the row's revision: the job may have changed since it was read. */
export async function viewParts({ engine }: Pick<ServerParts, "engine">, row: JobRow): Promise<ViewParts> {
  const { store } = engine;
  if (row.revision > VIEWED_EVENTS) throw tooLong(row);
  const attempts = await lastAttempts(store, row);
  const events: JobEvent[] = [];
  for await (const event of eachEvent(store, row)) events.push(event);
  const sessions = [...attempts, ...events.map(({ data }) => data as { readonly session?: string | null })];
  const names = await store.sessions.names([
    ...new Set(sessions.flatMap(({ session }) => (typeof session === "string" ? [session] : []))),
  ]);
  return {
    job: toInfo(row),
    attempts,
    events,
    workerName: (session) => names.get(session) ?? null,
    now: engine.clock.now(),
  };
}
