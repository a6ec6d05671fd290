/** Where the live part of a lane starts. While any old transaction is open, started jobs stay in the index as dead
 *  entries, and a claim that starts at the oldest would read all of them. So a claim starts at the last job taken, per
 *  priority, but never so late that a recent job could be missed. A job further back (submitted in a long transaction,
 *  or moved to an earlier time by another process) is found by an occasional scan of the whole lane; jobs that this
 *  process adds move the cursor back at once. */

const PRIORITIES = 10;
/** Clocks differ and commits take time: jobs due within the last moments may still appear. */
const SLACK_MS = 2_000;
const WHOLE_EVERY_MS = 1_000;
/** Scans of whole lanes may use up to 1/SHARE of the time. */
const SHARE = 20;
/** The longest interval between scans, however long one took (it may have waited for something else). */
const MAX_WHOLE_EVERY_MS = 5_000;
const MAX_LANES = 10_000;

interface LaneCursors {
  /** By priority. */
  readonly from: number[];
  /** When the whole lane was last scanned. */
  wholeAt: number;
}

export class ClaimCursors {
  readonly #lanes = new Map<number, LaneCursors>();
  #wholeEvery = WHOLE_EVERY_MS;

  /** The cursors of these lanes, ten for each; zeros for a lane that is due for a scan of the whole. */
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

  /** Jobs may have been added behind the cursors. */
  scanWhole(): void {
    this.#lanes.clear();
  }

  /** How long a scan of whole lanes took, which sets the interval to the next. */
  scannedWhole(ms: number): void {
    this.#wholeEvery = Math.min(MAX_WHOLE_EVERY_MS, Math.max(WHOLE_EVERY_MS, ms * SHARE));
  }

  /** All jobs before this one have been taken. */
  taken(lane: number, priority: number, runAt: number, now: number): void {
    const { from } = this.#lane(lane);
    from[priority] = Math.max(from[priority] as number, Math.min(runAt, now - SLACK_MS));
  }

  /** This job waits in the lane again, or for the first time. */
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
