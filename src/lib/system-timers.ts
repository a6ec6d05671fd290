/** System time and timers, without Node APIs. */
import type { Clock, EventLoop } from "./clock.ts";

/** Longer timers fire at once, in Node and in browsers. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemTimers: Omit<Clock, keyof EventLoop> = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, call, options) {
    let timer: ReturnType<typeof setTimeout>;
    const wait = (left: number) => {
      const step = Math.min(Math.max(left, 0), MAX_TIMER_MS);
      timer = setTimeout(() => (left > step ? wait(left - step) : call()), step);
      if (options?.background) timer.unref?.();
    };
    wait(ms);
    return () => clearTimeout(timer);
  },
};
