/** Marks of a store's time line. A store without its own clock keeps a line that never goes back: it follows the wall
 *  clock, and continues by the monotonic clock when the wall clock is set back. Each beat stores a mark, from which all
 *  processes on the store, including later ones, continue the same line. */

/** A smaller difference is jitter, drift or a small correction, and is absorbed; a larger one is a step. */
export const CLOCK_STEP_MS = 1_000;

/** A point in time by the clocks of one process. */
export interface WallMark {
  readonly wall: number;
  /** Milliseconds on a monotonic clock shared by all processes of this boot. */
  readonly monotonic: number;
  /** Identifies the boot; null if unknown, in which case monotonic times of two processes cannot be compared. */
  readonly boot: string | null;
}

/** The time of a beat, with a mark if the clock keeps the line. */
export interface BeatTime {
  readonly now: number;
  /** The clocks of the process at `now`. */
  readonly mark?: WallMark;
}

/** A point of the line. */
export interface ClockMark {
  readonly at: number;
  readonly monotonic: number;
  readonly boot: string | null;
}

/** The line at the time of a reading. Exact within one boot, also for a reading older than the mark. After a reboot it
 *  is the last known point of the line: how long the machine was down is unknown unless the wall clock shows it. */
export function continued(mark: ClockMark, reading: Omit<WallMark, "wall">): number {
  return isSameBoot(mark, reading) ? mark.at + (reading.monotonic - mark.monotonic) : mark.at;
}

/** Whether a reading was taken before the mark: a process read its clocks and stored them later. */
export function isOlder(reading: Omit<WallMark, "wall">, mark: ClockMark): boolean {
  return isSameBoot(mark, reading) && reading.monotonic < mark.monotonic;
}

function isSameBoot(mark: ClockMark, { boot }: Omit<WallMark, "wall">): boolean {
  return mark.boot !== null && mark.boot === boot;
}
