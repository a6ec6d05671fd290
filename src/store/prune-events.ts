/** The engine's event of a prune that somebody asked for: one for each transaction that deleted jobs, so that none is deleted
 *  without it. It names no namespace: a prune is of all, and seen by those who may see all. */
import type { PrunedState } from "./prune-places.ts";

export const JOBS_PRUNED = "jobs.pruned";

export function jobsPruned(by: string, state: PrunedState, jobs: number) {
  return { v: 1, by, state, jobs };
}
