/** The walk of a claim through the lanes that hold waiting jobs, from where the last one ended, round to there again. */
import { type LaneWindow, MAX_PASSED } from "./lane.ts";

/** The waiting lanes after a number, in their order: a row each, as a database gives them. */
type LanePage = readonly (readonly unknown[])[];

export interface LaneWalk {
  /** Where it begins; 0: before the first lane. */
  readonly start: number;
  /** Lanes of a page, and at most of the window. */
  readonly size: number;
  readonly isWanted: (lane: number) => boolean;
}

/** Yields the number after which it wants the next page. A generator, as one adapter reads at once and the other waits. */
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
