/** Says once why a job does not begin, where that is for a person to mend: nobody is there to run it, or its queue is
 *  paused. A hint: what the server does not let us see is not told. */
import { exec } from "../../core/builtin.ts";
import type { JobHandle } from "../../core/face.ts";
import type { SessionRow } from "../../core/views.ts";
import { systemClock } from "../../engine/clock.ts";
import { sleep } from "../../lib/clock.ts";
import type { Here } from "./here.ts";

const PATIENCE_MS = 2_000;

export async function tellIfStuck({ perdure, say }: Here, job: JobHandle<unknown>, signal: AbortSignal): Promise<void> {
  await sleep(systemClock, PATIENCE_MS, { signal });
  if (signal.aborted) return;
  try {
    const { state, attempt, queue } = await job.get();
    if (state !== "queued" || attempt > 0) return;
    const isPaused = (await perdure.queues()).some((each) => each.queue === queue && each.paused);
    const isServed = (await perdure.workers()).some((worker) => canRun(worker, queue));
    if (signal.aborted) return;
    if (isPaused) say(`${job.id}: the queue ${queue} is paused; it begins when that is resumed`);
    if (!isServed) say(`${job.id}: no worker for it yet; start one with \`perdure worker\``);
  } catch {
    // It goes on all the same.
  }
}

/** A worker that has gone silent is ended by its server. */
export function canRun({ endedAt, drainingAt, kinds, queues }: SessionRow, queue: string): boolean {
  return endedAt === null && drainingAt === null && kinds.includes(exec.kind) && (queues?.includes(queue) ?? true);
}
