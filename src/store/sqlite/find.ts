/** Searching jobs. Only bound values enter the statement; which index serves it follows from what is asked. */

import { readCursor, writeCursor } from "../cursor.ts";
import type { JobFilter, JobRow } from "../store.ts";
import { STATE_CODES } from "../stored-job.ts";
import type { Context } from "./context.ts";
import type { SqlValue } from "./driver.ts";
import type { Reader } from "./read.ts";
import { JOB_COLUMNS, toJob } from "./rows.ts";

const DEFAULT_LIMIT = 100;
export const MAX_FIND = 1_000;

const FEW = 5_000;

/** Blocked, failed and cancelled jobs have an index of their own. */
function areAside(states: readonly number[] | null): boolean {
  return states !== null && states.length > 0 && states.every((code) => code === 2 || code >= 4);
}

export function finder({ db, interned }: Context, reader: Reader, secret: string) {
  const fewWaiting = db.prepare(
    `select count(*) as waiting from (select 1 from job indexed by job_ready where state = 0 limit ${FEW})`,
  );
  return (filter: JobFilter): { jobs: JobRow[]; next: string | null } => {
    const limit = Math.max(1, Math.min(filter.limit ?? DEFAULT_LIMIT, MAX_FIND));
    const newest = filter.order !== "oldest";
    const where: string[] = [];
    const values: SqlValue[] = [];
    const add = (sql: string, ...bound: SqlValue[]) => {
      where.push(sql);
      values.push(...bound);
    };

    const lanes = matchingLanes(filter);
    if (lanes !== null) add("j.lane in (select value from json_each(?))", JSON.stringify(lanes));
    const states = statesOf(filter);
    // Written out, not bound: only then can SQLite tell that an index on some states serves.
    if (states !== null) add(states.length === 1 ? `j.state = ${states[0]}` : `j.state in (${states.join(", ")})`);
    if (filter.deadLetter === true) add("j.discarded_at is null");
    if (areAside(states)) add("(j.state = 2 or j.state >= 4)");
    if (filter.parentId !== undefined) add("j.parent = ?", filter.parentId);
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

    const sql = `select ${JOB_COLUMNS.replaceAll(/\w+/g, "j.$&")} from job j ${indexFor(filter, states)}
      ${where.length > 0 ? `where ${where.join(" and ")}` : ""} order by j.no ${newest ? "desc" : "asc"} limit ?`;
    const statement = db.prepare(sql);
    statement.setReturnArrays(true);
    const rows = statement.all(...values, limit + 1).map((row) => toJob(row, interned));
    const page = rows.slice(0, limit);
    const lastRow = page.at(-1);
    const more = rows.length > limit && lastRow !== undefined;
    return { jobs: page.map(reader.view), next: more ? writeCursor(lastRow.no, filter, secret) : null };
  };

  /** Codes of our own, so that they may stand in the statement. Null: any state. */
  function statesOf({ state, deadLetter }: JobFilter): number[] | null {
    const asked = state?.map((name) => STATE_CODES[name]) ?? null;
    if (deadLetter !== true) return asked;
    return asked === null || asked.includes(STATE_CODES.failed) ? [STATE_CODES.failed] : [];
  }

  /** Jobs are read in the order of their numbers unless few enough are in the asked state to be sorted. */
  function indexFor({ key, tag, parentId }: JobFilter, states: readonly number[] | null): string {
    if (states?.length === 0) return "not indexed"; // nothing is in no state, and then no index serves
    if (parentId !== undefined) return "indexed by job_parent";
    if (key !== undefined || tag !== undefined) return "";
    if (states === null) return "not indexed";
    if (areAside(states)) return "indexed by job_aside";
    if (states.length > 1) return "not indexed";
    if (states[0] === STATE_CODES.running) return "indexed by job_running";
    const { waiting } = fewWaiting.get() as { waiting: number };
    return states[0] === STATE_CODES.queued && waiting < FEW ? "indexed by job_ready" : "not indexed";
  }

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
