/** Jobs and their events in the format of a dialect, for `?view=`. An unknown view is refused with the nearest name. */
import { PerdureError } from "../core/errors.ts";
import type { JobEvent } from "../core/job/event.ts";
import { RUN_KIND } from "../core/playbook/playbook.ts";
import type { RunView, ViewChildren, ViewParts } from "../dialects/dialect.ts";
import { type RunReader, readChildren, readRunView, tooLong, VIEWED_EVENTS } from "../dialects/read-view.ts";
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
  step?: string,
): Promise<readonly unknown[]> {
  const view = eventView(name, "view");
  const found = await viewParts(parts, row);
  if (row.kind === RUN_KIND) return view({ ...found, run: await runOf(parts, row, found.events, step) });
  if (step === undefined) return view(found);
  throw new PerdureError("invalid_request", `step: ${row.id} is not a run`, { path: "step" });
}

/** A run with the events of its steps. */
function runOf(
  { engine }: Pick<ServerParts, "engine">,
  { namespace, id }: JobRow,
  events: readonly JobEvent[],
  step: string | undefined,
): Promise<RunView> {
  const reader: RunReader = {
    run: () => engine.runs.info(namespace, id),
    events: async () => events,
    steps: (page) => engine.runs.steps(namespace, id, page),
    async job(of) {
      const [row] = await engine.store.jobs([of]);
      if (row == null) throw new PerdureError("job_not_found", `job ${of} does not exist`);
      return viewParts({ engine }, row);
    },
  };
  return readRunView(reader, step);
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
