/** The job that a call names. One of another namespace is answered exactly as one that does not exist. */
import { jobNotFound } from "../engine/command.ts";
import { isId } from "../lib/id.ts";
import type { JobRow } from "../store/store.ts";
import type { Call, ServerParts } from "./parts.ts";

export async function jobOf({ engine }: ServerParts, call: Call): Promise<JobRow> {
  const id = call.params.id as string;
  const [row] = isId(id, "job") ? await engine.store.jobs([id]) : [];
  if (row?.namespace !== call.namespace) throw jobNotFound(id);
  return row;
}
