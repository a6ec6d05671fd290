/** All that a dialect's view may tell of. */

import type { Perdure } from "../../core/face.ts";
import type { ViewParts } from "../../dialects/dialect.ts";
import { readParts } from "../../dialects/read-parts.ts";
import { nowOf } from "../server-time.ts";

export async function viewParts(perdure: Perdure, id: string): Promise<ViewParts> {
  const handle = await perdure.job(id);
  const [parts, workers, now] = await Promise.all([readParts(handle), perdure.workers(), nowOf(perdure)]);
  const names = new Map(workers.map((worker) => [worker.id, worker.name]));
  return { ...parts, workerName: (session) => names.get(session) ?? null, now };
}
