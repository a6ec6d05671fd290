/** Reads and writes rows: jobs in the order of `JOB_COLUMNS`, just-claimed jobs (with fewer columns), and ledgers of
 *  budgets. */
import type { JobProgressFields } from "../../core/job/job.ts";
import {
  addProgress,
  JOB_COLUMN_NAMES,
  toJob as jobOf,
  PROGRESS_COLUMNS,
  type RowValues,
  toStarted,
} from "../job-row.ts";
import { type LedgerRow, Ledgers } from "../ledger.ts";
import type { StartedJob, StoredJob } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import type { SqlValue } from "./driver.ts";
import type { SqliteInterned } from "./interned.ts";

/** How many columns that is. */
export const JOB_WIDTH = JOB_COLUMN_NAMES.length + 1;
export const JOB_COLUMNS = [...JOB_COLUMN_NAMES, "run"].join(", ");

/** The driver's types do not know that these statements return rows as arrays. */
export function toJob(row: unknown, interned: SqliteInterned): StoredJob {
  const values = row as readonly unknown[];
  return jobOf(values, interned, values[JOB_COLUMN_NAMES.length] as number | null);
}

/** Sets every field that a settle or an amend may change, to the values of `addProgress`. */
export const UPDATE_PROGRESS = `update job set ${Object.keys(PROGRESS_COLUMNS)
  .map((name) => `${name} = ?`)
  .join(", ")}, live_usage = null where no = ?`;

export function progressValues(job: StoredJob, next: JobProgressFields, avoidSession: number | null): SqlValue[] {
  const values: RowValues = [];
  addProgress(values, job, next, avoidSession);
  values.push(job.no);
  return values;
}

// Reads jobs that a claim has just started. Claims are the most frequent reads, and a column costs as much as a small
// object, so columns with a known or nearly always empty value are not read.

/** Null for all but a few jobs; the others are read with all columns. */
const RARE = `coalesce(j.streak_session, j.rule_counts, j.usage, j.deadline_at, j.budget) is not null
  or j.losses + j.defers + j.handbacks + j.streak > 0 or j.chapter > 1`;

export function startedReader({ db, interned }: SqliteContext) {
  const from = "from json_each(?) as want cross join job j on j.no = want.value left join payload p on p.job = j.no";
  const previous =
    "case when j.attempt > 1 then (select failure from attempt a where a.job = j.no and a.attempt = j.attempt - 1) end";
  const place = "j.parent, j.depth, j.run";
  // The columns that `toStarted` expects.
  const short = db.prepare(
    `select j.no, j.id, j.lane, j.policy, j.priority, j.run_at, j.revision, j.attempt, j.failures, j.submitted_at,
       j.first_started_at, j.expire_in, j.timeout_ms, j.key, j.tags, ${RARE}, p.body, ${previous}, ${place} ${from}`,
  );
  const whole = db.prepare(`select ${JOB_COLUMNS.replaceAll(/\w+/g, "j.$&")}, p.body, ${previous} ${from}`);
  for (const statement of [short, whole]) statement.setReturnArrays(true);

  /** Reads these jobs with all columns, in the order of the numbers. */
  function readWhole(numbers: readonly number[]): StartedJob[] {
    const rows = whole.all(JSON.stringify(numbers)) as SqlValue[][];
    return rows.map((row) => ({
      job: toJob(row, interned),
      payload: row.at(-2) as string,
      previous: row.at(-1) as string | null,
    }));
  }

  /** Reads these jobs, which this session started at this time, within the same transaction. */
  function readStarted(numbers: readonly number[], session: { no: number; id: string }, now: number): StartedJob[] {
    const rows = short.all(JSON.stringify(numbers)) as SqlValue[][];
    return rows.map((row) =>
      row[15] === 1 ? (readWhole([row[0] as number])[0] as StartedJob) : toStarted(row, interned, session, now),
    );
  }

  return { readStarted, readWhole };
}

// Ledgers of budgets. The write lock is held wherever they change.

export function ledgerBook({ db }: Pick<SqliteContext, "db">) {
  const line = db.prepare(
    `with recursive line (job, above, body) as (
       select job, above, body from budget where job = ?
       union all select b.job, b.above, b.body from line cross join budget b on b.job = line.above
     ) select job, above, body from line`,
  );
  line.setReturnArrays(true);
  const set = db.prepare("update budget set body = ? where job = ?");

  return {
    /** Loads the ledger of this number and all above it unless they are known; reads nothing for a job without one. */
    learn(ledgers: Ledgers, no: number | null): void {
      if (no !== null && !ledgers.has(no)) ledgers.learn(line.all(no) as unknown as LedgerRow[]);
    },
    of(no: number): Ledgers {
      return new Ledgers(line.all(no) as unknown as LedgerRow[]);
    },
    write(ledgers: Ledgers): void {
      for (const { no, body } of ledgers.takeChanged()) set.run(body, no);
    },
  };
}
