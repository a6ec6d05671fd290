/** Says once why a job does not begin, where that is for a person to mend: nobody is there to run it, or its queue is
 *  paused. A hint: what the server does not let us see is not told. */
import type { JobHandle, Perdure } from "../../core/api.ts";
import { RESOURCE_PREFIX, resourcesIn, showResources } from "../../core/input/resources.ts";
import type { JobInfo, SessionRow } from "../../core/job/views.ts";
import { sleep } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { serves } from "../../store/lane.ts";
import { RUNTIME } from "../../worker/work-options.ts";
import { shellWord } from "../output/job-text.ts";
import { eachQueue, eachWorker } from "../target/pages.ts";
import type { Target } from "../target/target.ts";
import type { RunContext } from "./run-context.ts";

const PATIENCE_MS = 2_000;

/** Where the job is. */
type TargetKind = Target["kind"];

export async function reportIfWaiting(
  { perdure, say, at = "server" }: Pick<RunContext, "perdure" | "say"> & { readonly at?: TargetKind },
  job: JobHandle<unknown>,
  signal: AbortSignal,
): Promise<void> {
  await sleep(systemClock, PATIENCE_MS, { signal });
  if (signal.aborted) return;
  try {
    const info = await job.get();
    const { state, attempt, queue, runAt } = info;
    if (state !== "queued" || attempt > 0 || runAt > systemClock.now()) return;
    const isPaused = await isPausedQueue(perdure, queue);
    const lack = new MissingWorker(info);
    for await (const worker of eachWorker(perdure)) {
      lack.meet(worker);
      if (lack.isServed || signal.aborted) break;
    }
    if (signal.aborted) return;
    if (isPaused) say(`${job.id}: the queue ${queue} is paused; it begins when that is resumed`);
    const words = lack.words(at);
    if (words !== null) say(`${job.id}: ${words}`);
  } catch {
    // It goes on all the same.
  }
}

async function isPausedQueue(perdure: Pick<Perdure, "queues">, name: string): Promise<boolean> {
  for await (const { queue, paused } of eachQueue(perdure)) if (queue === name) return paused;
  return false;
}

type JobNeeds = Pick<JobInfo, "namespace" | "kind" | "queue" | "labels">;

/** What is missing for the job to begin, found from workers that are read one after the other and not kept. */
export class MissingWorker {
  readonly #job: JobNeeds;
  readonly #sizeless: JobNeeds;
  #isServed = false;
  #isOnlySize = false;
  #isTaken = false;

  constructor(job: JobNeeds) {
    this.#job = job;
    this.#sizeless = { ...job, labels: Object.fromEntries(labelsBesideSize(job)) };
  }

  /** Some worker has it all: there is no need to read on. */
  get isServed(): boolean {
    return this.#isServed;
  }
  /** Some worker takes jobs of its kind. */
  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** A worker that has gone silent is ended by its server. */
  meet(worker: SessionRow): void {
    if (worker.endedAt !== null || worker.drainingAt !== null) return;
    const { namespace, kind } = this.#job;
    this.#isTaken ||= worker.namespace === namespace && worker.kinds.includes(kind);
    this.#isServed ||= serves(worker, this.#job);
    this.#isOnlySize ||= serves(worker, this.#sizeless);
  }

  /** Null if some worker has it all. */
  words(at: TargetKind = "server"): string | null {
    if (this.#isServed) return null;
    const job = this.#job;
    const start = workerCommand(at, job);
    const needs = resourcesIn(job.labels);
    if (needs === null || !this.#isOnlySize) return `${this.#nobody()}; start one with ${start}`;
    const options = [...(needs.cpu === 0 ? [] : ["--cpu"]), ...(needs.memory === 0 ? [] : ["--memory"])];
    const larger = `start a larger one with ${start} (see ${options.join(", ")}), or submit it with less`;
    return `no worker has so much: it takes ${showResources(needs)}; ${larger}`;
  }

  /** Commands are what most workers take: their kind is named to nobody. */
  #nobody(): string {
    const { kind } = this.#job;
    return kind === "exec" || this.#isTaken ? "no worker for it yet" : `no worker takes jobs of the kind ${kind} yet`;
  }
}

/** The command for a worker that has what the job asks for; one without would leave it waiting. Without a server there is
 *  nobody whom `perdure worker` could work for. */
export function workerCommand(at: TargetKind, job: Pick<JobNeeds, "labels">): string {
  const options = labelsBesideSize(job).map(([name, value]) =>
    name.startsWith(RUNTIME) && value === "yes"
      ? ` --runtime ${shellWord(name.slice(RUNTIME.length))}`
      : ` --label ${shellWord(`${name}=${value}`)}`,
  );
  return `\`perdure ${at === "server" ? "worker" : "up"}${options.join("")}\``;
}

function labelsBesideSize({ labels }: Pick<JobNeeds, "labels">): [string, string][] {
  return Object.entries(labels).filter(([name]) => !name.startsWith(RESOURCE_PREFIX));
}
