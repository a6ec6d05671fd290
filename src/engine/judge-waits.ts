/** Judges for whom a run may wait: only for its own children, and not again and again for the same ends. Whatever waits for
 *  anything else would wait for ever, or run for nothing; running it again would give the same.
 *
 *  That children had ended before the run began is no fault by itself. When a child's end is written depends on locks and
 *  connections, so a run may begin after the instant of that end and yet find the child running. The next run finds it ended. */
import type { JobEvent } from "../core/event.ts";
import { failure } from "../core/failure.ts";
import type { Job } from "../core/job.ts";
import type { Report } from "../core/work.ts";
import { isId } from "../lib/id.ts";
import { storable } from "../lib/text.ts";
import type { EngineParts } from "./engine.ts";
import { eachEvent } from "./read-history.ts";

export function isWait({ outcome }: Report): boolean {
  return outcome.kind === "waiting";
}

export async function judgedWaits({ store }: EngineParts, reports: readonly Report[]): Promise<Report[]> {
  const ids = reports.flatMap(({ jobId, outcome }) => (outcome.kind === "waiting" ? [jobId, ...outcome.children] : []));
  const rows = await store.facts([...new Set(ids)].filter((id) => isId(id, "job")));
  const byId = new Map(rows.flatMap((row) => (row === null ? [] : [[row.id, row] as const])));
  return Promise.all(
    reports.map(async (report) => {
      const { outcome, jobId } = report;
      const wrong = outcome.kind === "waiting" ? await objection(store, jobId, outcome.children, byId) : null;
      if (wrong === null) return report;
      const cause = failure({ kind: "result", class: "logical", message: wrong });
      return { ...report, outcome: { kind: "failed", failure: cause } };
    }),
  );
}

async function objection(
  store: EngineParts["store"],
  jobId: string,
  children: readonly string[],
  rows: ReadonlyMap<string, Job>,
): Promise<string | null> {
  if (children.length === 0) return "it waits, but for nobody";
  const stranger = children.find((id) => rows.get(id)?.parentId !== jobId);
  if (stranger !== undefined) return `it waits for ${storable(stranger, 100)}, which is no child of this job`;
  const startedAt = rows.get(jobId)?.startedAt ?? null;
  if (!children.every((id) => isBefore(rows.get(id)?.finishedAt ?? null, startedAt))) return null;
  const job = rows.get(jobId);
  const before = job === undefined ? new Map<string, number>() : await waitsOf(eachEvent(store, job));
  return children.every((id) => (before.get(id) ?? 0) >= ENOUGH)
    ? "it waits again and again for children that had ended before this run began"
    : null;
}

/** So many waits for a child are no chance any more. */
const ENOUGH = 2;

/** How often each child was waited for in this chapter. */
async function waitsOf(events: AsyncIterable<JobEvent>): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  for await (const { name, data } of events) {
    if (name === "job.redriven") times.clear();
    if (name === "attempt.waiting") for (const id of data.waitsFor) times.set(id, (times.get(id) ?? 0) + 1);
  }
  return times;
}

function isBefore(ended: number | null, started: number | null): boolean {
  return ended !== null && started !== null && ended < started;
}
