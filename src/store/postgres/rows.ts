/** Rows to jobs and back, in the order of `JOB_COLUMNS`. */
import { JOB_STATES, type JobProgressFields } from "../../core/job.ts";
import { checkAt, jsonOrNull, NO_TAGS, parseOrNull, STATE_CODES, type StoredJob, toReason } from "../stored-job.ts";
import { bigints, ints, smallints, texts } from "./arrays.ts";
import type { Connection } from "./connections.ts";
import type { Cell, Row, Value } from "./driver.ts";
import type { Interned } from "./interned.ts";

/** Of `job j` and `submission b`. */
export const JOB_COLUMNS = [
  ...["j.no", "b.id", "j.lane", "j.policy", "j.priority", "j.state", "j.run_at", "j.revision", "j.chapter"],
  ...["j.attempt", "j.failures", "j.losses", "j.defers", "j.handbacks", "j.streak", "j.streak_session"],
  ...["j.rule_counts", "j.reason", "j.session", "b.submitted_at", "j.started_at", "j.first_started_at"],
  ...["j.finished_at", "j.expires_at", "b.deadline_at", "b.expire_in", "b.timeout_ms", "j.cancel_requested_at"],
  ...["j.discarded_at", "j.usage", "j.live_usage", "j.progress", "b.key", "b.tags"],
].join(", ");

export const COLUMN_COUNT = JOB_COLUMNS.split(",").length;

/** Makes sure that all that `toJob` needs is known. */
export function learnRows(interned: Interned, rows: readonly Row[], connection?: Connection): Promise<void> {
  const column = (i: number) => rows.map((row) => row[i] as number);
  return interned.learn(column(2), column(3), column(18) as (number | null)[], connection?.ask);
}

export function toJob(r: readonly Cell[], interned: Interned): StoredJob {
  const lane = interned.lane(r[2] as number);
  const session = r[18] as number | null;
  return {
    no: r[0] as number,
    id: r[1] as string,
    lane: r[2] as number,
    namespace: lane.namespace,
    queue: lane.queue,
    kind: lane.kind,
    labels: lane.labels,
    policy: interned.policy(r[3] as number),
    priority: r[4] as number,
    state: JOB_STATES[r[5] as number] as (typeof JOB_STATES)[number],
    runAt: r[6] as number,
    revision: r[7] as number,
    chapter: r[8] as number,
    attempt: r[9] as number,
    failures: r[10] as number,
    losses: r[11] as number,
    defers: r[12] as number,
    handbacks: r[13] as number,
    streak: r[14] as number,
    streakSession: r[15] as string | null,
    ruleCounts: parseOrNull(r[16] as string | null),
    reason: toReason(r[17] as string | null),
    session,
    worker: session === null ? null : interned.sessionId(session),
    submittedAt: r[19] as number,
    startedAt: r[20] as number | null,
    firstStartedAt: r[21] as number | null,
    finishedAt: r[22] as number | null,
    expiresAt: r[23] as number | null,
    deadlineAt: r[24] as number | null,
    expireInMs: r[25] as number | null,
    timeoutMs: r[26] as number | null,
    cancelRequestedAt: r[27] as number | null,
    discardedAt: r[28] as number | null,
    usage: parseOrNull(r[29] as string | null),
    liveUsage: r[30] as string | null,
    progress: r[31] as string | null,
    key: r[32] as string | null,
    tags: r[33] === null ? NO_TAGS : (JSON.parse(r[33] as string) as string[]),
  };
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
    ...["bigint", "int", "smallint", "text", "int", "int", "int", "int", "int", "int", "text", "text"],
    ...["bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "text", "int"],
  ];
  return types.map((type, i) => `$${first + i}::${type}[]`).join(", ");
}

export const PROGRESS_NAMES =
  "no, old_revision, state, reason, chapter, failures, losses, defers, handbacks, streak, streak_session, rule_counts, " +
  "run_at, expires_at, check_at, cancel_requested_at, first_started_at, finished_at, discarded_at, usage, avoid_session";

export const SET_PROGRESS = `
  state = m.state, reason = m.reason, chapter = m.chapter, revision = j.revision + 1, failures = m.failures,
  losses = m.losses, defers = m.defers, handbacks = m.handbacks, streak = m.streak, streak_session = m.streak_session,
  rule_counts = m.rule_counts, run_at = m.run_at, expires_at = m.expires_at, check_at = m.check_at,
  cancel_requested_at = m.cancel_requested_at, first_started_at = m.first_started_at, finished_at = m.finished_at,
  discarded_at = m.discarded_at, usage = m.usage, live_usage = null, avoid_session = m.avoid_session`;

export function progressValues(moves: readonly Move[]): Value[] {
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
