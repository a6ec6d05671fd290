/** Rows to jobs and back, in the order of `JOB_COLUMNS`. */
import type { JobProgressFields } from "../../core/job/job.ts";
import { type InternedValues, JOB_COLUMN_NAMES } from "../job-row.ts";
import { checkAt, jsonOrNull, STATE_CODES, type StoredJob } from "../stored-job.ts";
import { bigints, ints, smallints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PgRow, PgValue } from "./driver.ts";
import { writeJobEvents } from "./events.ts";
import type { PostgresInterned } from "./interned.ts";

export { toJob } from "../job-row.ts";

/** These are of `submission b`, all others of `job j`. */
const SUBMITTED = new Set([
  "id",
  "submitted_at",
  "deadline_at",
  "expire_in",
  "timeout_ms",
  "key",
  "tags",
  "parent",
  "depth",
]);

export const JOB_COLUMNS = JOB_COLUMN_NAMES.map((name) => `${SUBMITTED.has(name) ? "b" : "j"}.${name}`).join(", ");

export const COLUMN_COUNT = JOB_COLUMN_NAMES.length;

/** What `toJob` needs to read these rows. */
export function learnRows(
  interned: PostgresInterned,
  rows: readonly PgRow[],
  connection?: PgConnection,
): Promise<InternedValues> {
  const column = (i: number) => rows.map((row) => row[i] as number);
  return interned.learn(column(2), column(3), column(18) as (number | null)[], connection?.ask);
}

/** One job's change as `UPDATE_PROGRESS` takes it. */
export interface Move {
  readonly job: StoredJob;
  readonly next: JobProgressFields;
  readonly avoidSession: number | null;
}

/** The fields that a settle or an amend may move, as arrays from `$first` on: no, and the rest. */
export function progressArrays(first: number): string {
  const types = [
    ...["bigint", "int", "smallint", "text", "int", "int", "int", "int", "int", "int", "text", "int", "text"],
    ...["bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "text", "int"],
  ];
  return types.map((type, i) => `$${first + i}::${type}[]`).join(", ");
}

export const PROGRESS_NAMES =
  "no, old_revision, state, reason, chapter, failures, losses, defers, handbacks, streak, streak_session, evidence, rule_counts, " +
  "run_at, expires_at, check_at, cancel_requested_at, first_started_at, finished_at, discarded_at, usage, avoid_session";

export const SET_PROGRESS = `
  state = m.state, reason = m.reason, chapter = m.chapter, revision = j.revision + 1, failures = m.failures,
  losses = m.losses, defers = m.defers, handbacks = m.handbacks, streak = m.streak, streak_session = m.streak_session,
  evidence = m.evidence, rule_counts = m.rule_counts, run_at = m.run_at, expires_at = m.expires_at, check_at = m.check_at,
  cancel_requested_at = m.cancel_requested_at, first_started_at = m.first_started_at, finished_at = m.finished_at,
  discarded_at = m.discarded_at, usage = m.usage, live_usage = null, avoid_session = m.avoid_session`;

/** Writes changes of jobs, each with its event. */
export const WRITE_MOVES = `with m as materialized (
    select * from unnest(${progressArrays(1)}, $23::bigint[], $24::text[], $25::text[])
      as u (${PROGRESS_NAMES}, at, event, data)
  ),
  moved as (
    update $s.job j set ${SET_PROGRESS} from m where j.no = m.no and j.revision = m.old_revision
    returning j.no, j.revision, m.at, m.event, m.data
  ),
  ${writeJobEvents("moved", "at", "event", "data")}
  select no from moved`;

export function progressValues(moves: readonly Move[]): PgValue[] {
  const longs = (pick: (move: Move) => number | null) => bigints(moves.map(pick));
  const whole = (pick: (move: Move) => number | null) => ints(moves.map(pick));
  const words = (pick: (move: Move) => string | null) => texts(moves.map(pick));
  return [
    longs(({ job }) => job.no),
    whole(({ job }) => job.revision),
    smallints(moves.map(({ next }) => STATE_CODES[next.state])),
    words(({ next }) => next.reason),
    whole(({ next }) => next.chapter),
    whole(({ next }) => next.failures),
    whole(({ next }) => next.losses),
    whole(({ next }) => next.defers),
    whole(({ next }) => next.handbacks),
    whole(({ next }) => next.streak),
    words(({ next }) => next.streakSession),
    whole(({ next }) => next.evidence),
    words(({ next }) => jsonOrNull(next.ruleCounts)),
    longs(({ next }) => next.runAt),
    longs(({ next }) => next.expiresAt),
    longs(({ job, next }) => checkAt(next.expiresAt, job.deadlineAt)),
    longs(({ next }) => next.cancelRequestedAt),
    longs(({ next }) => next.firstStartedAt),
    longs(({ next }) => next.finishedAt),
    longs(({ next }) => next.discardedAt),
    words(({ next }) => jsonOrNull(next.usage)),
    whole(({ avoidSession }) => avoidSession),
  ];
}
