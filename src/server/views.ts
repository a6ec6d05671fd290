/** Jobs and their events in the words of a dialect, for `?view=`. A name that is not known is refused with the nearest. */
import { attemptsAsOf, eventsAsOf } from "../core/as-of.ts";
import type { JobEvent } from "../core/event.ts";
import type { ViewParts } from "../dialects/dialect.ts";
import { eventView, jobView } from "../dialects/registry.ts";
import { toInfo } from "../engine/job-info.ts";
import type { JobRow } from "../store/store.ts";
import type { ServerParts } from "./parts.ts";

export async function viewOfJob(parts: Pick<ServerParts, "engine">, row: JobRow, name: unknown): Promise<unknown> {
  const view = jobView(name, "view");
  return view(await viewParts(parts, row));
}

export async function viewOfEvents(
  parts: Pick<ServerParts, "engine">,
  row: JobRow,
  name: unknown,
): Promise<readonly unknown[]> {
  const view = eventView(name, "view");
  return view(await viewParts(parts, row));
}

/** As of the row: the job may have gone on since it was read. */
async function viewParts({ engine }: Pick<ServerParts, "engine">, row: JobRow): Promise<ViewParts> {
  const { store } = engine;
  const [attempts, history, sessions] = await Promise.all([
    store.attempts(row.id),
    store.history(row.id),
    store.sessions(),
  ]);
  const names = new Map(
    sessions.filter(({ namespace }) => namespace === row.namespace).map(({ id, name }) => [id, name]),
  );
  return {
    job: toInfo(row),
    attempts: attemptsAsOf(row, attempts),
    events: eventsAsOf(row, (history?.events ?? []) as readonly JobEvent[]),
    workerName: (session) => names.get(session) ?? null,
    now: engine.clock.now(),
  };
}
