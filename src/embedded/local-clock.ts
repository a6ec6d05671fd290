/** The clock of a store that has none of its own (SQLite): it never goes back and is never behind the wall clock.
 *  After the wall clock is set back it follows the kernel's monotonic clock, which all processes of one boot share. */
import { readFileSync, readlinkSync } from "node:fs";
import type { Log } from "../engine/parts.ts";
import type { Clock } from "../lib/clock.ts";
import { CLOCK_STEP_MS, continued, type WallMark } from "../store/clock-mark.ts";
import type { Beat, BeatAnswer, BeatTime, Store } from "../store/store.ts";

// Identifies this boot of the machine (Linux only). Within one boot all processes share the kernel's monotonic clock,
// also those that start later, unless they have a time namespace of their own.

export interface MachineBoot {
  readonly name: string;
  /** Added to the monotonic time of a process, this gives that of the boot. */
  readonly originMs: number;
}

const CLOSE_MS = 1;
const MAX_TRIES = 10;

/** Null where it is unknown; then the clocks of two processes cannot be compared. */
export function thisBoot(clock: Pick<Clock, "monotonic">): MachineBoot | null {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return { name: `${boot} ${timeNamespace()}`, originMs: originOf(clock) };
  } catch {
    return null;
  }
}

/** Read again if the process was stopped between the two reads: otherwise it would stay behind the others by that time. */
function originOf(clock: Pick<Clock, "monotonic">): number {
  for (let tries = 1; ; tries++) {
    const before = clock.monotonic();
    const sinceBoot = Number(process.hrtime.bigint()) / 1e6;
    const after = clock.monotonic();
    if (after - before < CLOSE_MS || tries >= MAX_TRIES) return sinceBoot - after;
  }
}

/** Kernels before 5.6 have none. */
function timeNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/time");
  } catch {
    return "";
  }
}

// The time line of a store without a clock (SQLite). It never goes back and is never behind the wall clock. It follows
// the wall clock. When that is set back, the line continues by the monotonic clock, ahead of the wall clock by the same
// time, until the wall clock has caught up; so nothing that was due becomes not due, and no delay grows. When the wall
// clock is set forward, the line follows. Each beat stores a mark and reads those of other processes: all continue one
// line, also after a restart. It cannot distinguish a sleep of the machine from a wall clock that is set forward.

export interface LocalClock {
  readonly clock: Clock;
  /** Stores a mark of this clock, and catches up with those of other processes. */
  beat(beat: Beat): Promise<BeatAnswer>;
}

/** The clocks of this process, now. The wall clock first: a process that is stopped between the two sees a wall clock that is
 *  behind, and keeps its line. The other way around it would see one that was set ahead, and follow it. */
export function wallMark(base: Clock, boot: MachineBoot | null): WallMark {
  const wall = base.now();
  return { wall, monotonic: base.monotonic() + (boot?.originMs ?? 0), boot: boot?.name ?? null };
}

export async function localClock(base: Clock, store: Store, boot: MachineBoot | null, log: Log): Promise<LocalClock> {
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
      turn: (call) => base.turn(call),
      tick: (call) => base.tick(call),
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
  if (aheadMs <= CLOCK_STEP_MS) return "the wall clock was set forward: the engine's clock follows it again";
  return `the wall clock was set back: the engine's clock continues, ${Math.round(aheadMs / 1000)} s ahead of it`;
}
