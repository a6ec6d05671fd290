/** Where the living part of a lane begins. While somebody keeps an old transaction open, started jobs stay behind in
 *  the index as dead entries, and a claim that begins at the oldest would wade through all of them. So it begins at
 *  the last job that was taken, for each priority, but never so late that one of the last moments could be missed. What may lie further back (a job submitted in a transaction
 *  that took long, one moved to an earlier time by another process) is found by a look at the whole lane now and then;
 *  what this process itself puts there moves the mark back at once. */

const PRIORITIES = 10;
/** Clocks differ and commits take time: what was due in the last moments may still come. */
const SLACK_MS = 2_000;
const WHOLE_EVERY_MS = 1_000;
/** A look at the whole may use up one part in so many of the time. */
const SHARE = 20;
/** But however long one took (it may have waited for something else), the next comes soon enough. */
const WHOLE_AT_LEAST_MS = 5_000;
const MAX_LANES = 10_000;

interface LaneCursors {
  /** By priority. */
  readonly from: number[];
  /** When it was last looked at as a whole. */
  wholeAt: number;
}

export class ClaimCursors {
  readonly #lanes = new Map<number, LaneCursors>();
  #wholeEvery = WHOLE_EVERY_MS;

  /** The marks of these lanes, ten for each; zero for a lane whose time for a look at the whole has come. */
  of(lanes: readonly number[], monotonic: number): { readonly marks: number[]; readonly whole: boolean } {
    let whole = false;
    const marks = lanes.flatMap((no) => {
      const lane = this.#lane(no);
      if (monotonic - lane.wholeAt < this.#wholeEvery) return lane.from;
      lane.wholeAt = monotonic;
      whole = true;
      return NONE;
    });
    return { marks, whole };
  }

  /** Something may have come to lie behind the marks. */
  scanWhole(): void {
    this.#lanes.clear();
  }

  /** A look at the whole took so long: the next one comes accordingly late. */
  tookWhole(ms: number): void {
    this.#wholeEvery = Math.min(WHOLE_AT_LEAST_MS, Math.max(WHOLE_EVERY_MS, ms * SHARE));
  }

  /** All before this job have been taken. */
  taken(lane: number, priority: number, runAt: number, now: number): void {
    const { from } = this.#lane(lane);
    from[priority] = Math.max(from[priority] as number, Math.min(runAt, now - SLACK_MS));
  }

  /** This job waits there again, or for the first time. */
  put(lane: number, priority: number, runAt: number): void {
    const marks = this.#lanes.get(lane);
    if (marks !== undefined && runAt < (marks.from[priority] as number)) marks.from[priority] = runAt;
  }

  #lane(no: number): LaneCursors {
    let lane = this.#lanes.get(no);
    if (lane === undefined) {
      if (this.#lanes.size >= MAX_LANES) this.#lanes.clear();
      lane = { from: [...NONE], wholeAt: Number.NEGATIVE_INFINITY };
      this.#lanes.set(no, lane);
    }
    return lane;
  }
}

const NONE: readonly number[] = Object.freeze(new Array(PRIORITIES).fill(0));
