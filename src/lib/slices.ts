/** Long work in slices of bounded time: whoever does it asks after each step whether the slice is over, and then lets the
 *  event loop turn, so that nobody else waits for longer than a slice and one step. */
import { type Clock, nextTurn } from "./clock.ts";

/** Short enough that a renewal between two slices is not late, long enough that turns cost next to nothing. */
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

  /** Begins the next slice in another turn of the event loop. */
  async next(): Promise<void> {
    await nextTurn(this.#clock);
    this.#from = this.#clock.monotonic();
  }
}
