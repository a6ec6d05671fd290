/** Data of the engine's own events: tokens, workers and prunes. Never a token or its hash. Events without a namespace
 *  are shown only to those who may read all namespaces. */
import type { AccessToken } from "../core/access.ts";
import type { NewSession } from "../core/worker-protocol.ts";
import type { PrunedState } from "./prune-places.ts";

// What the engine's events of tokens say: who made or revoked which one, never the token or its hash. One for all
// namespaces names none, and is seen by those who may see all.

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

// What the engine's events of workers say. All of them name the namespace: by it they are found.

export function startedWorker({ id, name, kinds, namespace }: NewSession) {
  return { v: 1, session: id, worker: name, kinds, namespace };
}

export function endedWorker(session: string, namespace: string, why: "stopped" | "gone") {
  return { v: 1, session, why, namespace };
}

// The engine's event of a prune that somebody asked for: one for each transaction that deleted jobs, so that none is
// deleted without it. It names no namespace: a prune is of all, and seen by those who may see all.

export const JOBS_PRUNED = "jobs.pruned";

export function jobsPruned(by: string, state: PrunedState, jobs: number) {
  return { v: 1, by, state, jobs };
}
