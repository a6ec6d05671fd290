/** Admission control. When the server is busy, requests are refused with 503 before they take memory or wait for long: reads
 *  first, then submits. Workers have their own share and are limited by number only, so that a flood of submits or reads does not
 *  cost them their leases. */
import { PerdureError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { ReadLimits } from "./read-gate.ts";
import { WriteConcurrency, type WriteConcurrencyLimits } from "./write-concurrency.ts";

/** reader: reads, which can be retried later. caller: submits and commands. worker: renewals and reports. held and waiting:
 *  requests that wait for something, of callers and of workers. operator: always admitted. */
export type AdmissionClass = "reader" | "caller" | "worker" | "held" | "waiting" | "operator";

export interface AdmissionLimits {
  /** Total bytes of the request bodies in progress, per class. */
  readonly maxBytes: number;
  readonly maxRequests: number;
  /** Requests that wait, of callers and of workers. */
  readonly maxHeld: number;
  readonly maxWaiting: number;
  /** Maximum event loop delay at which reads are admitted, and submits. */
  readonly maxReadLagMs: number;
  readonly maxLagMs: number;
  /** Limits of concurrent submits and commands. */
  readonly pace: WriteConcurrencyLimits;
  /** Limits of searches, counts and lists. */
  readonly reads: ReadLimits;
}

export const ADMISSION: AdmissionLimits = {
  maxBytes: 128 * 1024 * 1024,
  maxRequests: 2_000,
  maxHeld: 1_000,
  maxWaiting: 5_000,
  // Reached by turns of the event loop of half a second in a row, and of two seconds.
  maxReadLagMs: 250,
  maxLagMs: 1_000,
  pace: { targetMs: 400, least: 16, most: 2_000 },
  // Each runs in slices of a few milliseconds: with four of them the turns of the event loop stay short.
  reads: { atOnce: 4, maxWaitingOfOne: 50, maxWaiting: 200, maxWaitMs: 1_000 },
};

/** An admitted request. */
export interface AdmissionTicket {
  /** The body has been read and has this many bytes; without a Content-Length the maximum was assumed before. */
  read(bytes: number): void;
  /** Start and end of the work, which exclude the time a slow client takes to send and to read. */
  begin(): void;
  done(): void;
  leave(): void;
}

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #lagMs: () => number;
  readonly #pace: WriteConcurrency;
  readonly #inProgress: Record<AdmissionClass, { requests: number; bytes: number }> = {
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

  /** Admits a request, or throws `overloaded`. */
  enter(share: AdmissionClass, bytes: number): AdmissionTicket {
    const problem = this.#problem(share, bytes);
    if (problem !== null) throw new PerdureError("overloaded", problem);
    const mine = this.#inProgress[share];
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
        if (hasLeft) return; // the client has disconnected, and its bytes were released
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
    const mine = this.#inProgress[share];
    if (share === "operator") return null;
    const isHeld = share === "held" || share === "waiting";
    const most = isHeld ? (share === "held" ? maxHeld : maxWaiting) : maxRequests;
    if (mine.requests >= most) return isHeld ? "too many waiting requests" : "too many requests in progress";
    // A single body is always admitted: its size is limited elsewhere.
    if (mine.requests > 0 && mine.bytes + bytes > maxBytes) return "too many bytes of request bodies in progress";
    if (share === "caller" && this.#pace.isFull) return "too many writes in progress";
    const allowed = share === "reader" ? maxReadLagMs : share === "caller" ? maxLagMs : Number.POSITIVE_INFINITY;
    return this.#lagMs() > allowed ? "event loop delay over the limit" : null;
  }
}
