/** Data of the engine's own events: tokens, workers and prunes. Never a token or its hash. Events without a namespace
 *  are shown only to callers that may read all namespaces. */
import type { AccessToken } from "../core/access.ts";
import type { NewSession } from "../core/worker-protocol.ts";
import type { PrunedState } from "./prune-places.ts";

// Who created or revoked which token. An event of a token for all namespaces has no namespace.

export const TOKEN_CREATED = "token.created";
export const TOKEN_REVOKED = "token.revoked";

export function createdToken({ id, name, scopes, namespace, expiresAt }: AccessToken, by: string | null) {
  return { v: 1, token: id, name, scopes, expiresAt, by, ...(namespace === null ? {} : { namespace }) };
}

export function revokedToken(
  { id, name, namespace }: Pick<AccessToken, "id" | "name" | "namespace">,
  by: string | null,
) {
  return { v: 1, token: id, name, by, ...(namespace === null ? {} : { namespace }) };
}

// Events of workers. They always have a namespace, by which they are found.

export function startedWorker({ id, name, kinds, namespace }: NewSession) {
  return { v: 1, session: id, worker: name, kinds, namespace };
}

export function endedWorker(session: string, namespace: string, why: "stopped" | "gone") {
  return { v: 1, session, why, namespace };
}

// A prune requested by a person: one event per transaction that deletes jobs. A prune covers all namespaces, so it has
// none.

export const JOBS_PRUNED = "jobs.pruned";

export function jobsPruned(by: string, state: PrunedState, jobs: number) {
  return { v: 1, by, state, jobs };
}
