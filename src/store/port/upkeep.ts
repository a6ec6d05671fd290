/** Upkeep in the port: expired leases and waits, the beat of the engines, pruning, and the store's time. */
import type { BeatTime, ClockMark } from "../clock-mark.ts";

export interface UpkeepStore {
  /** Jobs whose lease or waiting time has expired, and running ones whose session does not exist or was given up before. Read
   *  only; `settle` checks each again under its lock. */
  expired(query: ExpiredQuery): Promise<ExpiredJob[]>;
  /** Records that an engine is awake. After a gap, or a jump of the clock, nothing may be reaped for `holdMs`. Held for ever
   *  means: another engine is beating right now, and its finding is not known yet. */
  beat(beat: Beat): Promise<BeatAnswer>;
  prune(query: PruneQuery): Promise<PruneAnswer>;

  /** The store's own clock, if it has one: then everyone uses it. */
  serverTime?(): Promise<number>;
  /** If it has none: points of its time line, which continues from the latest of them. */
  clockMarks?(): Promise<ClockMark[]>;
}

export interface ExpiredQuery {
  readonly now: number;
  readonly limit: number;
}

export interface ExpiredJob {
  readonly jobId: string;
  readonly attempt: number;
  readonly why: "lost" | "queue_timeout" | "deadline";
}

export interface Beat {
  /** Read when the beat is stored, under its lock: it may wait for that, while others beat. */
  readonly time: () => BeatTime;
  /** A silence longer than this means that engines slept. */
  readonly maxGapMs: number;
  readonly holdMs: number;
  /** How far this engine's clock moved against its monotonic one since its last beat. */
  readonly clockJumpMs: number;
  readonly engine: string;
  /** The process of this engine. */
  readonly self?: EngineProcess;
  /** Whether the process of another engine has ended; null if that is unknown. */
  readonly isOver?: (engine: EngineProcess) => boolean | null;
}

export interface BeatAnswer {
  readonly heldUntil: number;
  readonly gapMs: number | null;
  /** Given a mark: where the time line was then. More than `now`: another process knows that it is ahead of ours. */
  readonly line?: { readonly at: number; readonly monotonic: number };
  /** Given a mark: how far the time line is ahead of the wall clock, if that has just changed by a step. */
  readonly steppedTo?: number;
}

/** The process that an engine is in. */
export interface EngineProcess {
  readonly host: string;
  readonly pid: number;
  /** As sessions have it (`NewSession.process`). */
  readonly process: string | null;
}

export interface PruneQuery {
  readonly now: number;
  /** Ended before this instant, by state; a missing state is kept. */
  readonly endedBefore: Partial<Record<"succeeded" | "failed" | "cancelled", number>>;
  readonly keyWindowMs: number;
  readonly sessionsEndedBefore: number;
  /** Lanes and policies that no job names, not used since this instant, are deleted. All jobs are scanned, some in each call. */
  readonly namesUnusedBefore?: number;
  readonly limit: number;
  /** Who requested it: an event of the same transaction then has the number of jobs. */
  readonly by?: string;
}

export interface PruneAnswer {
  readonly jobs: number;
  /** The deleted jobs: what they left outside the database must be deleted too. */
  readonly ids: readonly string[];
  readonly more: boolean;
}
