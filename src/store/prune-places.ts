/** How far a round of pruning has come. A round is several calls, each of which looks at a bounded number of jobs: those that
 *  must stay, such as the children of a parent that has not ended, may be hundreds of thousands, and nobody else writes while
 *  they are looked at. So a call goes on where the one before it stopped. What is kept here is a matter of speed only: a job
 *  that was passed over, since its deletion was undone or it was locked, is found by the next round. */
import type { PruneQuery } from "./store.ts";

export type PrunedState = keyof PruneQuery["endedBefore"];
export const PRUNED_STATES = ["succeeded", "failed", "cancelled"] as const satisfies readonly PrunedState[];

export const PAGE = 500;
/** Of all states together, in one call. */
export const MAX_PAGES = 8;
/** Each engine has one; those that were given up are forgotten in turn. */
const MAX_ROUNDS = 16;

export class PrunePlaces {
  readonly #rounds = new Map<string, PruneRound>();

  /** The round that this call belongs to: all its calls ask for the same at the same instant. */
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
  /** The number of the last job that was looked at; a state that is not here is done. */
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

  /** After which job to go on; null if the state is done, or this call has looked at enough. */
  after(state: PrunedState): number | null {
    return this.#pages >= MAX_PAGES ? null : (this.#after.get(state) ?? null);
  }

  lookedAt(state: PrunedState, upTo: number): void {
    this.#after.set(state, upTo);
    this.#pages += 1;
  }

  done(state: PrunedState): void {
    this.#after.delete(state);
  }

  /** Ends a call: whether there may be more. */
  end(): boolean {
    if (this.#after.size > 0) return true;
    this.#forget();
    return false;
  }
}
