/** Searching jobs. Only bound values enter the statement; which index serves it follows from what is asked. */

import { readCursor, writeCursor } from "../cursor.ts";
import type { JobFilter, JobRow } from "../store.ts";
import type { Context } from "./context.ts";
import type { SqlValue } from "./driver.ts";
import type { Reader } from "./read.ts";
import { JOB_COLUMNS, STATE_CODES, toJob } from "./rows.ts";

const DEFAULT_LIMIT = 100;
export const MAX_FIND = 1_000;

export function finder({ db, interned }: Context, reader: Reader, secret: string) {
  return (filter: JobFilter): { jobs: JobRow[]; next: string | null } => {
    const limit = Math.min(filter.limit ?? DEFAULT_LIMIT, MAX_FIND);
    const newest = filter.order !== "oldest";
    const where: string[] = [];
    const values: SqlValue[] = [];
    const add = (sql: string, ...bound: SqlValue[]) => {
      where.push(sql);
      values.push(...bound);
    };

    const lanes = matchingLanes(filter);
    if (lanes !== null) add("j.lane in (select value from json_each(?))", JSON.stringify(lanes));
    if (filter.state !== undefined) {
      const codes = filter.state.map((state) => STATE_CODES[state]);
      add(`j.state in (${codes.map(() => "?").join(", ")})`, ...codes);
    }
    if (filter.deadLetter === true) add("j.state = 4 and j.discarded_at is null");
    if (filter.tag !== undefined) add("j.no in (select job from tag where tag = ?)", filter.tag);
    if (filter.key !== undefined) {
      const scope = filter.namespace === undefined ? "" : " and namespace = ?";
      const bound = filter.namespace === undefined ? [filter.key] : [filter.key, filter.namespace];
      add(`j.id in (select id from submit_key where key = ?${scope})`, ...bound);
    }
    if (filter.submittedAfter !== undefined) add("j.submitted_at >= ?", filter.submittedAfter);
    if (filter.submittedBefore !== undefined) add("j.submitted_at < ?", filter.submittedBefore);
    if (filter.cursor !== undefined) {
      add(`j.no ${newest ? "<" : ">"} ?`, readCursor(filter.cursor, filter, secret));
    }

    const sql = `select ${JOB_COLUMNS.replaceAll(/\w+/g, "j.$&")} from job j
      ${where.length > 0 ? `where ${where.join(" and ")}` : ""} order by j.no ${newest ? "desc" : "asc"} limit ?`;
    const statement = db.prepare(sql);
    statement.setReturnArrays(true);
    const rows = statement.all(...values, limit + 1).map((row) => toJob(row, interned));
    const page = rows.slice(0, limit);
    const lastRow = page.at(-1);
    const more = rows.length > limit && lastRow !== undefined;
    return { jobs: page.map(reader.view), next: more ? writeCursor(lastRow.no, filter, secret) : null };
  };

  /** Null: any lane. */
  function matchingLanes({ namespace, queue, kind }: JobFilter): number[] | null {
    if (namespace === undefined && queue === undefined && kind === undefined) return null;
    return [...interned.lanes()]
      .filter((lane) => namespace === undefined || lane.namespace === namespace)
      .filter((lane) => queue === undefined || queue.includes(lane.queue))
      .filter((lane) => kind === undefined || kind.includes(lane.kind))
      .map((lane) => lane.no);
  }
}
