/** Turns of the event loop, captured when this module is loaded so that faked timers do not stop a store; and long
 *  work in slices of bounded time. */
import type { Clock } from "./clock.ts";

// Turns of the event loop as they were when this module was loaded: a test that fakes timers afterwards (Vitest,
// Jest, sinon) does not stop a store that is in use.

/** Calls in the next turn of the event loop. */
export const inNextTurn: (call: () => void) => void = setImmediate;

/** Calls when the code that runs now has returned, before anything else. */
export const inNextTick: (call: () => void) => void = process.nextTick;

/** Resolves in the next turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => inNextTurn(resolve));
}

// Long work in slices of bounded time: whoever does it asks after each step whether the slice is over, and then lets
// the event loop turn, so that nobody else waits for longer than a slice and one step.

/** Short enough that a renewal between two slices is not late, long enough that turns cost next to nothing. */
const SLICE_MS = 10;

export class Slices {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #turn: () => Promise<void>;
  #from: number;

  constructor(clock: Pick<Clock, "monotonic">, turn: () => Promise<void> = nextTurn) {
    this.#clock = clock;
    this.#turn = turn;
    this.#from = clock.monotonic();
  }

  get isOver(): boolean {
    return this.#clock.monotonic() - this.#from >= SLICE_MS;
  }

  /** Begins the next slice in another turn of the event loop. */
  async next(): Promise<void> {
    await this.#turn();
    this.#from = this.#clock.monotonic();
  }
}
