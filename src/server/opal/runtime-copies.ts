/** Jobs whose attempts are to be copied to the runtime folder. They hold up nothing else: what fails is tried again by itself, a few at a
 *  time, after a pause. Both sets are bounded: what is beyond is dropped, and `takeDropped` is true once there is room for another
 *  search through all jobs. */
import type { Clock } from "../../lib/clock.ts";
import { MAX_PENDING, RuntimeGate } from "./runtime-pending.ts";

/** More than a search adds: it waits for room at MAX_PENDING. */
const MAX_WAITING = 5_000;
const MAX_FAILED = 1_000;
/** Retried before the next pause. */
const RETRIED_AT_ONCE = 20;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 10_000;

export interface AttemptsToCopy {
  readonly id: string;
  /** Whether all its attempts are checked, and not only the newest. */
  readonly isWhole: boolean;
  readonly isRetry: boolean;
}

export class RuntimeCopies {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #waiting = new Map<string, AttemptsToCopy>();
  readonly #failed = new Set<string>();
  /** Of those that failed, the ones to be tried before the next pause. */
  #retries: string[] = [];
  #pauseMs = FIRST_PAUSE_MS;
  #retryAt = 0;
  #hasDropped = false;
  /** For those who search through all jobs. */
  readonly gate = new RuntimeGate(() => this.#waiting.size >= MAX_PENDING);

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  get hasFailed(): boolean {
    return this.#failed.size > 0 || this.#hasDropped;
  }

  /** Whether one can be tried now; what failed not before its pause is over. */
  get hasWork(): boolean {
    if (this.#waiting.size + this.#retries.length > 0) return true;
    return this.#failed.size > 0 && this.#clock.monotonic() >= this.#retryAt;
  }

  get hasWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  add(id: string, isWhole: boolean): void {
    const known = this.#waiting.get(id);
    if (known === undefined && this.#waiting.size >= MAX_WAITING) {
      this.#hasDropped = true;
      return;
    }
    const isRetry = this.#failed.delete(id) || known?.isRetry === true;
    // An earlier attempt may be what failed.
    this.#waiting.set(id, { id, isWhole: isWhole || isRetry || known?.isWhole === true, isRetry });
  }

  addFailed(id: string): void {
    if (this.#waiting.has(id)) this.add(id, true);
    else if (this.#failed.size >= MAX_FAILED) this.#hasDropped = true;
    else this.#failed.add(id);
    const now = this.#clock.monotonic();
    if (now >= this.#retryAt) this.#retryAt = now + this.#pauseMs;
  }

  take(): AttemptsToCopy | null {
    const [next] = this.#waiting.values();
    if (next !== undefined) {
      this.#waiting.delete(next.id);
      this.gate.wake();
      return next;
    }
    if (this.#failed.size === 0) this.#pauseMs = FIRST_PAUSE_MS;
    else if (this.#retries.length === 0 && this.#clock.monotonic() >= this.#retryAt) {
      this.#retries = [...this.#failed].slice(0, RETRIED_AT_ONCE);
      this.#pauseMs = Math.min(MAX_PAUSE_MS, this.#pauseMs * 2);
    }
    while (this.#retries.length > 0) {
      const id = this.#retries.shift() as string;
      if (this.#failed.delete(id)) return { id, isWhole: true, isRetry: true };
    }
    return null;
  }

  /** True once after some were dropped, and most of the others are done. */
  takeDropped(): boolean {
    if (!this.#hasDropped || this.#failed.size > MAX_FAILED / 2 || this.#waiting.size > MAX_PENDING / 2) return false;
    this.#hasDropped = false;
    return true;
  }
}
