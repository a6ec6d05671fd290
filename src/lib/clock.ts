/** Time as an argument: whoever needs it gets a clock, so that tests can bring their own. The real one is in
 *  `system-clock.ts`. */

/** The event loop. Whoever puts work off to a later turn asks the clock, so that a simulator can decide the order. */
export interface EventLoop {
  /** Calls in the next turn of the event loop, after whatever has arrived meanwhile. */
  turn(call: () => void): void;
  /** Calls when the code that runs now has returned, before the next turn. */
  tick(call: () => void): void;
}

export interface Clock extends EventLoop {
  /** Wall time, milliseconds UTC. */
  now(): number;
  /** Never jumps; only differences mean anything. */
  monotonic(): number;
  /** The instant of `now` at which the wall clock shows `at`, for a clock that may run ahead of it. Left out: the same one. */
  fromWall?(at: number): number;
  /** Calls once after `ms`. Returns the way to cancel it. */
  after(ms: number, call: () => void, options?: TimerOptions): () => void;
}

export interface TimerOptions {
  /** Does not keep the process alive. */
  readonly background?: boolean;
  /** A check that is repeated to be sure, although nothing may have changed. A virtual clock skips it while nothing has
   *  changed since it was last made. */
  readonly recheck?: boolean;
}

/** Resolves in the next turn of the event loop: between two steps of long work, others have their turn. */
export function nextTurn(loop: Pick<EventLoop, "turn">): Promise<void> {
  return new Promise((resolve) => loop.turn(resolve));
}

/** Resolves after `ms`, or at once when the signal aborts. */
export function sleep(
  clock: Pick<Clock, "after">,
  ms: number,
  options?: { signal?: AbortSignal; background?: boolean },
): Promise<void> {
  const { signal, background = false } = options ?? {};
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(ms, done, { background });
    signal?.addEventListener("abort", done);
  });
}
