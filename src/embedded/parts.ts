/** What the files of the embedded API share: its parts, and the jobs of its namespace. */

import { PerdureError, show } from "../core/errors.ts";
import { isId } from "../lib/id.ts";
import type { JobRow } from "../store/store.ts";
import type { LocalWorkerParts } from "./local-worker.ts";

export interface EmbeddedParts extends Omit<LocalWorkerParts, "running"> {
  /** Settings for files of other systems, as `dialectSettings()` returns them. */
  readonly dialects?: object;
  /** Named in the events of commands that are given through it; null: nobody. */
  readonly by: string | null;
}

/** The row of a job of this namespace; a job of another namespace does not exist here. */
export async function readRow({ engine, namespace }: EmbeddedParts, id: string): Promise<JobRow> {
  if (typeof id !== "string" || !isId(id, "job")) {
    throw new PerdureError("job_not_found", `${show(id)} is not a job id; ids look like job_ and 26 characters`);
  }
  const [row] = await engine.store.jobs([id]);
  if (row?.namespace === namespace) return row;
  throw new PerdureError("job_not_found", `job ${id} does not exist, or it was pruned`);
}
