/** So many steps of work in one turn of the event loop, for all callers together. The others wait for the next turn, callers one
 *  after the other: whoever has many steps to make keeps nobody else waiting, and requests come between any two turns. */
import type { EventLoop } from "../lib/clock.ts";

export class TurnLimiter {
  readonly #perTurn: number;
  readonly #loop: Pick<EventLoop, "turn">;
  /** By caller, in the order of their turns. */
  readonly #queues = new Map<string, (() => void)[]>();
  #given = 0;
  #isTurning = false;

  constructor(perTurn: number, loop: Pick<EventLoop, "turn">) {
    this.#perTurn = perTurn;
    this.#loop = loop;
  }

  /** Resolves when the caller may make a step. */
  pass(caller: string): Promise<void> {
    return new Promise((resolve) => {
      const queue = this.#queues.get(caller) ?? [];
      queue.push(resolve);
      this.#queues.set(caller, queue);
      this.#give();
    });
  }

  #give(): void {
    for (const [caller, queue] of this.#queues) {
      if (this.#given >= this.#perTurn) break;
      this.#given += 1;
      // To the end of the line, where this loop comes to it again.
      this.#queues.delete(caller);
      const resolve = queue.shift();
      if (queue.length > 0) this.#queues.set(caller, queue);
      resolve?.();
    }
    if (this.#isTurning || this.#given === 0) return;
    this.#isTurning = true;
    this.#loop.turn(() => {
      this.#isTurning = false;
      this.#given = 0;
      this.#give();
    });
  }
}
