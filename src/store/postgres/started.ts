/** Reads the jobs that a claim has just started. A claim is the busiest reader, and each column costs: what is known of a
 *  job at this moment, or is nearly always as usual, is not sent. */
import { NO_TAGS, parseOrNull, type StartedJob } from "../stored-job.ts";
import type { Context } from "./context.ts";
import type { Row } from "./driver.ts";
import type { SessionFacts } from "./sessions.ts";

/** Of `job j`, and `rare` of `submission b`: as usual for all but a few jobs; those where one is not are read whole. */
export const RARE_JOB = `(j.losses + j.defers + j.handbacks + j.streak > 0 or j.chapter > 1
  or coalesce(j.streak_session, j.rule_counts, j.usage) is not null)`;
const RARE = "(j.rare or b.deadline_at is not null)";

const PREVIOUS =
  "case when j.attempt > 1 then (select failure from $s.attempt a where a.job = j.no and a.attempt = j.attempt - 1) end";

/** What belongs to a started job beside its own columns. */
export const BESIDE = `b.body, ${PREVIOUS}`;

export const SHORT_COLUMNS = `j.no, b.id, j.lane, j.policy, j.priority, j.run_at, j.revision, j.attempt, j.failures,
  b.submitted_at, j.first_started_at, b.expire_in, b.timeout_ms, b.key, b.tags, ${RARE}, ${BESIDE}`;

/** True: more must be read of it than `toStarted` knows. */
export function isRare(row: Row): boolean {
  return row[15] === true;
}

/** A job that this session has started at this instant. */
export function toStarted(r: Row, interned: Context["interned"], session: SessionFacts, now: number): StartedJob {
  const lane = interned.lane(r[2] as number);
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
    },
    payload: r[16] as string,
    previous: r[17] as string | null,
  };
}
