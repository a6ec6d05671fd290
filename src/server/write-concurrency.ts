/** How many writes may be under way at a time, so that each is done within about a second. What is too many depends on the
 *  disk, the database and the machine, so it is learned from how long writes take: where they take too long, only as many are
 *  let in as were done lately within the time they should take; where they do not, and there was no room, some more.
 *
 *  Where some are under way and none was done for that long, none is let in: the event loop is in the middle of a long turn,
 *  or the store stands still.
 *
 *  A store may be slow by itself, as a disk that takes two seconds for a flush: fewer writes would not be faster then. That
 *  is seen when few are under way, and they may take twice as long as they do there. */
export interface WriteConcurrencyLimits {
  /** Milliseconds a write should take on average, from the end of its body to its reply. The slowest take two to three times
   *  as long. */
  readonly targetMs: number;
  /** Never fewer at a time. */
  readonly least: number;
  /** Never more. */
  readonly most: number;
}

/** Before anything is known: as if a thousand a second were done. */
const START_PER_SECOND = 1_000;
const WINDOW_MS = 200;
/** Where few were done: the first of many says little. */
const LONG_WINDOW_MS = 1_000;
const GROWTH = 1.5;

export class WriteConcurrency {
  readonly #limits: WriteConcurrencyLimits;
  readonly #monotonic: () => number;
  #limit: number;
  #underWay = 0;
  /** Of the window that began at `#since`. */
  #since: number;
  #doneAt = Number.NEGATIVE_INFINITY;
  /** Since when something is under way without a pause. */
  #busySince = Number.NEGATIVE_INFINITY;
  #done = 0;
  #spentMs = 0;
  #peak = 0;
  #wasFull = false;
  /** What a write takes when few are under way, where that is more than it should. */
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

  /** Asked before a write is let in. What was done since is judged here and not when it was done: writes are done many at a
   *  time, and the first of them is not yet all. */
  get isFull(): boolean {
    const now = this.#monotonic();
    const enough = this.#done >= this.#limits.least ? WINDOW_MS : LONG_WINDOW_MS;
    if (this.#done > 0 && now - this.#since >= enough) this.#learn(now);
    if (this.#isStalled(now)) return true;
    if (this.#underWay < this.#limit) return false;
    this.#wasFull = true;
    return true;
  }

  #isStalled(now: number): boolean {
    if (this.#underWay < this.#limits.least) return false;
    return now - Math.max(this.#doneAt, this.#busySince) > this.#allowedMs;
  }

  get #allowedMs(): number {
    return Math.max(this.#limits.targetMs, 2 * this.#baseMs);
  }

  /** A write begins. The answer is to be called when it is done. */
  begin(): () => void {
    const began = this.#monotonic();
    // A pause says nothing about how much can be done.
    if (this.#underWay === 0) {
      this.#busySince = began;
      if (began - this.#doneAt > WINDOW_MS) this.#anew(began);
    }
    this.#underWay += 1;
    this.#peak = Math.max(this.#peak, this.#underWay);
    let isDone = false;
    return () => {
      if (isDone) return;
      isDone = true;
      this.#underWay -= 1;
      this.#doneAt = this.#monotonic();
      this.#done += 1;
      this.#spentMs += this.#doneAt - began;
    };
  }

  #learn(now: number): void {
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
    this.#anew(now);
  }

  #anew(now: number): void {
    this.#since = now;
    this.#done = 0;
    this.#spentMs = 0;
    this.#peak = this.#underWay;
    this.#wasFull = false;
  }
}
