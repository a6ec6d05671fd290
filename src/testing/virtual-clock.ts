/** A clock that stands still until it is moved. Timers fire in the order of their instants, at their instants. */
import type { Clock } from "../lib/clock.ts";

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly call: () => void;
  cancelled: boolean;
}

/** 2030-01-01: far from any real clock, so that a leak of real time into a test shows. */
export const VIRTUAL_START = Date.UTC(2030, 0, 1);

export class VirtualClock implements Clock {
  #now: number;
  #order = 0;
  #timers: Timer[] = [];

  constructor(start: number = VIRTUAL_START) {
    this.#now = start;
  }

  readonly now = (): number => this.#now;
  readonly monotonic = (): number => this.#now;

  after(ms: number, call: () => void): () => void {
    this.#order += 1;
    const timer: Timer = { at: this.#now + Math.max(0, ms), order: this.#order, call, cancelled: false };
    const place = this.#timers.findIndex((other) => other.at > timer.at);
    this.#timers.splice(place === -1 ? this.#timers.length : place, 0, timer);
    return () => {
      timer.cancelled = true;
      const at = this.#timers.indexOf(timer);
      if (at !== -1) this.#timers.splice(at, 1);
    };
  }

  /** When the next timer fires; null without one. */
  nextAt(): number | null {
    return this.#timers[0]?.at ?? null;
  }

  /** Moves to `at` and fires what is due by then, once. */
  moveTo(at: number): void {
    if (at > this.#now) this.#now = at;
    const due = this.#timers.filter((timer) => timer.at <= this.#now);
    this.#timers = this.#timers.filter((timer) => timer.at > this.#now);
    for (const timer of due) if (!timer.cancelled) timer.call();
  }
}
