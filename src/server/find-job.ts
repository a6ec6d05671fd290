/** Finds the job that a call names, and the attempt of it that the caller's session holds. A job of another
 *  namespace, or one that a job's own token may not see, is answered exactly as one that does not exist. */

import { HEADER } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import type { Job } from "../core/job/job.ts";
import { jobNotFound } from "../engine/command.ts";
import { isId } from "../lib/id.ts";
import type { JobRow } from "../store/store.ts";
import { isSessionKey, readLease, sessionOf } from "./attempt-credentials.ts";
import type { RouteCall, ServerParts } from "./context.ts";

// The job that a call names. One of another namespace is answered exactly as one that does not exist; and so is one
// that a job may not see with its own token: it sees itself, its children and theirs.

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

// The job and the attempt of it that a caller's session holds at this moment. What it does when it has lost it is
// checked again behind this, or lies under a number that nobody else has: a loss right after this check does no harm.

export async function heldAttempt(parts: ServerParts, call: RouteCall): Promise<Pick<JobRow, "id" | "attempt">> {
  const session = sessionOf(parts, call);
  const lease = readLease(String(call.request.headers[HEADER.lease] ?? ""));
  const job = await findJob(parts, call).catch(orNull);
  if (job !== null && lease !== null && lease.session === session && isHeld(job, lease)) {
    return { id: job.id, attempt: job.attempt };
  }
  const message = `the attempt is not in the hands of this session; its lease goes into the header ${HEADER.lease}`;
  throw new PerdureError("lease_lost", message);
}

/** The same for a route that does not name the session: the lease names it, and the key proves it. */
export async function leasedAttempt(parts: ServerParts, call: RouteCall): Promise<Pick<JobRow, "id" | "attempt">> {
  const lease = readLease(String(call.request.headers[HEADER.lease] ?? ""));
  if (lease === null || !isSessionKey(parts, call, lease.session)) {
    const message = `this needs the job's own token, or the headers ${HEADER.sessionKey} and ${HEADER.lease} of the session that runs it`;
    throw new PerdureError("forbidden", message);
  }
  const job = await findJob(parts, call);
  if (isHeld(job, lease)) return { id: job.id, attempt: job.attempt };
  throw new PerdureError("lease_lost", `attempt ${lease.attempt} of ${job.id} is not held by this session any more`);
}

function isHeld(job: JobRow, { session, attempt }: { readonly session: string; readonly attempt: number }): boolean {
  return job.state === "running" && job.worker === session && job.attempt === attempt;
}

/** A job that was pruned is in nobody's hands. Whoever cannot reach the store does not know. */
function orNull(error: unknown): null {
  if (error instanceof PerdureError && error.code === "job_not_found") return null;
  throw error;
}
