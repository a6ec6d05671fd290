/** Jobs that the runtime folder has yet to write. With each goes the number of the event from which on its log lines are missing. What
 *  failed waits for a while, longer each time. Whoever finds more than MAX_PENDING waits for room; only a rebuild adds its newest jobs at
 *  once, which are as many again at most. */
import type { Clock } from "../../lib/clock.ts";

export const MAX_PENDING = 1_000;
/** From which event on, of a job whose log lines are all written. */
export const NO_LINES = Number.POSITIVE_INFINITY;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 10_000;

export type PendingJob = readonly [id: string, from: number];

export class RuntimePending {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #changed = new Map<string, number>();
  readonly #failed = new Map<string, number>();
  readonly #attempts = new Set<string>();
  readonly #waiting = new Set<() => void>();
  #pauseMs = FIRST_PAUSE_MS;
  #retryAt = 0;
  #isClosed = false;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  get isFull(): boolean {
    return this.#changed.size + this.#failed.size + this.#attempts.size >= MAX_PENDING;
  }

  get changed(): number {
    return this.#changed.size;
  }

  /** Whether something can be written now; what failed not before its pause is over. */
  get hasWork(): boolean {
    return this.#changed.size + this.#attempts.size > 0;
  }

  get hasFailed(): boolean {
    return this.#failed.size > 0;
  }

  /** Resolves when there is room, or nothing is to be added any more. */
  async room(): Promise<void> {
    while (this.isFull && !this.#isClosed) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  /** Nobody waits for room from here on. */
  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  add(id: string, from: number): void {
    // One that failed has lines missing from before: they are counted once only if it is one entry.
    const known = Math.min(this.#changed.get(id) ?? NO_LINES, this.#failed.get(id) ?? NO_LINES);
    this.#failed.delete(id);
    this.#changed.set(id, Math.min(known, from));
  }

  addFailed(id: string, from: number): void {
    this.#failed.set(id, Math.min(this.#failed.get(id) ?? NO_LINES, from));
    this.#retryAt = this.#clock.monotonic() + this.#pauseMs;
  }

  /** Takes some that have changed, and puts those that failed among them when it is time. */
  take(count: number): PendingJob[] {
    if (this.#failed.size === 0) this.#pauseMs = FIRST_PAUSE_MS;
    else if (this.#clock.monotonic() >= this.#retryAt) {
      for (const [id, from] of [...this.#failed]) this.add(id, from);
      this.#pauseMs = Math.min(MAX_PAUSE_MS, this.#pauseMs * 2);
    }
    // Their attempts come next, and would be too many.
    const some = this.#attempts.size >= MAX_PENDING ? [] : [...this.#changed].slice(0, count);
    for (const [id] of some) this.#changed.delete(id);
    this.#wake();
    return some;
  }

  /** Of this job the attempts are to be copied too. */
  addAttempts(id: string): void {
    this.#attempts.add(id);
  }

  takeAttempts(): string | null {
    const [id = null] = this.#attempts;
    if (id !== null) this.#attempts.delete(id);
    this.#wake();
    return id;
  }

  #wake(): void {
    if (this.isFull && !this.#isClosed) return;
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }
}
