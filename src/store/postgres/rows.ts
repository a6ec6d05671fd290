/** Converts rows to jobs and back, in the order of `JOB_COLUMNS`. */
import type { Transition } from "../../core/job/lifecycle.ts";
import { messageOf } from "../../core/run/inbox.ts";
import {
  addProgress,
  type ColumnType,
  type InternedValues,
  JOB_COLUMN_NAMES,
  toJob as jobOf,
  PROGRESS_COLUMNS,
  type RowValues,
} from "../job-row.ts";
import { jsonOrNull, type StoredJob } from "../stored-job.ts";
import { columnArrays } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PgRow, PgValue } from "./driver.ts";
import { writeJobEvents } from "./events.ts";
import type { PostgresInterned } from "./interned.ts";

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

export const JOB_COLUMNS = `${JOB_COLUMN_NAMES.map((name) => `${SUBMITTED.has(name) ? "b" : "j"}.${name}`).join(", ")}, j.run`;

export const COLUMN_COUNT = JOB_COLUMN_NAMES.length + 1;

export function toJob(row: PgRow, interned: InternedValues): StoredJob {
  return jobOf(row, interned, row[COLUMN_COUNT - 1] as number | null);
}

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
  message: "text",
  message_ref: "text",
  message_body: "text",
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

/** What a statement returns of the rows that it changed, for `writeJobEvents` and `writeMessages`. */
export const MOVED = "j.no, j.revision, j.run, m.at, m.event, m.data, m.message, m.message_ref, m.message_body";

/** Part of a statement: the messages to runs of which the changes in `rows` are a step's end, or a command on the run. */
export const writeMessages = (rows: string) => `sent as (
    insert into $s.inbox (job, kind, ref, at, body)
    select case message when 'ended' then run else no end, message, message_ref, at, message_body from ${rows} where message is not null
  )`;

/** Writes changes of jobs, each with its event. */
export const WRITE_MOVES = `with ${MOVES},
  moved as (
    update $s.job j set ${SET_PROGRESS} from m where j.no = m.no and j.revision = m.revision - 1
    returning ${MOVED}
  ),
  ${writeMessages("moved")},
  ${writeJobEvents("moved", "at", "event", "data")}
  select no from moved`;

export function moveValues(moves: readonly Move[]): PgValue[] {
  const values: RowValues = [];
  for (const { job, change, at, avoidSession } of moves) {
    values.push(job.no);
    addProgress(values, job, change.next, avoidSession);
    values.push(at, change.event.name, JSON.stringify(change.event.data));
    const message = messageOf(job, change.event, change.next);
    if (message === null) values.push(null, null, null);
    else values.push(message.kind, message.ref, jsonOrNull(message.body));
  }
  return columnArrays(values, Object.values(MOVE_COLUMNS));
}
