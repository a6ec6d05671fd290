/** The clock of a store that has its own (PostgreSQL), for all processes that share it. Hosts disagree about the time, and a
 *  lease that one of them wrote must not end early for another. The store's time is read now and then; in between the monotonic
 *  clock of this process counts, so that a jump of the wall clock has no effect. It does not order two events that are closer
 *  to each other than a round trip to the store. */
import type { Clock } from "../lib/clock.ts";
import type { Store } from "../store/store.ts";

const ASK_EVERY_MS = 5_000;
/** Clocks drift: the uncertainty of a measurement grows by this for each millisecond. */
const DRIFT = 0.0005;
/** After a smaller step back the clock stands still; a larger one is a jump of the server's clock, and is followed. */
const STAND_STILL_MS = 1_000;

export interface StoreClock {
  readonly clock: Clock;
  stop(): void;
}

/** `failed` is called when the store's time could not be read; the next read follows as usual. */
export async function storeClock(base: Clock, store: Store, failed: (error: unknown) => void): Promise<StoreClock> {
  const { serverTime } = store;
  if (serverTime === undefined) return { clock: base, stop: () => {} };
  let offset = 0;
  let doubt = Number.POSITIVE_INFINITY;
  let askedAt = 0;
  let last = Number.NEGATIVE_INFINITY;
  let stopped = false;
  let cancel = () => {};

  async function ask(): Promise<void> {
    const before = base.monotonic();
    const told = await (serverTime as () => Promise<number>)();
    const after = base.monotonic();
    const half = (after - before) / 2;
    const found = told - (before + half);
    const grown = doubt + (after - askedAt) * DRIFT;
    // A slow answer is imprecise: it counts only if it contradicts the present estimate.
    if (half <= grown || Math.abs(found - offset) > half + grown) {
      offset = found;
      doubt = half;
      askedAt = after;
    }
  }

  function askLater(): void {
    cancel = base.after(
      ASK_EVERY_MS,
      () => {
        ask()
          .catch((error: unknown) => {
            if (!stopped) failed(error);
          })
          .finally(() => {
            if (!stopped) askLater();
          });
      },
      { background: true },
    );
  }

  // The first answer includes the time to connect, which would shift the estimate.
  await serverTime();
  for (let i = 0; i < 3; i++) await ask();
  askLater();
  const clock: Clock = {
    now() {
      const now = Math.round(base.monotonic() + offset);
      last = now < last && last - now < STAND_STILL_MS ? last : now;
      return last;
    },
    monotonic: () => base.monotonic(),
    after: (ms, call, options) => base.after(ms, call, options),
    turn: (call) => base.turn(call),
    tick: (call) => base.tick(call),
  };
  return {
    clock,
    stop() {
      stopped = true;
      cancel();
    },
  };
}
