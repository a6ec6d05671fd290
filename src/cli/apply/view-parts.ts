/** All that a dialect's view may tell of. */
import type { Perdure } from "../../core/face.ts";
import type { ViewParts } from "../../dialects/dialect.ts";
import { readParts } from "../../dialects/read-parts.ts";

export async function viewParts(perdure: Perdure, id: string): Promise<ViewParts> {
  const handle = await perdure.job(id);
  const [parts, workers] = await Promise.all([readParts(handle), perdure.workers()]);
  const names = new Map(workers.map((worker) => [worker.id, worker.name]));
  return { ...parts, workerName: (session) => names.get(session) ?? null, now: Date.now() };
}
