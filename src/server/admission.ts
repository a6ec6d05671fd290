/** Who is let in while the server is busy. Requests are refused with 503 before they take memory, not after. Workers have
 *  a share of their own, so that a flood of submits or reads costs no lease. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { PerdureError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";

/** caller: submits and reads, which can come again later. worker: what keeps leases alive and brings work home. held and
 *  waiting: requests that wait for something, of callers and of workers. operator: always let in. */
export type Share = "caller" | "worker" | "held" | "waiting" | "operator";

export interface AdmissionLimits {
  /** Bytes of the bodies in hand. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  /** Of callers, and of workers. */
  readonly maxHeld: number;
  readonly maxWaiting: number;
  /** How far the event loop may be behind. */
  readonly maxLagMs: number;
}

export const ADMISSION: AdmissionLimits = {
  maxBytes: 128 * 1024 * 1024,
  maxRequests: 2_000,
  maxHeld: 1_000,
  maxWaiting: 5_000,
  maxLagMs: 1_000,
};

/** Of a request that was let in. */
export interface Ticket {
  /** The body has been read, and has so many bytes: of one whose length was not told, the most was assumed. */
  read(bytes: number): void;
  leave(): void;
}

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #lagMs: () => number;
  readonly #inHand: Record<Share, { requests: number; bytes: number }> = {
    caller: { requests: 0, bytes: 0 },
    worker: { requests: 0, bytes: 0 },
    held: { requests: 0, bytes: 0 },
    waiting: { requests: 0, bytes: 0 },
    operator: { requests: 0, bytes: 0 },
  };

  constructor(limits: AdmissionLimits, lagMs: () => number) {
    this.#limits = limits;
    this.#lagMs = lagMs;
  }

  /** Lets a request in, or throws. */
  enter(share: Share, bytes: number): Ticket {
    const problem = this.#problem(share, bytes);
    if (problem !== null) throw new PerdureError("overloaded", problem);
    const mine = this.#inHand[share];
    let counted = bytes;
    mine.requests += 1;
    mine.bytes += bytes;
    return {
      read(actual) {
        mine.bytes += actual - counted;
        counted = actual;
      },
      leave() {
        mine.requests -= 1;
        mine.bytes -= counted;
      },
    };
  }

  #problem(share: Share, bytes: number): string | null {
    const { maxBytes, maxRequests, maxHeld, maxWaiting, maxLagMs } = this.#limits;
    const mine = this.#inHand[share];
    if (share === "operator") return null;
    const isHeld = share === "held" || share === "waiting";
    const most = isHeld ? (share === "held" ? maxHeld : maxWaiting) : maxRequests;
    if (mine.requests >= most) return isHeld ? "too many requests wait" : "too many requests are under way";
    // A single body is let in whatever its size: its limit is another one.
    if (mine.requests > 0 && mine.bytes + bytes > maxBytes) return "too much is being read";
    return share === "caller" && this.#lagMs() > maxLagMs ? "the server is behind" : null;
  }
}

const LOOK_EVERY_MS = 1_000;

/** How far the event loop has been behind on average, in the better one of the last two seconds: one long turn, as when
 *  the server starts, is no overload. */
export class Lag {
  readonly #clock: Clock;
  readonly #histogram = monitorEventLoopDelay({ resolution: 20 });
  #before = 0;
  #last = 0;
  #cancel: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get ms(): number {
    return Math.min(this.#before, this.#last);
  }

  start(): void {
    this.#histogram.enable();
    this.#cancel = this.#clock.after(LOOK_EVERY_MS, () => this.#look(), { background: true });
  }

  stop(): void {
    this.#cancel();
    this.#histogram.disable();
  }

  #look(): void {
    this.#before = this.#last;
    this.#last = Number.isNaN(this.#histogram.mean) ? 0 : this.#histogram.mean / 1e6;
    this.#histogram.reset();
    this.#cancel = this.#clock.after(LOOK_EVERY_MS, () => this.#look(), { background: true });
  }
}
