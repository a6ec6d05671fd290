/** Progress of a round of pruning. A round takes several calls, each of which checks a bounded number of jobs: those
 *  that must stay, such as children of a live parent, may be hundreds of thousands, and the check blocks all other
 *  writes. So each call continues where the last one stopped. This state only saves time: a job that was skipped
 *  because its deletion was rolled back or it was locked is found by the next round. */
import type { PruneQuery } from "./store.ts";

export type PrunedState = keyof PruneQuery["endedBefore"];
export const PRUNED_STATES = ["succeeded", "failed", "cancelled"] as const satisfies readonly PrunedState[];

export const PAGE = 500;
/** Pages of all states together in one call. */
export const MAX_PAGES = 8;
/** One per engine; abandoned rounds are evicted in turn. */
const MAX_ROUNDS = 16;

export class PrunePlaces {
  readonly #rounds = new Map<string, PruneRound>();

  /** The round that this call belongs to: all its calls have the same query and time. */
  of({ now, endedBefore }: PruneQuery): PruneRound {
    const name = JSON.stringify([now, endedBefore]);
    const round = this.#rounds.get(name) ?? new PruneRound(endedBefore, () => this.#rounds.delete(name));
    this.#rounds.set(name, round);
    const [oldest] = this.#rounds.keys();
    if (this.#rounds.size > MAX_ROUNDS && oldest !== undefined) this.#rounds.delete(oldest);
    return round;
  }
}

export class PruneRound {
  /** The number of the last checked job per state; a missing state is done. */
  readonly #after = new Map<PrunedState, number>();
  readonly #forget: () => void;
  #pages = 0;

  constructor(endedBefore: PruneQuery["endedBefore"], forget: () => void) {
    for (const state of PRUNED_STATES) if (endedBefore[state] !== undefined) this.#after.set(state, 0);
    this.#forget = forget;
  }

  /** Begins a call. */
  begin(): void {
    this.#pages = 0;
  }

  /** Where to continue; null if the state is done, or this call has checked enough. */
  after(state: PrunedState): number | null {
    return this.#pages >= MAX_PAGES ? null : (this.#after.get(state) ?? null);
  }

  scanned(state: PrunedState, upTo: number): void {
    this.#after.set(state, upTo);
    this.#pages += 1;
  }

  done(state: PrunedState): void {
    this.#after.delete(state);
  }

  /** Ends a call; returns whether there may be more. */
  end(): boolean {
    if (this.#after.size > 0) return true;
    this.#forget();
    return false;
  }
}
