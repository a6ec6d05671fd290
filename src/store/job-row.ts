/** Converts rows to jobs and back. A row is an array, at half the cost of an object. Each job is one flat literal, and
 *  both functions name the same properties in the same order, so that all jobs share one hidden class. */
import { JOB_STATES, type JobProgressFields } from "../core/job/job.ts";
import type { Policy } from "../core/policy/policy.ts";
import type { Lane } from "./lane.ts";
import {
  checkAt,
  jsonOrNull,
  NO_TAGS,
  parseOrNull,
  STATE_CODES,
  type StartedJob,
  type StoredJob,
  toReason,
} from "./stored-job.ts";

/** Resolves the small numbers in a row. */
export interface InternedValues {
  lane(no: number): Lane;
  policy(no: number): Policy;
  sessionId(no: number): string;
}

/** The columns of a row of `toJob`, in order. */
export const JOB_COLUMN_NAMES: readonly string[] = [
  ...["no", "id", "lane", "policy", "priority", "state", "run_at", "revision", "chapter", "attempt"],
  ...["failures", "losses", "defers", "handbacks", "streak", "streak_session", "rule_counts", "reason", "session"],
  ...["submitted_at", "started_at", "first_started_at", "finished_at", "expires_at", "deadline_at", "expire_in"],
  ...["timeout_ms", "cancel_requested_at", "discarded_at", "usage", "live_usage", "progress", "key", "tags"],
  ...["parent", "depth", "budget", "evidence"],
];

/** `run`: the number of the run that the job is a step of; the run is then its parent. */
export function toJob(r: readonly unknown[], interned: InternedValues, run: number | null = null): StoredJob {
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
    evidence: r[37] as number,
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
    parentId: r[34] as string | null,
    runId: run === null ? null : (r[34] as string),
    depth: (r[35] as number | null) ?? 0,
    budget: r[36] as number | null,
    run,
  };
}

/** A job that this session has just started, and that has no rare fields (a budget is rare). Fields with a known value are
 *  not in the row. Column order: no, id, lane, policy, priority, run_at, revision, attempt, failures, submitted_at,
 *  first_started_at, expire_in, timeout_ms, key, tags, whether it is rare, body, previous failure, parent, depth, run. */
export function toStarted(
  r: readonly unknown[],
  interned: InternedValues,
  session: { readonly no: number; readonly id: string },
  now: number,
): StartedJob {
  const lane = interned.lane(r[2] as number);
  const parentId = (r[18] as string | null | undefined) ?? null;
  const run = (r[20] as number | null | undefined) ?? null;
  return {
    job: {
      no: r[0] as number,
      id: r[1] as string,
      lane: r[2] as number,
      namespace: lane.namespace,
      queue: lane.queue,
      kind: lane.kind,
      labels: lane.labels,
      policy: interned.policy(r[3] as number),
      priority: r[4] as number,
      state: "running",
      runAt: r[5] as number,
      revision: r[6] as number,
      chapter: 1,
      attempt: r[7] as number,
      failures: r[8] as number,
      losses: 0,
      defers: 0,
      handbacks: 0,
      streak: 0,
      streakSession: null,
      evidence: 0,
      ruleCounts: null,
      reason: null,
      session: session.no,
      worker: session.id,
      submittedAt: r[9] as number,
      startedAt: now,
      firstStartedAt: r[10] as number,
      finishedAt: null,
      expiresAt: null,
      deadlineAt: null,
      expireInMs: r[11] as number | null,
      timeoutMs: r[12] as number | null,
      cancelRequestedAt: null,
      discardedAt: null,
      usage: null,
      liveUsage: null,
      progress: null,
      key: r[13] as string | null,
      tags: parseOrNull<string[]>(r[14] as string | null) ?? NO_TAGS,
      parentId,
      runId: run === null ? null : parentId,
      depth: (r[19] as number | null | undefined) ?? 0,
      budget: null,
      run,
    },
    payload: r[16] as string,
    previous: r[17] as string | null,
  };
}

/** A PostgreSQL type; SQLite ignores it. */
export type ColumnType = "smallint" | "int" | "bigint" | "text";

/** The columns that a settle or an amend may change, in the order of `addProgress`. */
export const PROGRESS_COLUMNS: Readonly<Record<string, ColumnType>> = {
  state: "smallint",
  reason: "text",
  chapter: "int",
  revision: "int",
  failures: "int",
  losses: "int",
  defers: "int",
  handbacks: "int",
  streak: "int",
  streak_session: "text",
  evidence: "int",
  rule_counts: "text",
  run_at: "bigint",
  expires_at: "bigint",
  check_at: "bigint",
  cancel_requested_at: "bigint",
  first_started_at: "bigint",
  finished_at: "bigint",
  discarded_at: "bigint",
  usage: "text",
  avoid_session: "int",
};

/** Values of rows, one row after another. */
export type RowValues = (string | number | null)[];

/** Adds the new values of a job's columns, in the order of `PROGRESS_COLUMNS`. */
export function addProgress(
  values: RowValues,
  { deadlineAt }: Pick<StoredJob, "deadlineAt">,
  next: JobProgressFields,
  avoidSession: number | null,
): void {
  values.push(STATE_CODES[next.state], next.reason, next.chapter, next.revision, next.failures, next.losses);
  values.push(next.defers, next.handbacks, next.streak, next.streakSession, next.evidence, jsonOrNull(next.ruleCounts));
  values.push(next.runAt, next.expiresAt, checkAt(next.expiresAt, deadlineAt), next.cancelRequestedAt);
  values.push(next.firstStartedAt, next.finishedAt, next.discardedAt, jsonOrNull(next.usage), avoidSession);
}
