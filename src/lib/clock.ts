/** Time is passed as an argument, so that tests can provide their own clock. The real one is in `system-clock.ts`. */

/** The event loop. Deferred work goes through the clock, so that a simulator can decide the order. */
export interface EventLoop {
  /** Calls in the next turn of the event loop, after everything that has arrived meanwhile. */
  turn(call: () => void): void;
  /** Calls after the running code has returned, before the next turn. */
  tick(call: () => void): void;
}

export interface Clock extends EventLoop {
  /** Wall time, milliseconds UTC. */
  now(): number;
  /** Never jumps; only differences are meaningful. */
  monotonic(): number;
  /** The value of `now` when the wall clock shows `at`, for a clock that may run ahead of it. Default: the same
   *  value. */
  fromWall?(at: number): number;
  /** Calls once after `ms`. Returns a function that cancels it. */
  after(ms: number, call: () => void, options?: TimerOptions): () => void;
}

export interface TimerOptions {
  /** Does not keep the process alive. */
  readonly background?: boolean;
  /** A periodic safety check that usually finds nothing. A virtual clock skips it if nothing has changed since the last
   *  one. */
  readonly recheck?: boolean;
}

/** Resolves in the next turn of the event loop, so that long work yields between steps. */
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
