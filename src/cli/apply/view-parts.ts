/** All that a dialect's view may tell of. */

import type { Perdure } from "../../core/face.ts";
import type { ViewParts } from "../../dialects/dialect.ts";
import { readParts } from "../../dialects/read-parts.ts";
import { bySession } from "../job-text.ts";
import { nowOf } from "../server-time.ts";

export async function viewParts(perdure: Perdure, id: string): Promise<ViewParts> {
  const handle = await perdure.job(id);
  const [parts, workers, now] = await Promise.all([readParts(handle), bySession(perdure), nowOf(perdure)]);
  return { ...parts, workerName: (session) => workers.get(session)?.name ?? null, now };
}
