/** Reads the jobs that a claim has just started. A claim is the busiest reader, and a column costs as much as a small
 *  object: what is known of a job at this moment, or nearly always empty, is not read. */

import { NO_TAGS, parseOrNull, type StartedJob, type StoredJob } from "../stored-job.ts";
import type { Context } from "./context.ts";
import type { SqlValue } from "./driver.ts";
import { JOB_COLUMNS, toJob } from "./rows.ts";

/** As usual for all but a few jobs; those where one of them is not are read whole. */
const RARE = `coalesce(j.streak_session, j.rule_counts, j.usage, j.deadline_at) is not null
  or j.losses + j.defers + j.handbacks + j.streak > 0 or j.chapter > 1`;

export function startedReader({ db, interned }: Context) {
  const from = "from json_each(?) as want cross join job j on j.no = want.value left join payload p on p.job = j.no";
  const previous =
    "case when j.attempt > 1 then (select failure from attempt a where a.job = j.no and a.attempt = j.attempt - 1) end";
  const short = db.prepare(
    `select j.no, j.id, j.lane, j.policy, j.priority, j.run_at, j.revision, j.attempt, j.failures, j.submitted_at,
       j.first_started_at, j.expire_in, j.timeout_ms, j.key, j.tags, ${RARE}, p.body, ${previous} ${from}`,
  );
  const whole = db.prepare(`select ${JOB_COLUMNS.replaceAll(/\w+/g, "j.$&")}, p.body, ${previous} ${from}`);
  for (const statement of [short, whole]) statement.setReturnArrays(true);

  /** These jobs as they are, whoever started them, in the order of the numbers. */
  function readWhole(numbers: readonly number[]): StartedJob[] {
    const rows = whole.all(JSON.stringify(numbers)) as SqlValue[][];
    return rows.map((row) => ({
      job: toJob(row, interned),
      payload: row.at(-2) as string,
      previous: row.at(-1) as string | null,
    }));
  }

  /** These jobs, started by this session at this instant, within the same transaction. */
  function readStarted(numbers: readonly number[], session: { no: number; id: string }, now: number): StartedJob[] {
    return (short.all(JSON.stringify(numbers)) as SqlValue[][]).map((r): StartedJob => {
      if (r[15] === 1) return readWhole([r[0] as number])[0] as StartedJob;
      const lane = interned.lane(r[2] as number);
      const job: StoredJob = {
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
      };
      return { job, payload: r[16] as string, previous: r[17] as string | null };
    });
  }

  return { readStarted, readWhole };
}
