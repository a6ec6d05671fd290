/** Reads the jobs that a claim has just started. A claim is the busiest reader, and a column costs as much as a small
 *  object: what is known of a job at this moment, or nearly always empty, is not read. */
import { toStarted } from "../job-row.ts";
import type { StartedJob } from "../stored-job.ts";
import type { Context } from "./context.ts";
import type { SqlValue } from "./driver.ts";
import { JOB_COLUMNS, toJob } from "./rows.ts";

/** As usual for all but a few jobs; those where one of them is not are read whole. */
const RARE = `coalesce(j.streak_session, j.rule_counts, j.usage, j.deadline_at, j.parent, j.budget) is not null
  or j.losses + j.defers + j.handbacks + j.streak > 0 or j.chapter > 1`;

export function startedReader({ db, interned }: Context) {
  const from = "from json_each(?) as want cross join job j on j.no = want.value left join payload p on p.job = j.no";
  const previous =
    "case when j.attempt > 1 then (select failure from attempt a where a.job = j.no and a.attempt = j.attempt - 1) end";
  // As `toStarted` reads them.
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
    const rows = short.all(JSON.stringify(numbers)) as SqlValue[][];
    return rows.map((row) =>
      row[15] === 1 ? (readWhole([row[0] as number])[0] as StartedJob) : toStarted(row, interned, session, now),
    );
  }

  return { readStarted, readWhole };
}
