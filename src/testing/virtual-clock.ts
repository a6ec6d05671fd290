/** A clock that stands still until it is moved. Timers fire in order, each at its time. */
import { type Duration, toMs } from "../core/duration.ts";
import type { Clock, TimerOptions } from "../lib/clock.ts";
import { systemLoop } from "../lib/system-clock.ts";

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly call: () => void;
  readonly recheck: boolean;
  /** A check so frequent that it may as well run early. */
  readonly isFrequent: boolean;
  /** The value of `changes` when the timer was set. */
  readonly changes: number;
  cancelled: boolean;
}

/** 2030-01-01: far from any real clock, so that a leak of real time into a test shows.
 *  @example
 *  expect(kit.clock.now() - VIRTUAL_START).toBe(3_600_000); */
export const VIRTUAL_START = Date.UTC(2030, 0, 1);

/** Claims, beats and sweeps of an engine are at most this far apart; it prunes each minute. */
const FREQUENT_MS = 5_000;

/** A clock that stands still until it is moved. Timers fire in order, each at its time.
 *  @example
 *  const clock = new VirtualClock();
 *  clock.after(1_000, () => console.log("a second"));
 *  clock.moveTo(clock.now() + 1_000); */
export class VirtualClock implements Clock {
  #now: number;
  #order = 0;
  #changes = 0;
  /** In the order in which they fire. */
  #timers: Timer[] = [];

  constructor(start: number = VIRTUAL_START) {
    this.#now = start;
  }

  readonly now = (): number => this.#now;
  readonly monotonic = (): number => this.#now;
  /** The event loop is the real one. */
  readonly turn = systemLoop.turn;
  readonly tick = systemLoop.tick;

  after(ms: number, call: () => void, options?: TimerOptions): () => void {
    this.#order += 1;
    const recheck = options?.recheck ?? false;
    const at = this.#now + Math.max(0, ms);
    const isFrequent = recheck && ms <= FREQUENT_MS;
    const [order, changes] = [this.#order, this.#changes];
    const timer: Timer = { at, order, call, recheck, isFrequent, changes, cancelled: false };
    this.#timers.splice(this.#placeAfter(at), 0, timer);
    return () => {
      timer.cancelled = true;
      const place = this.#timers.indexOf(timer);
      if (place !== -1) this.#timers.splice(place, 1);
    };
  }

  /** For handlers under test: resolves when the clock has moved by this much, and rejects when the signal aborts. */
  sleep(duration: Duration, signal?: AbortSignal): Promise<void> {
    const ms = toMs(duration, "sleep");
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const stop = () => {
        cancel();
        reject(signal?.reason);
      };
      const cancel = this.after(ms, () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      });
      signal?.addEventListener("abort", stop, { once: true });
    });
  }

  /** When the next timer fires; null without one. */
  nextAt(): number | null {
    return this.#timers[0]?.at ?? null;
  }

  /** Moves to `at` and fires every timer that is due, once. */
  moveTo(at: number): void {
    if (at > this.#now) this.#now = at;
    this.#fire((timer) => timer.at <= this.#now);
  }

  // For the test engine, which skips checks that cannot find anything.

  /** Timers that have not fired. */
  get pending(): number {
    return this.#timers.length;
  }

  /** Something changed that a repeated check may find. */
  changed(): void {
    this.#changes += 1;
  }

  /** When the next timer fires that is not a needless check; null without one. */
  nextNeededAt(): number | null {
    return this.#timers.find((timer) => this.#isNeeded(timer))?.at ?? null;
  }

  /** Moves to `at` and fires due timers once, without needless checks: they stay due. The first necessary check also
   *  fires all other frequent ones: a check may always run early, and together they cost one step. */
  stepTo(at: number): void {
    if (at > this.#now) this.#now = at;
    const isCheck = this.#timers.some((timer) => timer.at <= this.#now && timer.recheck && this.#isNeeded(timer));
    this.#fire((timer) => this.#isNeeded(timer) && (timer.at <= this.#now || (isCheck && timer.isFrequent)));
  }

  /** Like `stepTo`, and fires all frequent checks, due or not: something becomes due now, and they find it. */
  stepAndCheck(at: number): void {
    if (at > this.#now) this.#now = at;
    this.#changes += 1;
    this.#fire((timer) => timer.at <= this.#now || timer.isFrequent);
  }

  #isNeeded({ recheck, changes }: Timer): boolean {
    return !recheck || changes !== this.#changes;
  }

  #fire(which: (timer: Timer) => boolean): void {
    const due = this.#timers.filter(which);
    if (due.length === 0) return;
    this.#timers = this.#timers.filter((timer) => !which(timer));
    for (const timer of due) if (!timer.cancelled) timer.call();
  }

  /** After all timers of this time and earlier ones. */
  #placeAfter(at: number): number {
    let [low, high] = [0, this.#timers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#timers[middle] as Timer).at <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
