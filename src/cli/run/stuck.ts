/** Says once why a job does not begin, where that is for a person to mend: nobody is there to run it, or its queue is
 *  paused. A hint: what the server does not let us see is not told. */
import type { JobHandle } from "../../core/face.ts";
import type { JobInfo, SessionRow } from "../../core/views.ts";
import { systemClock } from "../../engine/clock.ts";
import { sleep } from "../../lib/clock.ts";
import type { Here } from "./here.ts";

const PATIENCE_MS = 2_000;

export async function tellIfStuck(
  { perdure, say }: Pick<Here, "perdure" | "say">,
  job: JobHandle<unknown>,
  signal: AbortSignal,
): Promise<void> {
  await sleep(systemClock, PATIENCE_MS, { signal });
  if (signal.aborted) return;
  try {
    const info = await job.get();
    const { state, attempt, queue, kind, runAt } = info;
    if (state !== "queued" || attempt > 0 || runAt > systemClock.now()) return;
    const isPaused = (await perdure.queues()).some((each) => each.queue === queue && each.paused);
    const isServed = (await perdure.workers()).some((worker) => canRun(worker, info));
    if (signal.aborted) return;
    if (isPaused) say(`${job.id}: the queue ${queue} is paused; it begins when that is resumed`);
    const wanted = kind === "exec" ? "" : `, of the kind ${kind}`;
    if (!isServed) say(`${job.id}: no worker for it${wanted} yet; start one with \`perdure worker\``);
  } catch {
    // It goes on all the same.
  }
}

/** A worker that has gone silent is ended by its server. */
export function canRun(
  worker: SessionRow,
  { kind, queue, labels }: Pick<JobInfo, "kind" | "queue" | "labels">,
): boolean {
  const { endedAt, drainingAt, kinds, queues, labels: has } = worker;
  const isThere = endedAt === null && drainingAt === null;
  const fits = Object.entries(labels).every(([name, value]) => has[name] === value);
  return isThere && fits && kinds.includes(kind) && (queues?.includes(queue) ?? true);
}
