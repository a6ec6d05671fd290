/** New connections before requests. Node accepts one connection in a turn of the event loop. Under load a turn takes as long as
 *  a flush of the disk, so that of 1,500 clients that connect at once the last would wait for ten seconds, unseen by
 *  admission, which could have refused it at once. While turns bring new connections, requests are therefore held back:
 *  such turns take microseconds. Held requests count as in progress, and are started in their order.
 *
 *  What it does not do: make a flood of connections cheap. It takes half of the time at most. */
import type { Clock } from "../lib/clock.ts";

/** A few thousand connections are accepted within this time. No lease notices it. */
export const HOLD_MS = 500;
/** Requests are not held again for as long. */
export const REST_MS = 500;
/** One new connection, and the next one a turn later, is usual. */
const BURST_TURNS = 3;

export class ConnectionPriority {
  readonly #clock: Pick<Clock, "monotonic" | "turn">;
  #held: (() => void)[] = [];
  #hasAccepted = false;
  #isWatching = false;
  /** Turns in a row that brought a connection. */
  #turns = 0;
  #holdsSince: number | null = null;
  #restsUntil = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonic" | "turn">) {
    this.#clock = clock;
  }

  accepted(): void {
    this.#hasAccepted = true;
    if (this.#isWatching) return;
    this.#isWatching = true;
    this.#clock.turn(() => this.#turnIsOver());
  }

  /** Starts a request now, or when the burst of connections is over. */
  take(start: () => void): void {
    if (this.#holdsSince === null) start();
    else this.#held.push(start);
  }

  #turnIsOver(): void {
    if (!this.#hasAccepted) {
      this.#isWatching = false;
      this.#turns = 0;
      this.#release();
      return;
    }
    this.#hasAccepted = false;
    this.#turns += 1;
    const now = this.#clock.monotonic();
    if (this.#holdsSince !== null && now - this.#holdsSince >= HOLD_MS) {
      this.#restsUntil = now + REST_MS;
      this.#release();
    } else if (this.#holdsSince === null && this.#turns >= BURST_TURNS && now >= this.#restsUntil) {
      this.#holdsSince = now;
    }
    this.#clock.turn(() => this.#turnIsOver());
  }

  #release(): void {
    this.#holdsSince = null;
    const held = this.#held;
    this.#held = [];
    for (const start of held) start();
  }
}
