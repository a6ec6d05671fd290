/** The delay of the event loop: how long requests of the last second or two had to wait on average. A timer measures the length of
 *  each turn. In a turn of T milliseconds a request waits T/2 on average, so one turn of 200 ms in a second hardly counts, and
 *  turns of one second in a row are a delay of half a second. The current turn counts too. */
import type { Clock } from "../lib/clock.ts";

const TICK_MS = 50;
/** A turn this long ago counts about a third. */
const MEMORY_MS = 1_000;

export class EventLoopDelay {
  readonly #clock: Clock;
  #level = 0;
  #tickedAt = 0;
  #isOn = false;
  #cancel: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get ms(): number {
    return this.#isOn ? this.#levelAt(this.#clock.monotonic()) : 0;
  }

  start(): void {
    this.#isOn = true;
    this.#tickedAt = this.#clock.monotonic();
    this.#level = 0;
    this.#next();
  }

  stop(): void {
    this.#isOn = false;
    this.#cancel();
  }

  #next(): void {
    this.#cancel = this.#clock.after(TICK_MS, () => this.#tick(), { background: true });
  }

  #tick(): void {
    const now = this.#clock.monotonic();
    this.#level = this.#levelAt(now);
    this.#tickedAt = now;
    this.#next();
  }

  #levelAt(now: number): number {
    const elapsed = now - this.#tickedAt;
    if (elapsed <= 0) return this.#level;
    const late = Math.max(0, elapsed - TICK_MS);
    const kept = Math.exp(-elapsed / MEMORY_MS);
    return this.#level * kept + ((late * late) / (2 * elapsed)) * (1 - kept);
  }
}
