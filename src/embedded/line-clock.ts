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
import type { Beat, BeatAnswer, Store } from "../store/store.ts";
import type { Boot } from "./boot.ts";

export interface LineClock {
  readonly clock: Clock;
  /** A beat that leaves a mark of this clock, and takes over how far the line has come elsewhere. */
  beat(beat: Beat): Promise<BeatAnswer>;
}

/** The clocks of this process, now. */
export function wallMark(base: Clock, boot: Boot | null): WallMark {
  const monotonic = base.monotonic() + (boot?.originMs ?? 0);
  return { wall: base.now(), monotonic, boot: boot?.name ?? null };
}

export async function lineClock(base: Clock, store: Store, boot: Boot | null, log: Log): Promise<LineClock> {
  /** The line is the monotonic clock and this. */
  let offset = base.now() - base.monotonic();
  let last = Number.NEGATIVE_INFINITY;

  function now(): number {
    const monotonic = base.monotonic();
    const seen = base.now() - monotonic;
    if (offset - seen <= CLOCK_STEP_MS) offset = seen;
    last = Math.max(last, Math.round(monotonic + offset));
    return last;
  }
  const mark = () => wallMark(base, boot);
  function takeOver(at: number): void {
    if (at - now() > CLOCK_STEP_MS) offset = at - base.monotonic();
  }

  const here = mark();
  for (const known of (await store.clockMarks?.()) ?? []) takeOver(continued(known, here));
  return {
    clock: {
      now,
      monotonic: () => base.monotonic(),
      after: (ms, call, options) => base.after(ms, call, options),
      fromWall: (at) => at + Math.max(0, now() - base.now()),
    },
    async beat(beat) {
      const answer = await store.beat({ ...beat, mark: mark() });
      if (answer.lineAt !== undefined) takeOver(answer.lineAt);
      if (answer.steppedTo !== undefined) log("warn", stepped(answer.steppedTo));
      return answer;
    },
  };
}

function stepped(aheadMs: number): string {
  if (aheadMs <= CLOCK_STEP_MS) return "the wall clock was set ahead: the engine's clock follows it again";
  return `the wall clock was set back: the engine's clock goes on, ${Math.round(aheadMs / 1000)} s ahead of it`;
}
