/** Which jobs may have children, with which keys, and for which children an attempt may wait. Checked before the
 *  store decides; whether a parent is still running, the store checks again under its lock. */

import { failure } from "../../core/decision/failure.ts";
import { ConfigError, PerdureError, show } from "../../core/errors.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { Job } from "../../core/job/job.ts";
import { childKey } from "../../core/task/task.ts";
import type { Report } from "../../core/worker-protocol.ts";
import { isId } from "../../lib/id.ts";
import { storable } from "../../lib/text.ts";
import { LIMITS } from "../limits.ts";
import type { EngineParts } from "../parts.ts";
import { eachEvent } from "../read-job.ts";
import type { SubmitItem } from "../submit-item.ts";

// The parents of new jobs: whether they may have children, and how deep they are nested.

/** Facts about the parents of these items; null if none of them is a child. */
export async function parentsOf({ store }: EngineParts, items: readonly SubmitItem[]): Promise<Parents | null> {
  const children = items.filter(({ parent }) => parent != null);
  if (children.length === 0) return null;
  const ids = [...new Set(children.map(({ parent }) => parent?.id ?? ""))].filter((id) => isId(id, "job"));
  const [rows, counts] = await Promise.all([store.facts(ids), store.children.counts(ids)]);
  const parents = new Map<string, ParentCapacity>();
  rows.forEach((row, i) => {
    if (row === null) return;
    const { id, namespace, depth } = row;
    parents.set(id, { namespace, depth, room: LIMITS.children - (counts[i] ?? 0), known: new Set() });
  });
  // If a parent cannot take all of them, those that exist already do not count.
  for (const item of children) {
    const { parent, key } = item;
    const facts = parents.get(parent?.id ?? "");
    if (facts === undefined || key == null || facts.room >= children.length) continue;
    const stored = storedKey(item) as string;
    const { jobs } = await store.find({ parentId: parent?.id ?? "", key: stored, limit: 1 });
    if (jobs.length > 0) facts.known.add(key);
  }
  return parents;
}

interface ParentCapacity {
  readonly namespace: string;
  readonly depth: number;
  /** How many more children it may have. */
  room: number;
  /** Keys of children that it has. */
  readonly known: Set<string>;
}

export type Parents = ReadonlyMap<string, ParentCapacity>;

export function parentFacts(
  parentId: string,
  { key, namespace }: { readonly key: string | null; readonly namespace: string },
  parents: Parents | null,
): ParentCapacity {
  const above = parents?.get(parentId);
  // A parent in another namespace must look like a missing one, also by its depth and its children.
  if (above === undefined || above.namespace !== namespace) {
    throw new PerdureError("parent_ended", `job ${show(parentId)} does not exist, so it cannot have children`, {
      path: "parent",
    });
  }
  if (above.depth >= LIMITS.depth) {
    const allowed = `a job with fewer than ${LIMITS.depth} parents above it`;
    throw new ConfigError({ path: "parent", given: parentId, problem: "nested too deep", allowed });
  }
  if (key !== null && above.known.has(key)) return above;
  above.room -= 1;
  if (above.room >= 0) return above;
  const allowed = `a job with fewer than ${LIMITS.children} children`;
  throw new ConfigError({ path: "parent", given: parentId, problem: "it has too many children", allowed });
}

/** The key under which a job is stored: unique in its namespace. */
export function storedKey({ key = null, parent, isWideKey }: Pick<SubmitItem, "key" | "parent" | "isWideKey">) {
  return key === null || parent == null || isWideKey === true ? key : childKey(parent.id, key);
}

/** Keys of children begin with their parent's id. Another job with such a key would be found instead of the child. */
export function refuseChildKey(key: string): void {
  const slash = key.indexOf("/");
  if (slash < 0 || !isId(key.slice(0, slash), "job")) return;
  const allowed = "a key that does not begin with a job id and /: children of that job have such keys";
  throw new ConfigError({ path: "submit.key", given: key, allowed });
}

/** A child is stored under its parent's lock, and a caller's transaction may last any time: until it ends, the parent's worker
 *  could neither renew nor report. */
export function refuseChild({ parent }: SubmitItem): void {
  if (parent == null) return;
  const allowed = "left out: a child cannot be stored within your transaction";
  throw new ConfigError({ path: "submit.parent", given: parent.id, allowed });
}

// An attempt may wait only for its own children, and not repeatedly for the same ends. Any other wait would last forever or be
// useless, and a retry would not help. Children that ended before the attempt started are allowed: when a child's end is
// written depends on locks and connections, so an attempt may start after the instant of that end and still find the child
// running. The next attempt finds it ended.

export function isWait({ outcome }: Report): boolean {
  return outcome.kind === "waiting";
}

export async function validatedWaits({ store }: EngineParts, reports: readonly Report[]): Promise<Report[]> {
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
  if (children.length === 0) return "waitFor() got no children";
  const stranger = children.find((id) => rows.get(id)?.parentId !== jobId);
  if (stranger !== undefined) return `waitFor(): ${storable(stranger, 100)} is not a child of this job`;
  const startedAt = rows.get(jobId)?.startedAt ?? null;
  if (!children.every((id) => isBefore(rows.get(id)?.finishedAt ?? null, startedAt))) return null;
  const job = rows.get(jobId);
  const before = job === undefined ? new Map<string, number>() : await waitsOf(eachEvent(store, job));
  return children.every((id) => (before.get(id) ?? 0) >= MAX_REPEATED_WAITS)
    ? "waitFor() was called repeatedly for children that had ended before this attempt started"
    : null;
}

/** This many waits for an ended child are no coincidence. */
const MAX_REPEATED_WAITS = 2;

/** How often each child was waited for since the last redrive. */
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
