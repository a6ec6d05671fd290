/** Accepts new connections before it starts requests. Node accepts one connection per turn of the event loop. Under load a turn
 *  takes as long as a disk flush, so that of 1,500 clients that connect at once the last would wait for ten seconds, before
 *  admission can refuse it. So while turns bring new connections, requests are held back, and these turns take microseconds.
 *  Held requests count as in progress, and are started in order.
 *
 *  A flood of connections is not cheap: it can take up to half of the time. */
import type { Clock } from "../lib/clock.ts";

/** The longest hold, in which a few thousand connections are accepted. Far below any lease. */
export const HOLD_MS = 500;
/** After a full hold, requests are not held again for this long. */
export const REST_MS = 500;
/** New connections in two turns in a row are normal. */
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
