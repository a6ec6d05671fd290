/** Lanes: jobs of one namespace, queue, kind and set of labels wait in one lane. A claim scans those that its session
 *  can serve, starting where the last scan ended. */
import type { NewLane } from "../core/job/lane.ts";

export { type Capability, labelText, laneName, type NewLane, serves } from "../core/job/lane.ts";

export interface Lane extends NewLane {
  readonly no: number;
}

export interface LaneUseQuery {
  readonly namespace: string;
  /** One owner, in every form in which lanes store it. */
  readonly owners: readonly string[];
  /** All lanes of that namespace. */
  readonly lanes: readonly NewLane[];
}

export interface LaneUse {
  readonly total: number;
  readonly owned: number;
  /** For each lane in the query. */
  readonly exists: readonly boolean[];
}

/** The lanes of one claim, and whether more remain. */
export interface LaneWindow {
  readonly lanes: readonly number[];
  /** Other lanes may also have waiting jobs. */
  readonly partial: boolean;
  /** Where the window after this one begins. */
  readonly next: number;
}

export const FEW_LANES = 16;
/** Lanes of a window: a few for each requested job. */
const LANES_A_JOB = 4;
const MIN_WINDOW = 32;
const MAX_WINDOW = 200;
/** Waiting lanes of other sessions that are skipped for one window. */
const MAX_PASSED = 2_000;

export function windowSize(wanted: number): number {
  return Math.min(MAX_WINDOW, Math.max(MIN_WINDOW, wanted * LANES_A_JOB));
}

// A claim scans the lanes with waiting jobs in a circle, starting where the last one ended.

/** The waiting lanes after a number, in ascending order: one row per lane, as the database returns it. */
type LanePage = readonly (readonly unknown[])[];

interface LaneWalk {
  /** Where it begins; 0: before the first lane. */
  readonly start: number;
  /** Lanes per page, and at most in the window. */
  readonly size: number;
  readonly isWanted: (lane: number) => boolean;
}

/** Yields the number after which it needs the next page. A generator, because one adapter reads synchronously and the
 *  other awaits. */
export function* walkLanes({ start, size, isWanted }: LaneWalk): Generator<number, LaneWindow, LanePage> {
  const lanes: number[] = [];
  let passed = 0;
  let wrapped = start === 0;
  for (let after = start; ; ) {
    const page = yield after;
    for (const [no] of page) {
      const lane = no as number;
      if (wrapped && start > 0 && lane > start) return { lanes, partial: false, next: 0 };
      after = lane;
      passed += 1;
      if (isWanted(lane) && lanes.push(lane) === size) return { lanes, partial: true, next: lane };
    }
    if (passed >= MAX_PASSED) return { lanes, partial: true, next: after };
    if (page.length === size) continue;
    if (wrapped) return { lanes, partial: false, next: 0 };
    wrapped = true;
    after = 0;
  }
}
