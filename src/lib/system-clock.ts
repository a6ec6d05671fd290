/** The clock of the machine, with the turns of the event loop as they were when this module was loaded: a test that fakes
 *  timers afterwards (Vitest, Jest, sinon) does not stop a store that is in use. */
import type { Clock, EventLoop } from "./clock.ts";

/** Node fires a timer of more than 2^31 ms at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemLoop: EventLoop = { turn: setImmediate, tick: process.nextTick };

export const systemClock: Clock = {
  ...systemLoop,
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
