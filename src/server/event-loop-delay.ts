/** How far the event loop is behind: how long a request that came in the last second or two had to wait for its turn, on
 *  average. A timer says how long each turn was. Within a turn of T milliseconds a request waits T/2 on average, so one turn
 *  of 200 ms in a second is nothing, and turns of a second one after the other are half a second. A turn that is still
 *  under way counts: whoever asks right after a long one knows. */
import type { Clock } from "../lib/clock.ts";

const TICK_MS = 50;
/** What happened so long ago counts about a third. */
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
