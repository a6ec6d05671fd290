/** Limits the steps of work per turn of the event loop, of all callers together. Others wait for the next turn, in turn by caller, so
 *  that a caller with many steps does not block the others, and requests are handled in between. */
import type { EventLoop } from "../lib/clock.ts";

export class TurnLimiter {
  readonly #perTurn: number;
  readonly #loop: Pick<EventLoop, "turn">;
  /** By caller, in the order of their turns. */
  readonly #queues = new Map<string, (() => void)[]>();
  #granted = 0;
  #isTurning = false;

  constructor(perTurn: number, loop: Pick<EventLoop, "turn">) {
    this.#perTurn = perTurn;
    this.#loop = loop;
  }

  /** Resolves when the caller may do a step. */
  pass(caller: string): Promise<void> {
    return new Promise((resolve) => {
      const queue = this.#queues.get(caller) ?? [];
      queue.push(resolve);
      this.#queues.set(caller, queue);
      this.#grant();
    });
  }

  #grant(): void {
    for (const [caller, queue] of this.#queues) {
      if (this.#granted >= this.#perTurn) break;
      this.#granted += 1;
      // Moves the caller to the end of the map, where this loop reaches it again.
      this.#queues.delete(caller);
      const resolve = queue.shift();
      if (queue.length > 0) this.#queues.set(caller, queue);
      resolve?.();
    }
    if (this.#isTurning || this.#granted === 0) return;
    this.#isTurning = true;
    this.#loop.turn(() => {
      this.#isTurning = false;
      this.#granted = 0;
      this.#grant();
    });
  }
}
