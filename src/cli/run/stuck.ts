/** Says once why a job does not begin, where that is for a person to mend: nobody is there to run it, or its queue is
 *  paused. A hint: what the server does not let us see is not told. */
import type { JobHandle } from "../../core/face.ts";
import { RESOURCE_PREFIX, resourcesIn, showResources } from "../../core/resources.ts";
import type { JobInfo, SessionRow } from "../../core/views.ts";
import { systemClock } from "../../engine/clock.ts";
import { sleep } from "../../lib/clock.ts";
import { serves } from "../../store/lane.ts";
import { RUNTIME } from "../../worker/work-options.ts";
import { shellWord } from "../job-text.ts";
import type { Target } from "../target.ts";
import type { Here } from "./here.ts";

const PATIENCE_MS = 2_000;

/** Where the job is. */
type Place = Target["kind"];

export async function tellIfStuck(
  { perdure, say, at = "server" }: Pick<Here, "perdure" | "say"> & { readonly at?: Place },
  job: JobHandle<unknown>,
  signal: AbortSignal,
): Promise<void> {
  await sleep(systemClock, PATIENCE_MS, { signal });
  if (signal.aborted) return;
  try {
    const info = await job.get();
    const { state, attempt, queue, runAt } = info;
    if (state !== "queued" || attempt > 0 || runAt > systemClock.now()) return;
    const isPaused = (await perdure.queues()).some((each) => each.queue === queue && each.paused);
    const lack = lackOf(info, await perdure.workers(), at);
    if (signal.aborted) return;
    if (isPaused) say(`${job.id}: the queue ${queue} is paused; it begins when that is resumed`);
    if (lack !== null) say(`${job.id}: ${lack}`);
  } catch {
    // It goes on all the same.
  }
}

type Wanted = Pick<JobInfo, "namespace" | "kind" | "queue" | "labels">;

/** What is missing for the job to begin; null if some worker has it all. A worker that has gone silent is ended by its
 *  server. */
export function lackOf(job: Wanted, workers: readonly SessionRow[], at: Place = "server"): string | null {
  const there = workers.filter(({ endedAt, drainingAt }) => endedAt === null && drainingAt === null);
  if (there.some((worker) => serves(worker, job))) return null;
  const start = starting(at, job);
  const needs = resourcesIn(job.labels);
  const sizeless = { ...job, labels: Object.fromEntries(labelsBesideSize(job)) };
  const isOnlySize = there.some((worker) => serves(worker, sizeless));
  if (needs === null || !isOnlySize) return `${nobodyFor(job, there)}; start one with ${start}`;
  const options = [...(needs.cpu === 0 ? [] : ["--cpu"]), ...(needs.memory === 0 ? [] : ["--memory"])];
  const larger = `start a larger one with ${start} (see ${options.join(", ")}), or submit it with less`;
  return `no worker has so much: it takes ${showResources(needs)}; ${larger}`;
}

/** The command for a worker that has what the job asks for; one without would leave it waiting. Without a server there is
 *  nobody whom `perdure worker` could work for. */
export function starting(at: Place, job: Pick<Wanted, "labels">): string {
  const options = labelsBesideSize(job).map(([name, value]) =>
    name.startsWith(RUNTIME) && value === "yes"
      ? ` --runtime ${shellWord(name.slice(RUNTIME.length))}`
      : ` --label ${shellWord(`${name}=${value}`)}`,
  );
  return `\`perdure ${at === "server" ? "worker" : "up"}${options.join("")}\``;
}

function labelsBesideSize({ labels }: Pick<Wanted, "labels">): [string, string][] {
  return Object.entries(labels).filter(([name]) => !name.startsWith(RESOURCE_PREFIX));
}

/** Commands are what most workers take: their kind is named to nobody. */
function nobodyFor({ namespace, kind }: Wanted, workers: readonly SessionRow[]): string {
  const isTaken = workers.some((worker) => worker.namespace === namespace && worker.kinds.includes(kind));
  return kind === "exec" || isTaken ? "no worker for it yet" : `no worker takes jobs of the kind ${kind} yet`;
}
