/** What only the events of a run still have once its steps have ended: which arcs were taken, and how the items of loops ended. */
import type { JobEvent } from "../job/event.ts";
import type { RunChange } from "./run.ts";

export interface RunHistory {
  /** By the index of the step, of its latest visit. */
  readonly routes: ReadonlyMap<number, TakenRoute>;
  /** By the row of the loop. */
  readonly loops: ReadonlyMap<number, LoopCounts>;
}

export interface TakenRoute {
  /** The row of the step that ended. */
  readonly n: number;
  /** Indices of arcs. */
  readonly taken: readonly number[];
  /** Conditions that could not be evaluated, by the index of the arc. */
  readonly errors: Readonly<Record<string, string>>;
}

/** Of items. */
export interface LoopCounts {
  readonly total: number;
  readonly open: number;
  readonly succeeded: number;
  /** Or were cancelled. */
  readonly failed: number;
}

/** From the events of the run's job; others are skipped. */
export function readRunHistory(events: readonly JobEvent[]): RunHistory {
  const routes = new Map<number, TakenRoute>();
  const loops = new LoopCounter();
  for (const event of events) {
    if (event.name !== "run.advanced") continue;
    for (const change of event.data.changes) {
      if (change.do === "route") {
        routes.set(change.step, { n: change.n, taken: change.taken, errors: change.errors ?? {} });
      } else loops.count(change);
    }
  }
  return { routes, loops: loops.counts };
}

class LoopCounter {
  readonly counts = new Map<number, { total: number; open: number; succeeded: number; failed: number }>();
  /** The latest loop row of a visit, as items name only their visit. */
  readonly #rows = new Map<string, number>();

  count(change: RunChange): void {
    if (change.do === "start" && change.items !== undefined) {
      this.#rows.set(`${change.step}:${change.visit}`, change.n);
      this.counts.set(change.n, { total: change.items, open: 0, succeeded: 0, failed: 0 });
    }
    if (change.do !== "start" && change.do !== "end" && change.do !== "reloop") return;
    const loop = this.counts.get(this.#rows.get(`${change.step}:${change.visit}`) ?? 0);
    if (loop === undefined) return;
    if (change.do === "reloop") loop.failed -= change.items.length;
    else if (change.item === undefined) return;
    else if (change.do === "start") loop.open += 1;
    else {
      loop.open -= 1;
      if (change.state === "succeeded") loop.succeeded += 1;
      else loop.failed += 1;
    }
  }
}
