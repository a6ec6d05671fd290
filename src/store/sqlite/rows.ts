/** Rows to jobs and back. Statements return arrays, in the order of `JOB_COLUMNS`: half the cost of objects. */
import { JOB_STATES, type JobProgressFields } from "../../core/job.ts";
import { checkAt, jsonOrNull, NO_TAGS, parseOrNull, STATE_CODES, type StoredJob, toReason } from "../stored-job.ts";
import type { SqlValue } from "./driver.ts";
import type { Interned } from "./interned.ts";

export const JOB_COLUMNS = [
  ...["no", "id", "lane", "policy", "priority", "state", "run_at", "revision", "chapter", "attempt"],
  ...["failures", "losses", "defers", "handbacks", "streak", "streak_session", "rule_counts", "reason", "session"],
  ...["submitted_at", "started_at", "first_started_at", "finished_at", "expires_at", "deadline_at", "expire_in"],
  ...["timeout_ms", "cancel_requested_at", "discarded_at", "usage", "live_usage", "progress", "key", "tags"],
].join(", ");

type Cell = SqlValue;

export function toJob(row: unknown, interned: Interned): StoredJob {
  const r = row as Cell[];
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

/** Sets every field that a settle or an amend may move; the order is that of `progressValues`. */
export const UPDATE_PROGRESS = `update job set
  state = ?, reason = ?, chapter = ?, revision = ?, failures = ?, losses = ?, defers = ?, handbacks = ?, streak = ?,
  streak_session = ?, rule_counts = ?, run_at = ?, expires_at = ?, check_at = ?, cancel_requested_at = ?,
  first_started_at = ?, finished_at = ?, discarded_at = ?, usage = ?, live_usage = null, avoid_session = ?
  where no = ?`;

export function progressValues(job: StoredJob, next: JobProgressFields, avoidSession: number | null): SqlValue[] {
  return [
    STATE_CODES[next.state],
    next.reason,
    next.chapter,
    next.revision,
    next.failures,
    next.losses,
    next.defers,
    next.handbacks,
    next.streak,
    next.streakSession,
    jsonOrNull(next.ruleCounts),
    next.runAt,
    next.expiresAt,
    checkAt(next.expiresAt, job.deadlineAt),
    next.cancelRequestedAt,
    next.firstStartedAt,
    next.finishedAt,
    next.discardedAt,
    jsonOrNull(next.usage),
    avoidSession,
    job.no,
  ];
}
