/** Which jobs and attempts are still to be copied to the runtime directory, in bounded memory. */
import type { Clock } from "../../../lib/clock.ts";

// Jobs to write to the runtime folder, each with the number of the event from which its log lines are missing. Failed
// ones are retried after a growing delay. Callers wait while there are MAX_PENDING or more; only a rebuild adds its
// newest jobs at once, at most as many again.

const MAX_PENDING = 1_000;
/** For a job whose log lines are all written. */
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

/** Callers that wait for capacity. */
class RuntimeGate {
  readonly #isFull: () => boolean;
  readonly #waiting = new Set<() => void>();
  #isClosed = false;

  constructor(isFull: () => boolean) {
    this.#isFull = isFull;
  }

  /** Resolves when there is capacity, or when nothing more will be added. */
  async room(): Promise<void> {
    while (this.#isFull() && !this.#isClosed) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  wake(): void {
    if (this.#isFull() && !this.#isClosed) return;
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  /** From now on no caller waits for capacity. */
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

  /** Whether something can be written now; failed jobs only after their delay. */
  get hasWork(): boolean {
    return this.#changed.size > 0;
  }

  get hasFailed(): boolean {
    return this.#failed.size > 0;
  }

  add(job: PendingJob): void {
    // A failed job also lacks earlier lines: they are kept only if it is one entry.
    const known = both(this.#failed.get(job.id), job);
    this.#failed.delete(job.id);
    this.#changed.set(job.id, both(this.#changed.get(job.id), known));
  }

  addFailed(job: PendingJob): void {
    this.#failed.set(job.id, both(this.#failed.get(job.id), job));
    this.#retryAt = this.#clock.monotonic() + this.#pauseMs;
  }

  /** Takes some changed jobs, and adds failed ones whose delay is over. */
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

// Jobs whose attempts must be copied to the runtime folder. They delay nothing else: failed ones are retried, a few at a
// time, after a delay. Both sets are bounded: jobs beyond the limit are dropped, and `takeDropped` is true once there is
// capacity for another search through all jobs.

/** More than a search adds: it waits at MAX_PENDING. */
const MAX_WAITING = 5_000;
const MAX_FAILED = 1_000;
/** Retried before the next delay. */
const RETRIED_AT_ONCE = 20;
const FIRST_COPY_PAUSE_MS = 1_000;
const MAX_COPY_PAUSE_MS = 10_000;

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
  /** Failed jobs to retry before the next delay. */
  #retries: string[] = [];
  #pauseMs = FIRST_COPY_PAUSE_MS;
  #retryAt = 0;
  #hasDropped = false;
  /** For searches through all jobs. */
  readonly gate = new RuntimeGate(() => this.#waiting.size >= MAX_PENDING);

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  get hasFailed(): boolean {
    return this.#failed.size > 0 || this.#hasDropped;
  }

  /** Whether one can be tried now; failed ones only after their delay. */
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
    // It may be an earlier attempt that failed.
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
    if (this.#failed.size === 0) this.#pauseMs = FIRST_COPY_PAUSE_MS;
    else if (this.#retries.length === 0 && this.#clock.monotonic() >= this.#retryAt) {
      this.#retries = [...this.#failed].slice(0, RETRIED_AT_ONCE);
      this.#pauseMs = Math.min(MAX_COPY_PAUSE_MS, this.#pauseMs * 2);
    }
    while (this.#retries.length > 0) {
      const id = this.#retries.shift() as string;
      if (this.#failed.delete(id)) return { id, isWhole: true, isRetry: true };
    }
    return null;
  }

  /** True once after jobs were dropped and most of the others are done. */
  takeDropped(): boolean {
    if (!this.#hasDropped || this.#failed.size > MAX_FAILED / 2 || this.#waiting.size > MAX_PENDING / 2) return false;
    this.#hasDropped = false;
    return true;
  }
}
