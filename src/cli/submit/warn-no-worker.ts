/** Warns of submitted jobs that no worker would take now. Only a hint: nothing is printed if the server does not list its
 *  workers, and a worker that is starting is not known yet. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import { nearest } from "../../core/check.ts";
import { resourceLabels, toResources } from "../../core/input/resources.ts";
import { labelText, type NewLane } from "../../core/job/lane.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { SubmitEntry } from "../../core/task/task.ts";
import type { CommandContext } from "../command.ts";
import { workerState } from "../output/job-text.ts";
import { MissingWorker, workerCommand } from "../run/why-waiting.ts";
import { eachWorker } from "../target/pages.ts";
import { serverNow } from "../target/server-time.ts";
import { type Target, targetOf } from "../target/target.ts";

export interface StoredEntry {
  readonly job: JobHandle<unknown>;
  readonly entry: SubmitEntry;
}

/** Of a long list only the first warnings are printed. */
const MAX_NOTES = 3;

/** Limit of kinds to search for a similar name. */
const MAX_KINDS = 5_000;

/** Returns what each job lacks, by its id. `doubt` begins the warning of the only job: a reason why it may be a mistake. */
export async function warnIfNoWorker(
  { out }: Pick<CommandContext, "out">,
  perdure: Perdure,
  stored: readonly StoredEntry[],
  { target, doubt }: { readonly target: Target; readonly doubt?: string | null },
): Promise<ReadonlyMap<string, string>> {
  const warnings = new Map<string, string>();
  const created = stored.filter(({ job }) => job.created);
  if (created.length === 0) return warnings;
  const lanes = await lanesOf(created, target);
  const fleet = lanes && (await fleetFor(perdure, target, [...lanes.values()]));
  if (lanes === null || fleet === null) return warnings;
  const byLane = new Map<string, string | null>();
  for (const [name, lane] of lanes) {
    byLane.set(name, fleet.live === 0 && doubt == null ? alone(lane, target) : lackText(lane, fleet, target));
  }
  const noted = new Set<string>();
  for (const { job, entry } of created) {
    const lack = byLane.get(nameOf(entry, laneOf(entry, target.namespace))) ?? null;
    if (lack === null) continue;
    warnings.set(job.id, lack);
    if (noted.has(lack) || noted.size >= MAX_NOTES) continue;
    noted.add(lack);
    out.note(doubt == null ? lack : `note: ${doubt}; ${lack}`);
  }
  if (doubt == null) await noteUnpublished(out, created, fleet);
  return warnings;
}

/** Jobs read to find those that no worker would take. */
const MAX_READ = 20;

/** The same warnings for stored jobs that were made due again, of many only for the first. */
export async function warnIfStillWaiting(
  context: CommandContext,
  perdure: Perdure,
  jobs: readonly (JobInfo | string)[],
): Promise<void> {
  const target = targetOf(context);
  const noted = new Set<string>();
  try {
    const read = jobs
      .slice(0, MAX_READ)
      .map(async (job) => (typeof job === "string" ? (await perdure.job(job)).get() : job));
    const queued = (await Promise.all(read)).filter(({ state }) => state === "queued");
    const fleet = queued.length === 0 ? null : await fleetFor(perdure, target, queued);
    if (fleet === null) return;
    for (const job of queued) {
      const lack = fleet.live === 0 ? alone(job, target) : lackText(job, fleet, target);
      if (lack === null || noted.size >= MAX_NOTES || noted.has(lack)) continue;
      noted.add(lack);
      context.out.note(lack);
    }
  } catch {
    // Errors only suppress the hint: the command itself has succeeded.
  }
}

/** The lanes of the jobs, from what was given; null if that is not known. */
async function lanesOf(created: readonly StoredEntry[], { namespace }: Target): Promise<Map<string, NewLane> | null> {
  const lanes = new Map<string, NewLane>();
  try {
    for (const { job, entry } of created) {
      const given = laneOf(entry, namespace);
      const name = nameOf(entry, given);
      if (!lanes.has(name)) lanes.set(name, await storedLane(job, entry, given));
    }
  } catch {
    return null;
  }
  return lanes;
}

function nameOf({ options }: SubmitEntry, { kind, labels }: NewLane): string {
  return `${kind} ${options?.queue ?? ""} ${labelText(labels)}`;
}

/** Which of these lanes live workers serve. */
interface WorkerFleet {
  readonly live: number;
  readonly lacks: ReadonlyMap<NewLane, MissingWorker>;
  /** Kinds that they serve, limited in number. */
  readonly kinds: ReadonlySet<string>;
}

/** Reads live workers page by page until each lane is served; null if workers cannot be listed. */
async function fleetFor(perdure: Perdure, { kind }: Target, lanes: readonly NewLane[]): Promise<WorkerFleet | null> {
  const lacks = new Map(lanes.map((lane) => [lane, new MissingWorker(lane)]));
  const kinds = new Set<string>();
  const open = new Set(lacks.values());
  let live = 0;
  try {
    const now = kind === "server" ? null : await serverNow(perdure);
    for await (const worker of eachWorker(perdure)) {
      // A server ends silent workers; without a server nothing does.
      if (now === null ? worker.endedAt !== null : workerState(worker, now) !== "alive") continue;
      live += 1;
      for (const each of worker.kinds) if (kinds.size < MAX_KINDS) kinds.add(each);
      for (const lack of open) {
        lack.add(worker);
        if (lack.isServed) open.delete(lack);
      }
      if (open.size === 0) break;
    }
  } catch {
    return null;
  }
  return { live, lacks, kinds };
}

/** Notes jobs whose kind no worker has published defaults for either. */
async function noteUnpublished(
  out: CommandContext["out"],
  created: readonly StoredEntry[],
  { kinds }: Pick<WorkerFleet, "kinds">,
): Promise<void> {
  const seen = new Set<string>();
  for (const { job, entry } of created) {
    const kind = openKind(entry);
    if (kind === null || seen.has(kind) || kinds.has(kind)) continue;
    if (seen.add(kind).size > MAX_NOTES) return;
    const { sources } = await job.explain();
    if (Object.values(sources?.from ?? {}).includes("task")) continue;
    out.note(`no worker has published defaults for ${kind}; using preset default (1 attempt)`);
  }
}

/** The kind, if its retry policy is left to the task. */
function openKind({ task, options }: SubmitEntry): string | null {
  const isOurs = task === "exec" || task === "http";
  return typeof task === "string" && !isOurs && options?.retry === undefined ? task : null;
}

function alone(lane: NewLane, { kind }: Target): string {
  return `no worker is running; start one with ${workerCommand(kind, lane)}`;
}

function lackText(lane: NewLane, { lacks, kinds }: WorkerFleet, { kind }: Target): string | null {
  const lack = lacks.get(lane) as MissingWorker;
  const words = lack.message(kind);
  if (words === null || lack.isTaken || kinds.has(lane.kind)) return words;
  const near = nearest(lane.kind, [...kinds]);
  return near === null ? words : `${words}. Did you mean ${near}?`;
}

/** A submit without a queue uses the queue that its task has published. */
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
