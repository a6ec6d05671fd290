/** Limits concurrent writes, so that each is done within about a second. The right limit depends on the disk, the database and the
 *  machine, so it is adapted to the measured time of writes: if they take too long, the limit is lowered to the number that was
 *  recently done within the target time; if they do not, and the limit was reached, it is raised.
 *
 *  If writes are in progress and none has been done for the target time, none is admitted: the event loop is in a long turn, or the
 *  store is stalled.
 *
 *  If the store itself is slow, as a disk that takes two seconds for a flush, fewer writes would not be faster. This shows when few
 *  writes are in progress; writes may then take twice as long as measured there. */
export interface WriteConcurrencyLimits {
  /** Target average time of a write, from the end of its body to its reply. The slowest take two to three times as long. */
  readonly targetMs: number;
  /** Bounds of the limit. */
  readonly least: number;
  readonly most: number;
}

/** Assumed rate before the first measurement. */
const START_PER_SECOND = 1_000;
const WINDOW_MS = 200;
/** The window if few writes were done, which are not representative yet. */
const LONG_WINDOW_MS = 1_000;
const GROWTH = 1.5;

export class WriteConcurrency {
  readonly #limits: WriteConcurrencyLimits;
  readonly #monotonic: () => number;
  #limit: number;
  #inProgress = 0;
  /** Start of the current window. */
  #since: number;
  #doneAt = Number.NEGATIVE_INFINITY;
  /** Since when writes have been in progress without a pause. */
  #busySince = Number.NEGATIVE_INFINITY;
  #done = 0;
  #spentMs = 0;
  #peak = 0;
  #wasFull = false;
  /** The time of a write when few are in progress, if that is over the target. */
  #baseMs = 0;

  constructor(limits: WriteConcurrencyLimits, monotonic: () => number) {
    this.#limits = limits;
    this.#monotonic = monotonic;
    const fit = Math.ceil((START_PER_SECOND * limits.targetMs) / 1_000);
    this.#limit = Math.max(limits.least, Math.min(limits.most, fit));
    this.#since = monotonic();
  }

  get limit(): number {
    return this.#limit;
  }

  /** Checked before a write is admitted. The measurements are evaluated here and not at the end of each write, since many writes end
   *  at the same time. */
  get isFull(): boolean {
    const now = this.#monotonic();
    const enough = this.#done >= this.#limits.least ? WINDOW_MS : LONG_WINDOW_MS;
    if (this.#done > 0 && now - this.#since >= enough) this.#adapt(now);
    if (this.#isStalled(now)) return true;
    if (this.#inProgress < this.#limit) return false;
    this.#wasFull = true;
    return true;
  }

  #isStalled(now: number): boolean {
    if (this.#inProgress < this.#limits.least) return false;
    return now - Math.max(this.#doneAt, this.#busySince) > this.#allowedMs;
  }

  get #allowedMs(): number {
    return Math.max(this.#limits.targetMs, 2 * this.#baseMs);
  }

  /** A write begins. The returned function must be called when it is done. */
  begin(): () => void {
    const began = this.#monotonic();
    // A window must not contain a pause.
    if (this.#inProgress === 0) {
      this.#busySince = began;
      if (began - this.#doneAt > WINDOW_MS) this.#startWindow(began);
    }
    this.#inProgress += 1;
    this.#peak = Math.max(this.#peak, this.#inProgress);
    let isDone = false;
    return () => {
      if (isDone) return;
      isDone = true;
      this.#inProgress -= 1;
      this.#doneAt = this.#monotonic();
      this.#done += 1;
      this.#spentMs += this.#doneAt - began;
    };
  }

  #adapt(now: number): void {
    const { targetMs, least, most } = this.#limits;
    const meanMs = this.#spentMs / this.#done;
    if (meanMs < this.#baseMs) this.#baseMs = meanMs;
    else if (meanMs > targetMs && this.#peak <= least) this.#baseMs = meanMs;
    const allowedMs = this.#allowedMs;
    if (meanMs > allowedMs) {
      const fit = (this.#done / (now - this.#since)) * allowedMs;
      this.#limit = Math.max(least, Math.min(this.#limit, Math.floor(fit)));
    } else if (this.#wasFull) {
      this.#limit = Math.min(most, Math.ceil(this.#limit * GROWTH));
    }
    this.#startWindow(now);
  }

  #startWindow(now: number): void {
    this.#since = now;
    this.#done = 0;
    this.#spentMs = 0;
    this.#peak = this.#inProgress;
    this.#wasFull = false;
  }
}
