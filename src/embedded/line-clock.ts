/** The clock of a store that has none of its own (SQLite): a line that never goes back and is never behind the wall clock.
 *  It follows the wall clock. When that is set back, the line goes on by the monotonic clock, ahead of the wall clock by as
 *  much, until the wall clock has caught up; so nothing that was due becomes not due, and no delay grows. When the wall clock
 *  is set ahead, the line follows.
 *
 *  Each beat leaves a mark in the store, and brings those of other processes: all continue one line, also after a restart.
 *  What it does not do: tell a sleep of the machine from a wall clock that is set ahead. */
import type { Log } from "../engine/engine.ts";
import type { Clock } from "../lib/clock.ts";
import { CLOCK_STEP_MS, continued, type WallMark } from "../store/clock-mark.ts";
import type { Beat, BeatAnswer, BeatTime, Store } from "../store/store.ts";
import type { Boot } from "./boot.ts";

export interface LineClock {
  readonly clock: Clock;
  /** A beat that leaves a mark of this clock, and takes over how far the line has come elsewhere. */
  beat(beat: Beat): Promise<BeatAnswer>;
}

/** The clocks of this process, now. The wall clock first: a process that is stopped between the two sees a wall clock that is
 *  behind, and keeps its line. The other way around it would see one that was set ahead, and follow it. */
export function wallMark(base: Clock, boot: Boot | null): WallMark {
  const wall = base.now();
  return { wall, monotonic: base.monotonic() + (boot?.originMs ?? 0), boot: boot?.name ?? null };
}

export async function lineClock(base: Clock, store: Store, boot: Boot | null, log: Log): Promise<LineClock> {
  /** The line is the monotonic clock and this. */
  let offset = Number.NEGATIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;

  function read(): Required<BeatTime> {
    const mark = wallMark(base, boot);
    const seen = mark.wall - mark.monotonic;
    if (offset - seen <= CLOCK_STEP_MS) offset = seen;
    last = Math.max(last, Math.round(mark.monotonic + offset));
    return { now: last, mark };
  }
  const now = () => read().now;
  /** The line was at `at` when the monotonic clock was at `monotonic`, however long ago that is. */
  function takeOver(at: number, monotonic: number): void {
    read();
    if (at - monotonic - offset > CLOCK_STEP_MS) offset = at - monotonic;
  }

  const marks = (await store.clockMarks?.()) ?? [];
  // After they were read: those of another boot cannot be counted back from a mark that is newer than our reading.
  const here = wallMark(base, boot);
  for (const known of marks) takeOver(continued(known, here), here.monotonic);
  return {
    clock: {
      now,
      monotonic: () => base.monotonic(),
      after: (ms, call, options) => base.after(ms, call, options),
      fromWall: (at) => at + Math.max(0, now() - base.now()),
    },
    async beat(beat) {
      const answer = await store.beat({ ...beat, time: read });
      if (answer.line !== undefined) takeOver(answer.line.at, answer.line.monotonic);
      if (answer.steppedTo !== undefined) log("warn", stepped(answer.steppedTo));
      return answer;
    },
  };
}

function stepped(aheadMs: number): string {
  if (aheadMs <= CLOCK_STEP_MS) return "the wall clock was set ahead: the engine's clock follows it again";
  return `the wall clock was set back: the engine's clock goes on, ${Math.round(aheadMs / 1000)} s ahead of it`;
}
