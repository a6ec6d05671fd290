/** Jobs that the runtime folder has yet to write. With each goes the number of the event from which on its log lines are missing. What
 *  failed waits for a while, longer each time. Whoever finds more than MAX_PENDING waits for room; only a rebuild adds its newest jobs at
 *  once, which are as many again at most. */
import type { Clock } from "../../lib/clock.ts";

export const MAX_PENDING = 1_000;
/** From which event on, of a job whose log lines are all written. */
export const NO_LINES = Number.POSITIVE_INFINITY;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 10_000;

export interface PendingJob {
  readonly id: string;
  /** The event from which on its log lines are missing. */
  readonly from: number;
  /** Whether all its attempts are checked, and not only the newest. */
  readonly isWhole: boolean;
}

/** Where those who add wait until there is room. */
export class RuntimeGate {
  readonly #isFull: () => boolean;
  readonly #waiting = new Set<() => void>();
  #isClosed = false;

  constructor(isFull: () => boolean) {
    this.#isFull = isFull;
  }

  /** Resolves when there is room, or nothing is to be added any more. */
  async room(): Promise<void> {
    while (this.#isFull() && !this.#isClosed) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  wake(): void {
    if (this.#isFull() && !this.#isClosed) return;
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** Nobody waits for room from here on. */
  close(): void {
    this.#isClosed = true;
    this.wake();
  }
}

export class RuntimePending {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #changed = new Map<string, PendingJob>();
  readonly #failed = new Map<string, PendingJob>();
  readonly gate = new RuntimeGate(() => this.isFull);
  #pauseMs = FIRST_PAUSE_MS;
  #retryAt = 0;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  get isFull(): boolean {
    return this.#changed.size + this.#failed.size >= MAX_PENDING;
  }

  get changed(): number {
    return this.#changed.size;
  }

  /** Whether something can be written now; what failed not before its pause is over. */
  get hasWork(): boolean {
    return this.#changed.size > 0;
  }

  get hasFailed(): boolean {
    return this.#failed.size > 0;
  }

  add(job: PendingJob): void {
    // One that failed has lines missing from before: they are counted once only if it is one entry.
    const known = both(this.#failed.get(job.id), job);
    this.#failed.delete(job.id);
    this.#changed.set(job.id, both(this.#changed.get(job.id), known));
  }

  addFailed(job: PendingJob): void {
    this.#failed.set(job.id, both(this.#failed.get(job.id), job));
    this.#retryAt = this.#clock.monotonic() + this.#pauseMs;
  }

  /** Takes some that have changed, and puts those that failed among them when it is time. */
  take(count: number): PendingJob[] {
    if (this.#failed.size === 0) this.#pauseMs = FIRST_PAUSE_MS;
    else if (this.#clock.monotonic() >= this.#retryAt) {
      for (const job of [...this.#failed.values()]) this.add(job);
      this.#pauseMs = Math.min(MAX_PAUSE_MS, this.#pauseMs * 2);
    }
    const some = [...this.#changed.values()].slice(0, count);
    for (const { id } of some) this.#changed.delete(id);
    this.gate.wake();
    return some;
  }
}

function both(known: PendingJob | undefined, job: PendingJob): PendingJob {
  if (known === undefined) return job;
  return { id: job.id, from: Math.min(known.from, job.from), isWhole: known.isWhole || job.isWhole };
}
