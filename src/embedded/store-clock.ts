/** One clock for all who share a store with a clock of its own. Hosts disagree about the time, and a lease that one of them
 *  wrote must not end early for another: everybody goes by the store's. It is asked now and then; in between
 *  our monotonic clock counts, so that a jump of this machine's wall clock means nothing. What it does not do: order two
 *  events closer to each other than a round trip to the store. */
import type { Clock } from "../lib/clock.ts";
import type { Store } from "../store/store.ts";

const ASK_EVERY_MS = 5_000;
/** Clocks drift: what was measured long ago is trusted less, by so much a millisecond. */
const DRIFT = 0.0005;
/** Smaller steps back are stood out; a larger one is a jump of the server's clock, and is told as it is. */
const STAND_STILL_MS = 1_000;

export interface StoreClock {
  readonly clock: Clock;
  stop(): void;
}

/** `failed` is called when the store could not be asked; it is asked again all the same. */
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
    // A slow answer says little: it counts only if it cannot be explained by what is known.
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

  // The first answer pays for the connection, and would tell the end of that as its middle.
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
