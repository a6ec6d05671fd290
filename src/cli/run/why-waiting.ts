/** Prints once why a job does not start, if a person can fix it: no worker takes it, or its queue is paused. Only a hint:
 *  nothing is printed if the server does not list its workers or queues. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import { labelOptions, labelsBesideSize } from "../../core/explain/worker-command.ts";
import { shellWord } from "../../core/format.ts";
import { resourcesIn, showResources } from "../../core/input/resources.ts";
import { serves } from "../../core/job/lane.ts";
import type { JobInfo, SessionRow } from "../../core/job/views.ts";
import { sleep } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { eachQueue, eachWorker } from "../target/pages.ts";
import type { Target } from "../target/target.ts";
import type { RunContext } from "./run-context.ts";

const PATIENCE_MS = 2_000;

type TargetKind = Target["kind"];

export async function reportIfWaiting(
  { perdure, note, at = "server" }: Pick<RunContext, "perdure" | "note"> & { readonly at?: TargetKind },
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
      lack.add(worker);
      if (lack.isServed || signal.aborted) break;
    }
    if (signal.aborted) return;
    if (isPaused) note(`${job.id}: waiting: queue ${queue} is paused; resume it with ${resumeCommand(queue)}`);
    const words = lack.message(at);
    if (words !== null) note(`${job.id}: waiting: ${words}`);
  } catch {
    // Errors only suppress the hint.
  }
}

function resumeCommand(queue: string): string {
  return `\`perdure queues resume ${shellWord(queue)}\``;
}

async function isPausedQueue(perdure: Pick<Perdure, "queues">, name: string): Promise<boolean> {
  for await (const { queue, paused } of eachQueue(perdure)) if (queue === name) return paused;
  return false;
}

type JobNeeds = Pick<JobInfo, "namespace" | "kind" | "queue" | "labels">;

/** Finds what the job lacks to start. Workers are read one by one and not kept. */
export class MissingWorker {
  readonly #job: JobNeeds;
  readonly #sizeless: JobNeeds;
  #isServed = false;
  #isOnlySize = false;
  #isTaken = false;

  constructor(job: JobNeeds) {
    this.#job = job;
    this.#sizeless = { ...job, labels: Object.fromEntries(labelsBesideSize(job.labels)) };
  }

  /** Some worker takes the job, so reading can stop. */
  get isServed(): boolean {
    return this.#isServed;
  }
  /** Some worker takes jobs of its kind. */
  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** A silent worker counts, until its server ends it. */
  add(worker: SessionRow): void {
    if (worker.endedAt !== null || worker.drainingAt !== null) return;
    const { namespace, kind } = this.#job;
    this.#isTaken ||= worker.namespace === namespace && worker.kinds.includes(kind);
    this.#isServed ||= serves(worker, this.#job);
    this.#isOnlySize ||= serves(worker, this.#sizeless);
  }

  /** Null if some worker takes the job. */
  message(at: TargetKind = "server"): string | null {
    if (this.#isServed) return null;
    const job = this.#job;
    const start = workerCommand(at, job);
    const needs = resourcesIn(job.labels);
    if (needs === null || !this.#isOnlySize) return `${this.#noWorker()}; start one with ${start}`;
    const options = [...(needs.cpu === 0 ? [] : ["--cpu"]), ...(needs.memory === 0 ? [] : ["--memory"])];
    const larger = `start a larger one with ${start} (see ${options.join(", ")}), or submit the job with less`;
    return `no worker is large enough for ${showResources(needs)}; ${larger}`;
  }

  /** Most workers take commands, so their kind is left out. */
  #noWorker(): string {
    const { kind } = this.#job;
    return kind === "exec" || this.#isTaken ? "no worker takes this job" : `no worker takes jobs of kind ${kind}`;
  }
}

/** The command that starts a worker for the job, with the labels it requires. `perdure worker` requires a server. */
export function workerCommand(at: TargetKind, job: Pick<JobNeeds, "labels">): string {
  return `\`perdure ${at === "server" ? "worker" : "up"}${labelOptions(job.labels)}\``;
}
