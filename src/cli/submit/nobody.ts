/** Warns of jobs that were stored and that no worker would take now: they wait, and nobody else would say so. A hint: what
 *  a server does not let us see is not warned of, and a worker that is being started is not known yet. */

import { nearest } from "../../core/check.ts";
import type { JobHandle, Perdure } from "../../core/face.ts";
import { resourceLabels, toResources } from "../../core/resources.ts";
import type { SubmitEntry } from "../../core/submit-options.ts";
import type { SessionRow } from "../../core/views.ts";
import { labelText, type NewLane } from "../../store/lane.ts";
import type { Context } from "../command.ts";
import { lackOf, starting } from "../run/stuck.ts";
import { nowOf } from "../server-time.ts";
import type { Target } from "../target.ts";
import { workerState } from "../worker-text.ts";

export interface StoredEntry {
  readonly job: JobHandle<unknown>;
  readonly entry: SubmitEntry;
}

/** A list of a thousand jobs may lack a thousand things; the first few are enough to act on. */
const MAX_NOTES = 3;

/** What each of them lacks, by its id. `doubt` begins what is said of the only job: why it may not be what was meant. */
export async function warnIfNobody(
  { out }: Pick<Context, "out">,
  perdure: Perdure,
  stored: readonly StoredEntry[],
  { target, doubt }: { readonly target: Target; readonly doubt?: string | null },
): Promise<ReadonlyMap<string, string>> {
  const warnings = new Map<string, string>();
  const created = stored.filter(({ job }) => job.created);
  if (created.length === 0) return warnings;
  const workers = await workersOf(perdure, target);
  if (workers === null) return warnings;
  const byLane = new Map<string, string | null>();
  for (const { job, entry } of created) {
    const given = laneOf(entry, target.namespace);
    const name = `${given.kind} ${entry.options?.queue ?? ""} ${labelText(given.labels)}`;
    if (!byLane.has(name)) {
      const lane = await storedLane(job, entry, given);
      const lack = workers.length === 0 && doubt == null ? alone(lane, target) : lackWords(lane, workers, target);
      byLane.set(name, lack);
      const isNew = lack !== null && ![...warnings.values()].includes(lack);
      if (isNew && new Set(warnings.values()).size < MAX_NOTES)
        out.note(doubt == null ? lack : `note: ${doubt}; ${lack}`);
    }
    const lack = byLane.get(name) ?? null;
    if (lack !== null) warnings.set(job.id, lack);
  }
  if (doubt == null) await noteUnpublished(out, created, workers);
  return warnings;
}

/** Of kinds that no live worker serves: that no other has left defaults for them either. */
async function noteUnpublished(
  out: Context["out"],
  created: readonly StoredEntry[],
  workers: readonly SessionRow[],
): Promise<void> {
  const seen = new Set<string>();
  for (const { job, entry } of created) {
    const kind = openKind(entry);
    if (kind === null || seen.has(kind) || isServed(kind, workers)) continue;
    if (seen.add(kind).size > MAX_NOTES) return;
    const { sources } = await job.explain();
    if (Object.values(sources?.from ?? {}).includes("task")) continue;
    out.note(`no worker has published defaults for ${kind}: it has 1 attempt, by preset default`);
  }
}

/** The kind of a submit that leaves its retries to the task. */
function openKind({ task, options }: SubmitEntry): string | null {
  const isOurs = task === "exec" || task === "http";
  return typeof task === "string" && !isOurs && options?.retry === undefined ? task : null;
}

function isServed(kind: string, workers: readonly SessionRow[]): boolean {
  return workers.some(({ kinds }) => kinds.includes(kind));
}

/** Those that live; null where they cannot be seen. */
async function workersOf(perdure: Perdure, { kind }: Target): Promise<SessionRow[] | null> {
  try {
    const workers = await perdure.workers();
    // A server ends those that are silent; without one nobody does.
    if (kind === "server") return workers.filter(({ endedAt }) => endedAt === null);
    const now = await nowOf(perdure);
    return workers.filter((worker) => workerState(worker, now) === "alive");
  } catch {
    return null;
  }
}

function alone(lane: NewLane, { kind }: Target): string {
  return `no worker is there yet; start one with ${starting(kind, lane)}`;
}

function lackWords(lane: NewLane, workers: readonly SessionRow[], { kind }: Target): string | null {
  const lack = lackOf(lane, workers, kind);
  if (lack === null) return null;
  const kinds = [...new Set(workers.flatMap((worker) => worker.kinds))];
  const near = kinds.includes(lane.kind) ? null : nearest(lane.kind, kinds);
  return near === null ? lack : `${lack}. Did you mean ${near}?`;
}

/** A submit by name that gives no queue has the one that its task has where it works. */
async function storedLane(job: JobHandle<unknown>, { task, options }: SubmitEntry, given: NewLane): Promise<NewLane> {
  const isOurs = task === "exec" || task === "http";
  if (typeof task !== "string" || isOurs || options?.queue !== undefined) return given;
  const { kind, queue, labels } = await job.get();
  return { ...given, kind, queue, labels };
}

function laneOf({ task, options = {} }: SubmitEntry, namespace: string): NewLane {
  const { queue = "default", labels = {}, resources } = options;
  const needs = resources === undefined ? {} : resourceLabels(toResources(resources, "resources"));
  return { namespace, queue, kind: typeof task === "string" ? task : task.kind, labels: { ...labels, ...needs } };
}
