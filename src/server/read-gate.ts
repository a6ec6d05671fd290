/** Limits concurrent searches, counts and lists. Others wait, in turn by caller, so that a caller with many requests does not block
 *  all others. After a short wait they are refused. */
import { PerdureError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";

export interface ReadLimits {
  readonly atOnce: number;
  /** Waiting reads of one caller, and of all. */
  readonly maxWaitingOfOne: number;
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

interface WaitingRead {
  grant(): void;
}

export class ReadGate {
  readonly #limits: ReadLimits;
  readonly #clock: Clock;
  /** By caller, in the order of their turns. */
  readonly #queues = new Map<string, WaitingRead[]>();
  #inProgress = 0;
  #waiting = 0;

  constructor(limits: ReadLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Resolves when it is the caller's turn, with a function to be called at the end of the read; or throws `overloaded`. */
  async enter(caller: string): Promise<() => void> {
    if (this.#inProgress < this.#limits.atOnce) this.#inProgress += 1;
    else await this.#turn(caller);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#next();
    };
  }

  #turn(caller: string): Promise<void> {
    const { maxWaiting, maxWaitingOfOne, maxWaitMs } = this.#limits;
    const queue = this.#queues.get(caller) ?? [];
    if (this.#waiting >= maxWaiting || queue.length >= maxWaitingOfOne) throw refused("too many waiting reads");
    this.#queues.set(caller, queue);
    this.#waiting += 1;
    return new Promise((resolve, reject) => {
      const waiting: WaitingRead = {
        grant: () => {
          cancel();
          resolve();
        },
      };
      const cancel = this.#clock.after(
        maxWaitMs,
        () => {
          queue.splice(queue.indexOf(waiting), 1);
          if (queue.length === 0) this.#queues.delete(caller);
          this.#waiting -= 1;
          reject(refused("the read waited too long"));
        },
        { background: true },
      );
      queue.push(waiting);
    });
  }

  /** Starts the oldest read of the next caller, and moves that caller to the end. */
  #next(): void {
    const [first] = this.#queues;
    if (first === undefined) {
      this.#inProgress -= 1;
      return;
    }
    const [caller, queue] = first;
    const waiting = queue.shift() as WaitingRead;
    this.#queues.delete(caller);
    if (queue.length > 0) this.#queues.set(caller, queue);
    this.#waiting -= 1;
    waiting.grant();
  }
}

function refused(why: string): PerdureError {
  return new PerdureError("overloaded", why);
}
