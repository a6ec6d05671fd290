/** How many searches, counts and lists are made at a time. The others wait for their turn, callers one after the other, so
 *  that one with many clients does not keep all others waiting; and not for long: then they are refused. */
import { PerdureError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";

export interface ReadLimits {
  readonly atOnce: number;
  /** Of one caller, and of all. */
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
  #underWay = 0;
  #waiting = 0;

  constructor(limits: ReadLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Resolves when it is the caller's turn, with what is to be called when the read is over; or throws. */
  async enter(caller: string): Promise<() => void> {
    if (this.#underWay < this.#limits.atOnce) this.#underWay += 1;
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
    if (this.#waiting >= maxWaiting || queue.length >= maxWaitingOfOne) throw refused("too many reads wait");
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
          reject(refused("a read has waited too long for its turn"));
        },
        { background: true },
      );
      queue.push(waiting);
    });
  }

  /** The longest-waiting read of the caller whose turn it is; the caller goes to the end of the line. */
  #next(): void {
    const [first] = this.#queues;
    if (first === undefined) {
      this.#underWay -= 1;
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
