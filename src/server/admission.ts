/** Who is let in while the server is busy. Requests are refused with 503 before they take memory, not after, and before they
 *  would have to wait for long: readers first, then those who submit. Workers have a share of their own, so that a flood of
 *  submits or reads costs no lease: they are refused for their number alone. */
import { PerdureError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { ReadLimits } from "./read-gate.ts";
import { WriteConcurrency, type WriteConcurrencyLimits } from "./write-concurrency.ts";

/** reader: reads, which can come again later. caller: submits and commands. worker: what keeps leases alive and brings work
 *  home. held and waiting: requests that wait for something, of callers and of workers. operator: always let in. */
export type AdmissionClass = "reader" | "caller" | "worker" | "held" | "waiting" | "operator";

export interface AdmissionLimits {
  /** Bytes of the bodies in hand. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  /** Of callers, and of workers. */
  readonly maxHeld: number;
  readonly maxWaiting: number;
  /** How far the event loop may be behind for readers to be let in, and for those who submit. */
  readonly maxReadLagMs: number;
  readonly maxLagMs: number;
  /** Of submits and commands under way. */
  readonly pace: WriteConcurrencyLimits;
  /** Of searches, counts and lists. */
  readonly reads: ReadLimits;
}

export const ADMISSION: AdmissionLimits = {
  maxBytes: 128 * 1024 * 1024,
  maxRequests: 2_000,
  maxHeld: 1_000,
  maxWaiting: 5_000,
  // Turns of half a second one after the other, and of two seconds.
  maxReadLagMs: 250,
  maxLagMs: 1_000,
  pace: { targetMs: 400, least: 16, most: 2_000 },
  // Each is made in slices of a few milliseconds: four of them keep the turns short.
  reads: { atOnce: 4, maxWaitingOfOne: 50, maxWaiting: 200, maxWaitMs: 1_000 },
};

/** Of a request that was let in. */
export interface AdmissionTicket {
  /** The body has been read, and has so many bytes: of one whose length was not told, the most was assumed. */
  read(bytes: number): void;
  /** Its work begins, and is done: what a slow client takes to send and to read is not counted. */
  begin(): void;
  done(): void;
  leave(): void;
}

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #lagMs: () => number;
  readonly #pace: WriteConcurrency;
  readonly #inHand: Record<AdmissionClass, { requests: number; bytes: number }> = {
    reader: { requests: 0, bytes: 0 },
    caller: { requests: 0, bytes: 0 },
    worker: { requests: 0, bytes: 0 },
    held: { requests: 0, bytes: 0 },
    waiting: { requests: 0, bytes: 0 },
    operator: { requests: 0, bytes: 0 },
  };

  constructor(limits: AdmissionLimits, lagMs: () => number, clock: Pick<Clock, "monotonic">) {
    this.#limits = limits;
    this.#lagMs = lagMs;
    this.#pace = new WriteConcurrency(limits.pace, () => clock.monotonic());
  }

  /** Lets a request in, or throws. */
  enter(share: AdmissionClass, bytes: number): AdmissionTicket {
    const problem = this.#problem(share, bytes);
    if (problem !== null) throw new PerdureError("overloaded", problem);
    const mine = this.#inHand[share];
    const pace = share === "caller" ? this.#pace : null;
    let done = () => {};
    let counted = bytes;
    let hasLeft = false;
    mine.requests += 1;
    mine.bytes += bytes;
    return {
      begin() {
        if (pace !== null) done = pace.begin();
      },
      done: () => done(),
      read(actual) {
        if (hasLeft) return; // its caller has gone, and its bytes were given back
        mine.bytes += actual - counted;
        counted = actual;
      },
      leave() {
        done();
        hasLeft = true;
        mine.requests -= 1;
        mine.bytes -= counted;
      },
    };
  }

  #problem(share: AdmissionClass, bytes: number): string | null {
    const { maxBytes, maxRequests, maxHeld, maxWaiting, maxReadLagMs, maxLagMs } = this.#limits;
    const mine = this.#inHand[share];
    if (share === "operator") return null;
    const isHeld = share === "held" || share === "waiting";
    const most = isHeld ? (share === "held" ? maxHeld : maxWaiting) : maxRequests;
    if (mine.requests >= most) return isHeld ? "too many requests wait" : "too many requests are under way";
    // A single body is let in whatever its size: its limit is another one.
    if (mine.requests > 0 && mine.bytes + bytes > maxBytes) return "too much is being read";
    if (share === "caller" && this.#pace.isFull) return "more is being written than can be soon";
    const allowed = share === "reader" ? maxReadLagMs : share === "caller" ? maxLagMs : Number.POSITIVE_INFINITY;
    return this.#lagMs() > allowed ? "the server is behind" : null;
  }
}
