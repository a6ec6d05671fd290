/** The job that a call names. One of another namespace is answered exactly as one that does not exist; and so is one that a
 *  job may not see with its own token: it sees itself, its children and theirs. */
import type { Job } from "../core/job.ts";
import { jobNotFound } from "../engine/command.ts";
import { isId } from "../lib/id.ts";
import type { JobRow } from "../store/store.ts";
import type { Call, ServerParts } from "./parts.ts";

export async function jobOf({ engine }: Pick<ServerParts, "engine">, call: Call): Promise<JobRow> {
  return visibleJob({ engine }, call, call.params.id as string);
}

export async function visibleJob({ engine }: Pick<ServerParts, "engine">, call: Call, id: string): Promise<JobRow> {
  const [row] = isId(id, "job") ? await engine.store.jobs([id]) : [];
  if (row?.namespace !== call.namespace) throw jobNotFound(id);
  const { job } = call.who;
  if (job !== undefined && !(await isWithin({ engine }, row, job.id))) throw jobNotFound(id);
  return row;
}

/** Whether a job is another one, or somewhere below it. */
async function isWithin({ engine }: Pick<ServerParts, "engine">, row: Job, id: string): Promise<boolean> {
  let each: Job | null | undefined = row;
  // Each step is one parent up, and there are few.
  while (each !== null && each !== undefined) {
    if (each.id === id) return true;
    if (each.parentId === null || each.depth === 0) return false;
    [each] = await engine.store.facts([each.parentId]);
  }
  return false;
}
