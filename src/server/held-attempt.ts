/** The job and the attempt of it that a caller's session holds at this moment. What it does when it has lost it is checked
 *  again behind this, or lies under a number that nobody else has: a loss right after this check does no harm. */
import { HEADER } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import type { JobRow } from "../store/store.ts";
import { jobOf } from "./job-of.ts";
import type { Call, ServerParts } from "./parts.ts";
import { isSessionKey, readLease, sessionOf } from "./session-key.ts";

export async function heldAttempt(parts: ServerParts, call: Call): Promise<Pick<JobRow, "id" | "attempt">> {
  const session = sessionOf(parts, call);
  const lease = readLease(String(call.request.headers[HEADER.lease] ?? ""));
  const job = await jobOf(parts, call).catch(orNull);
  if (job !== null && lease !== null && lease.session === session && isHeld(job, lease)) {
    return { id: job.id, attempt: job.attempt };
  }
  const message = `the attempt is not in the hands of this session; its lease goes into the header ${HEADER.lease}`;
  throw new PerdureError("lease_lost", message);
}

/** The same for a route that does not name the session: the lease names it, and the key proves it. */
export async function leasedAttempt(parts: ServerParts, call: Call): Promise<Pick<JobRow, "id" | "attempt">> {
  const lease = readLease(String(call.request.headers[HEADER.lease] ?? ""));
  if (lease === null || !isSessionKey(parts, call, lease.session)) {
    const message = `this needs the job's own token, or the headers ${HEADER.sessionKey} and ${HEADER.lease} of the session that runs it`;
    throw new PerdureError("forbidden", message);
  }
  const job = await jobOf(parts, call);
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
