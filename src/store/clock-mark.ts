/** Marks of a store's time line. A store without a clock of its own has a line that never goes back: it follows the wall
 *  clock, and where that is set back, goes on by the monotonic clock. Each beat leaves a mark, so that all processes on the
 *  store, and those that are started later, continue the same line. */

/** A difference below this is jitter, drift or a small correction, and is stood out; from here on it is a step. */
export const CLOCK_STEP_MS = 1_000;

/** A point in time by the clocks of one process. */
export interface WallMark {
  readonly wall: number;
  /** Milliseconds by a monotonic clock that all processes of this boot of the machine share. */
  readonly monotonic: number;
  /** Names the boot; null where none can be named: then monotonic times of two processes cannot be compared. */
  readonly boot: string | null;
}

/** The time of a beat; with a mark from a clock that keeps the line. */
export interface BeatTime {
  readonly now: number;
  /** Its clocks at `now`. */
  readonly mark?: WallMark;
}

/** A point of the line. */
export interface ClockMark {
  readonly at: number;
  readonly monotonic: number;
  readonly boot: string | null;
}

/** The line at the time of a reading. Within one boot that is exact, also for a reading that is older than the mark. After
 *  another boot it is where the line had come to: how long the machine was away is unknown, unless the wall clock shows it. */
export function continued(mark: ClockMark, reading: Omit<WallMark, "wall">): number {
  return isSameBoot(mark, reading) ? mark.at + (reading.monotonic - mark.monotonic) : mark.at;
}

/** A reading that was taken before the mark: as if a process read its clocks and stored them later. */
export function isOlder(reading: Omit<WallMark, "wall">, mark: ClockMark): boolean {
  return isSameBoot(mark, reading) && reading.monotonic < mark.monotonic;
}

function isSameBoot(mark: ClockMark, { boot }: Omit<WallMark, "wall">): boolean {
  return mark.boot !== null && mark.boot === boot;
}
