/** All that a dialect's view may tell of. */

import type { Perdure } from "../../core/face.ts";
import type { ViewChildren, ViewParts } from "../../dialects/dialect.ts";
import { readChildren } from "../../dialects/read-children.ts";
import { readParts } from "../../dialects/read-parts.ts";
import { bySession } from "../job-text.ts";
import { nowOf } from "../server-time.ts";

export async function viewParts(perdure: Perdure, id: string, withChildren = false): Promise<ViewParts> {
  const handle = await perdure.job(id);
  const [parts, workers, now, children] = await Promise.all([
    readParts(handle),
    bySession(perdure),
    nowOf(perdure),
    withChildren ? childrenOf(perdure, id) : undefined,
  ]);
  const workerName = (session: string) => workers.get(session)?.name ?? null;
  return { ...parts, workerName, now, ...(children === undefined ? {} : { children }) };
}

function childrenOf(perdure: Perdure, id: string): Promise<ViewChildren> {
  return readChildren((filter) => perdure.jobs({ ...filter, parent: id, order: "oldest" }));
}
