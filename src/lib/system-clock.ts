/** The clock of the machine. */
import type { Clock } from "./clock.ts";

/** Node fires a timer of more than 2^31 ms at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, call, options) {
    let timer: ReturnType<typeof setTimeout>;
    const wait = (left: number) => {
      const step = Math.min(Math.max(left, 0), MAX_TIMER_MS);
      timer = setTimeout(() => (left > step ? wait(left - step) : call()), step);
      if (options?.background) timer.unref();
    };
    wait(ms);
    return () => clearTimeout(timer);
  },
};
