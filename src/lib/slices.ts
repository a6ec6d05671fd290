/** Splits long work into slices of bounded time: after each step the worker checks whether the slice is over and then
 *  yields to the event loop, so that other work waits at most one slice and one step. */
import { type Clock, nextTurn } from "./clock.ts";

/** Short enough that a renewal between two slices is not late, long enough that yielding costs almost nothing. */
const SLICE_MS = 10;

export class Slices {
  readonly #clock: Pick<Clock, "monotonic" | "turn">;
  #from: number;

  constructor(clock: Pick<Clock, "monotonic" | "turn">) {
    this.#clock = clock;
    this.#from = clock.monotonic();
  }

  get isOver(): boolean {
    return this.#clock.monotonic() - this.#from >= SLICE_MS;
  }

  /** Starts the next slice in another turn of the event loop. */
  async next(): Promise<void> {
    await nextTurn(this.#clock);
    this.#from = this.#clock.monotonic();
  }
}
