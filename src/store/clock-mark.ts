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

/** A point of the line. */
export interface ClockMark {
  readonly at: number;
  readonly monotonic: number;
  readonly boot: string | null;
}

/** How far the line has come by now. Within one boot that is exact; after another it is where the line had come to: how long
 *  the machine was away is not known, and the wall clock tells it unless that was set back. */
export function continued(mark: ClockMark, { monotonic, boot }: Omit<WallMark, "wall">): number {
  const isComparable = mark.boot !== null && mark.boot === boot && monotonic >= mark.monotonic;
  return isComparable ? mark.at + (monotonic - mark.monotonic) : mark.at;
}
