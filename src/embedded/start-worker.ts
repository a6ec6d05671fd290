/** Starts a worker of this process on an engine of this process. */
import type { AnyTask } from "../core/task.ts";
import type { WorkerHandle, WorkOptions } from "../core/work-options.ts";
import type { Engine, Log } from "../engine/engine.ts";
import type { Blobs } from "../store/blobs.ts";
import { buildWorker } from "../worker/build-worker.ts";
import type { AttemptPlaces } from "../worker/exec/exec-executor.ts";
import { localLink } from "./local-link.ts";

export interface WorkerParts {
  readonly engine: Engine;
  readonly namespace: string;
  readonly log: Log;
  /** Without places for attempts it runs no commands. */
  readonly blobs: Blobs & Partial<AttemptPlaces>;
  /** The workers to be stopped with the engine. */
  readonly running: Set<{ stop(graceMs: number): Promise<void> }>;
}

export async function startWorker(
  { engine, namespace, log, blobs, running }: WorkerParts,
  tasks: readonly AnyTask[],
  options: WorkOptions,
): Promise<WorkerHandle> {
  const { clock } = engine;
  const worker = buildWorker({
    link: localLink(engine),
    clock,
    places: hasPlaces(blobs) ? blobs : null,
    namespace,
    log,
    tasks,
    options,
  });
  running.add(worker); // before it starts: a close that comes meanwhile stops it
  await worker.start();
  return worker.handle(() => running.delete(worker));
}

function hasPlaces(blobs: WorkerParts["blobs"]): blobs is Blobs & AttemptPlaces {
  return blobs.begin !== undefined;
}
