/** Reads the jobs that a claim has just started. A claim is the busiest reader, and each column costs: what is known of a
 *  job at this moment, or is nearly always as usual, is not sent. */
import type { Row } from "./driver.ts";

export { toStarted } from "../job-row.ts";

/** Of `job j`, and `rare` of `submission b`: as usual for all but a few jobs; those where one is not are read whole. */
export const RARE_JOB = `(j.losses + j.defers + j.handbacks + j.streak > 0 or j.chapter > 1
  or coalesce(j.streak_session, j.rule_counts, j.usage) is not null)`;
const RARE = "(j.rare or coalesce(b.deadline_at, b.depth) is not null)";

const PREVIOUS =
  "case when j.attempt > 1 then (select failure from $s.attempt a where a.job = j.no and a.attempt = j.attempt - 1) end";

/** What belongs to a started job beside its own columns. */
export const BESIDE = `b.body, ${PREVIOUS}`;

/** As `toStarted` reads them. */
export const SHORT_COLUMNS = `j.no, b.id, j.lane, j.policy, j.priority, j.run_at, j.revision, j.attempt, j.failures,
  b.submitted_at, j.first_started_at, b.expire_in, b.timeout_ms, b.key, b.tags, ${RARE}, ${BESIDE}`;

export const SHORT_COUNT = 18;

/** A job that a budget covers, which was not started. */
export function isCovered(row: Row): boolean {
  return row[1] === null;
}

/** True: more must be read of it than `toStarted` knows. */
export function isRare(row: Row): boolean {
  return row[15] === true;
}
