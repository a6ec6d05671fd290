/** Converts rows to jobs and back, in the order of `JOB_COLUMNS`. */
import type { Transition } from "../../core/job/lifecycle.ts";
import {
  addProgress,
  type ColumnType,
  type InternedValues,
  JOB_COLUMN_NAMES,
  PROGRESS_COLUMNS,
  type RowValues,
} from "../job-row.ts";
import type { StoredJob } from "../stored-job.ts";
import { columnArrays } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PgRow, PgValue } from "./driver.ts";
import { writeJobEvents } from "./events.ts";
import type { PostgresInterned } from "./interned.ts";

export { toJob } from "../job-row.ts";

/** Columns of `submission b`; all others are of `job j`. */
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

/** Loads what `toJob` needs for these rows. */
export function learnRows(
  interned: PostgresInterned,
  rows: readonly PgRow[],
  connection?: PgConnection,
): Promise<InternedValues> {
  const column = (i: number) => rows.map((row) => row[i] as number);
  return interned.learn(column(2), column(3), column(18) as (number | null)[], connection?.ask);
}

/** A change of a job, with its event. */
export interface Move {
  readonly job: StoredJob;
  readonly change: Transition;
  readonly at: number;
  readonly avoidSession: number | null;
}

const MOVE_COLUMNS: Readonly<Record<string, ColumnType>> = {
  no: "bigint",
  ...PROGRESS_COLUMNS,
  at: "bigint",
  event: "text",
  data: "text",
};

/** The rows of `moveValues`, written if the job has not changed since: `j.revision = m.revision - 1`. */
export const MOVES = `m as materialized (
    select * from unnest(${Object.values(MOVE_COLUMNS)
      .map((type, i) => `$${i + 1}::${type}[]`)
      .join(", ")}) as u (${Object.keys(MOVE_COLUMNS).join(", ")})
  )`;

export const SET_PROGRESS = `${Object.keys(PROGRESS_COLUMNS)
  .map((name) => `${name} = m.${name}`)
  .join(", ")}, live_usage = null`;

/** Writes changes of jobs, each with its event. */
export const WRITE_MOVES = `with ${MOVES},
  moved as (
    update $s.job j set ${SET_PROGRESS} from m where j.no = m.no and j.revision = m.revision - 1
    returning j.no, j.revision, m.at, m.event, m.data
  ),
  ${writeJobEvents("moved", "at", "event", "data")}
  select no from moved`;

export function moveValues(moves: readonly Move[]): PgValue[] {
  const values: RowValues = [];
  for (const { job, change, at, avoidSession } of moves) {
    values.push(job.no);
    addProgress(values, job, change.next, avoidSession);
    values.push(at, change.event.name, JSON.stringify(change.event.data));
  }
  return columnArrays(values, Object.values(MOVE_COLUMNS));
}
