/** Which arcs a run took, from its events: of each step the routes of its visits, the latest last. */
import type { JobEvent } from "../job/event.ts";

export interface TakenRoute {
  /** The row of the step that ended. */
  readonly n: number;
  /** Indices of arcs. */
  readonly taken: readonly number[];
  /** Conditions that could not be evaluated, by the index of the arc. */
  readonly errors: Readonly<Record<string, string>>;
}

/** By the index of the step, the latest visit only. */
export function latestRoutes(events: readonly JobEvent[]): ReadonlyMap<number, TakenRoute> {
  const routes = new Map<number, TakenRoute>();
  for (const event of events) {
    if (event.name !== "run.advanced") continue;
    for (const change of event.data.changes) {
      if (change.do !== "route") continue;
      routes.set(change.step, { n: change.n, taken: change.taken, errors: change.errors ?? {} });
    }
  }
  return routes;
}
