/** Finds the job of a call, and the attempt that the caller's session holds. A job of another namespace, or one that a job token
 *  may not see, is answered like one that does not exist. A job token sees the job and its descendants. */

import { HEADER } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import type { Job } from "../core/job/job.ts";
import { jobNotFound } from "../engine/command.ts";
import { isId } from "../lib/id.ts";
import type { JobRow } from "../store/store.ts";
import { isSessionKey, readLease, sessionOf } from "./attempt-credentials.ts";
import type { RouteCall, ServerParts } from "./context.ts";

export async function findJob({ engine }: Pick<ServerParts, "engine">, call: RouteCall): Promise<JobRow> {
  return visibleJob({ engine }, call, call.params.id as string);
}

export async function visibleJob(
  { engine }: Pick<ServerParts, "engine">,
  call: RouteCall,
  id: string,
): Promise<JobRow> {
  const [row] = isId(id, "job") ? await engine.store.jobs([id]) : [];
  if (row?.namespace !== call.namespace) throw jobNotFound(id);
  const { job } = call.who;
  if (job !== undefined && !(await isSelfOrDescendant({ engine }, row, job.id))) throw jobNotFound(id);
  return row;
}

/** Whether `row` is the job `id`, or a descendant of it. */
async function isSelfOrDescendant({ engine }: Pick<ServerParts, "engine">, row: Job, id: string): Promise<boolean> {
  let each: Job | null | undefined = row;
  // One step per level, of which there are few.
  while (each !== null && each !== undefined) {
    if (each.id === id) return true;
    if (each.parentId === null || each.depth === 0) return false;
    [each] = await engine.store.facts([each.parentId]);
  }
  return false;
}

/** The attempt that the caller's session holds at this moment. Losing it right after this check does no harm: what the call does is
 *  checked again, or stored under the number of that attempt. */
export async function heldAttempt(parts: ServerParts, call: RouteCall): Promise<Pick<JobRow, "id" | "attempt">> {
  const session = sessionOf(parts, call);
  const lease = readLease(String(call.request.headers[HEADER.lease] ?? ""));
  const job = await findJob(parts, call).catch(nullIfMissing);
  if (job !== null && lease !== null && lease.session === session && isHeld(job, lease)) {
    return { id: job.id, attempt: job.attempt };
  }
  const message = `this session does not hold the attempt; send its lease token in the header ${HEADER.lease}`;
  throw new PerdureError("lease_lost", message);
}

/** The same for a route without a session in its path: the lease token has the session, and the session key proves it. */
export async function leasedAttempt(parts: ServerParts, call: RouteCall): Promise<Pick<JobRow, "id" | "attempt">> {
  const lease = readLease(String(call.request.headers[HEADER.lease] ?? ""));
  if (lease === null || !isSessionKey(parts, call, lease.session)) {
    const message = `requires the job token, or the headers ${HEADER.sessionKey} and ${HEADER.lease} of the session that holds the attempt`;
    throw new PerdureError("forbidden", message);
  }
  const job = await findJob(parts, call);
  if (isHeld(job, lease)) return { id: job.id, attempt: job.attempt };
  throw new PerdureError("lease_lost", `attempt ${lease.attempt} of ${job.id} is not held by this session any more`);
}

function isHeld(job: JobRow, { session, attempt }: { readonly session: string; readonly attempt: number }): boolean {
  return job.state === "running" && job.worker === session && job.attempt === attempt;
}

/** No session holds a job that was pruned. An error of the store is thrown. */
function nullIfMissing(error: unknown): null {
  if (error instanceof PerdureError && error.code === "job_not_found") return null;
  throw error;
}
