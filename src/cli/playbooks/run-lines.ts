/** What a person sees of a run while it is followed: a line for each step that starts or ends, lines for its attempts, and one line
 *  for a loop, which is updated in place on a terminal. Pure: events and rows in, lines out. */
import type { StepInfo } from "../../core/api/runs.ts";
import { showMs } from "../../core/duration.ts";
import { counted } from "../../core/format.ts";
import { oneLine } from "../../core/job/job-name.ts";
import { isOpen, type RunChange } from "../../core/run/run.ts";

/** The items of a loop so far. */
export interface FollowedLoop {
  readonly n: number;
  readonly total: number;
  succeeded: number;
  failed: number;
}

type EndChange = Extract<RunChange, { do: "end" }>;
type StartChange = Extract<RunChange, { do: "start" }>;

/** Counts the items of loops, from all events of a run in their order. */
export class FollowedLoops {
  readonly #loops = new Map<string, FollowedLoop>();

  /** The loop whose items changed; null for other changes. */
  apply(change: RunChange): FollowedLoop | null {
    if (change.do === "start" && change.items !== undefined) return this.#started(change, change.items);
    if (change.do === "reloop") return this.#again(change.step, change.visit, change.items.length);
    if (change.do !== "end" || change.item === undefined || change.item < 0) return null;
    return this.#ended(change);
  }

  of(step: number, visit: number): FollowedLoop | null {
    return this.#loops.get(`${step}:${visit}`) ?? null;
  }

  #started({ step, visit, n }: StartChange, total: number): FollowedLoop {
    const loop = { n, total, succeeded: 0, failed: 0 };
    this.#loops.set(`${step}:${visit}`, loop);
    return loop;
  }

  /** Failed items start again. */
  #again(step: number, visit: number, count: number): FollowedLoop | null {
    const loop = this.of(step, visit);
    if (loop !== null) loop.failed = Math.max(0, loop.failed - count);
    return loop;
  }

  #ended({ step, visit, state }: EndChange): FollowedLoop | null {
    const loop = this.of(step, visit);
    if (loop === null) return null;
    if (state === "succeeded" || state === "skipped") loop.succeeded += 1;
    else loop.failed += 1;
    return loop;
  }
}

/** `7/10 ✓ 1 ✗` */
export function loopLine({ total, succeeded, failed }: FollowedLoop): string {
  return `${succeeded}/${total} ✓${failed === 0 ? "" : ` ${failed} ✗`}`;
}

const MAX_WHY = 300;

/** The end of a step: `✓ fetch: succeeded after 2 attempts, 1.2 s`; null for one that only routes, or is still open. */
export function endLine(name: string, step: StepInfo, loop: FollowedLoop | null, isRetried: boolean): string | null {
  const { state, type, failure, startedAt, endedAt, attempt } = step;
  if (isOpen(state) || (type === null && state === "succeeded")) return null;
  const took = showMs(Math.max(0, (endedAt ?? startedAt) - startedAt));
  const tried = attempt > 1 ? ` after ${counted(attempt, "attempt")}` : "";
  const items = loop === null ? "" : `, ${loopLine(loop)}`;
  // The failure was in the line of the last attempt.
  const why = failure === null || isRetried ? "" : `: ${oneLine(failure.message, MAX_WHY)}`;
  switch (state) {
    case "succeeded":
      return `✓ ${name}: succeeded${tried}, ${took}${items}`;
    case "skipped":
      return `– ${name}: skipped`;
    case "handled":
      return `! ${name}: failed${tried}, ${took}${items}${why}; handled`;
    case "failed":
      return `✗ ${name}: failed${tried}, ${took}${items}${why}`;
    default:
      return `⊘ ${name}: cancelled`;
  }
}

/** The start of a step: `▸ fetch: http`; null for one that only routes. */
export function startLine(
  name: string,
  { type, waitsUntil, state }: StepInfo,
  loop: FollowedLoop | null,
  now: number,
): string | null {
  if (loop !== null) return `▸ ${name}: ${counted(loop.total, "item")}`;
  if (type === null) return null;
  if (state === "waiting" && waitsUntil !== null)
    return `▸ ${name}: wait, due in ${showMs(Math.max(0, waitsUntil - now))}`;
  return `▸ ${name}: ${type}`;
}
