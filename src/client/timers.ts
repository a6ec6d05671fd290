/** Waiting, for a client: pauses on the real clock, and turns where only a few calls may be made at a time. */

// Waiting, for a client: nothing here keeps time that others could see, so the real clock will do.

/** The longest time that a timer of JavaScript can be set to; one that is set to more rings at once. */
const LONGEST = 2 ** 31 - 1;

/** Calls once after `ms`, however long that is. Returns the way to cancel it. */
export function after(ms: number, call: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>;
  const set = (left: number) => {
    timer = setTimeout(() => (left > LONGEST ? set(left - LONGEST) : call()), Math.min(left, LONGEST));
  };
  set(ms);
  return () => clearTimeout(timer);
}

/** Resolves after `ms`, or at once when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = after(ms, done);
    signal?.addEventListener("abort", done);
  });
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** The pause after the n-th failure in a row, from 0: it doubles, and half of it is chance, so that the clients of a
 *  server that comes back do not all call in the same moment. */
export function growingPause(failures: number, random: () => number = Math.random): number {
  const full = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 20));
  return full / 2 + (full / 2) * random();
}

/** How many may do something at a time; the others wait for their turn, in order. */
export class CallLimiter {
  #free: number;
  #waiting: (() => void)[] = [];

  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  async run<T>(call: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await call();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
