/** Searching jobs. Only bound values enter the statement; which index serves it follows from what is asked. What no index
 *  serves is searched for a part at a time (`find-scan.ts`). */

import { readCursor, writeCursor } from "../cursor.ts";
import { afterPrefix, isCalled, isPattern, MAX_PREFIXED, nextOf, SCAN, toGlob } from "../find-scan.ts";
import type { Lane } from "../lane.ts";
import type { JobFilter, JobRow } from "../store.ts";
import { STATE_CODES, type StoredJob } from "../stored-job.ts";
import type { Context } from "./context.ts";
import type { SqlValue } from "./driver.ts";
import type { Reader } from "./read.ts";
import { JOB_COLUMNS, toJob } from "./rows.ts";

const DEFAULT_LIMIT = 100;
export const MAX_FIND = 1_000;

const FEW = 5_000;

/** Conditions and their values. */
class Where {
  readonly #texts: string[] = [];
  readonly values: SqlValue[] = [];

  add(sql: string, ...bound: SqlValue[]): void {
    this.#texts.push(sql);
    this.values.push(...bound);
  }
  toString(): string {
    return this.#texts.length === 0 ? "true" : this.#texts.join(" and ");
  }
}

/** Blocked, failed and cancelled jobs have an index of their own. */
function areAside(states: readonly number[] | null): boolean {
  return states !== null && states.length > 0 && states.every((code) => code === 2 || code >= 4);
}

export function finder({ db, interned }: Context, reader: Reader, secret: string) {
  const fewWaiting = db.prepare(
    `select count(*) as waiting from (select 1 from job indexed by job_ready where state = 0 limit ${FEW})`,
  );
  const prefixed = db.prepare(`select no from job where id >= ? and id < ? order by id limit ${MAX_PREFIXED}`);
  return (filter: JobFilter): { jobs: JobRow[]; next: string | null } => {
    const limit = Math.max(1, Math.min(filter.limit ?? DEFAULT_LIMIT, MAX_FIND));
    const newest = filter.order !== "oldest";
    const where = new Where();
    const lanes = matchingLanes(filter);
    if (lanes !== null) where.add("j.lane in (select value from json_each(?))", numbers(lanes));
    const states = statesOf(filter);
    // Written out, not bound: only then can SQLite tell that an index on some states serves.
    if (states !== null)
      where.add(states.length === 1 ? `j.state = ${states[0]}` : `j.state in (${states.join(", ")})`);
    if (filter.deadLetter === true) where.add("j.discarded_at is null");
    if (areAside(states)) where.add("(j.state = 2 or j.state >= 4)");
    if (filter.parentId !== undefined) where.add("j.parent = ?", filter.parentId);
    if (filter.tag !== undefined) where.add("j.no in (select job from tag where tag = ?)", filter.tag);
    if (filter.key !== undefined) {
      const scope = filter.namespace === undefined ? "" : " and namespace = ?";
      const bound = filter.namespace === undefined ? [filter.key] : [filter.key, filter.namespace];
      where.add(`j.id in (select id from submit_key where key = ?${scope})`, ...bound);
    }
    if (filter.submittedAfter !== undefined) where.add("j.submitted_at >= ?", filter.submittedAfter);
    if (filter.submittedBefore !== undefined) where.add("j.submitted_at < ?", filter.submittedBefore);
    if (filter.idPrefix !== undefined) {
      const found = prefixed.all(filter.idPrefix, afterPrefix(filter.idPrefix)) as { no: number }[];
      where.add("j.no in (select value from json_each(?))", JSON.stringify(found.map(({ no }) => no)));
    }
    if (filter.cursor !== undefined) {
      where.add(`j.no ${newest ? "<" : ">"} ?`, readCursor(filter.cursor, filter, secret));
    }
    const scan = new Where();
    const called = calledLanes(filter, lanes);
    const indexed = exactOf(filter, called);
    if (indexed !== null) where.add(`j.${indexed} = ?`, filter[indexed] as string);
    if (filter.name !== undefined && indexed !== "name") {
      const fit = isPattern(filter.name) ? ["j.name glob ?", toGlob(filter.name)] : ["j.name = ?", filter.name];
      const named = "(j.name is null and j.lane in (select value from json_each(?)))";
      scan.add(`(${fit[0]} or ${named})`, fit[1] as string, numbers(called));
    }
    if (filter.action !== undefined && indexed !== "action") {
      if (isPattern(filter.action)) scan.add("j.action glob ?", toGlob(filter.action));
      else scan.add("j.action = ?", filter.action);
    }
    if (filter.reason !== undefined) {
      scan.add("j.reason in (select value from json_each(?))", JSON.stringify(filter.reason));
    }
    const from = `from job j ${indexFor(filter, states, indexed)}`;
    const order = `order by j.no ${newest ? "desc" : "asc"} limit ?`;
    const scanned = scan.values.length === 0 ? null : scanEnd(`${from} where ${where} ${order}`, where.values, newest);
    if (scanned !== null) where.add(`j.no ${newest ? ">=" : "<="} ? and ${scan}`, scanned.end, ...scan.values);

    const columns = JOB_COLUMNS.replaceAll(/\w+/g, "j.$&");
    const statement = db.prepare(`select ${columns} ${from} where ${where} ${order}`);
    statement.setReturnArrays(true);
    const rows = statement.all(...where.values, limit + 1).map((row) => toJob(row, interned));
    const next = nextOf<StoredJob>(rows, limit, scanned, (row) => row.no);
    const jobs = rows.slice(0, limit).map(reader.view);
    return { jobs, next: next === null ? null : writeCursor(next, filter, secret) };
  };

  /** The last job that this call checks. */
  function scanEnd(rest: string, values: readonly SqlValue[], newest: boolean) {
    const last = newest ? "min" : "max";
    const statement = db.prepare(`select ${last}(no) as last, count(*) as checked from (select j.no ${rest})`);
    const { last: end, checked } = statement.get(...values, SCAN) as { last: number | null; checked: number };
    return { end: end ?? 0, isCut: checked === SCAN };
  }

  /** Codes of our own, so that they may stand in the statement. Null: any state. */
  function statesOf({ state, deadLetter, reason }: JobFilter): number[] | null {
    const asked = state?.map((name) => STATE_CODES[name]) ?? null;
    if (deadLetter !== true && reason === undefined) return asked;
    return asked === null || asked.includes(STATE_CODES.failed) ? [STATE_CODES.failed] : [];
  }

  /** Jobs are read in the order of their numbers unless few enough are in the asked state to be sorted. */
  function indexFor(filter: JobFilter, states: readonly number[] | null, exact: "name" | "action" | null): string {
    const { key, tag, parentId, idPrefix } = filter;
    if (states?.length === 0) return "not indexed"; // nothing is in no state, and then no index serves
    if (parentId !== undefined) return "indexed by job_parent";
    if (key !== undefined || tag !== undefined || idPrefix !== undefined) return "";
    if (exact !== null) return `indexed by job_${exact}`;
    if (states === null) return "not indexed";
    if (areAside(states)) return "indexed by job_aside";
    if (states.length > 1) return "not indexed";
    if (states[0] === STATE_CODES.running) return "indexed by job_running";
    const { waiting } = fewWaiting.get() as { waiting: number };
    return states[0] === STATE_CODES.queued && waiting < FEW ? "indexed by job_ready" : "not indexed";
  }

  /** Null: any lane. */
  function matchingLanes({ namespace, queue, kind }: JobFilter): readonly Lane[] | null {
    if (namespace === undefined && queue === undefined && kind === undefined) return null;
    return [...interned.lanes()]
      .filter((lane) => namespace === undefined || lane.namespace === namespace)
      .filter((lane) => queue === undefined || queue.includes(lane.queue))
      .filter((lane) => kind === undefined || kind.includes(lane.kind));
  }

  /** Lanes whose jobs, where they have no name, are called by a kind that the search means. */
  function calledLanes(filter: JobFilter, lanes: readonly Lane[] | null): readonly Lane[] {
    if (filter.name === undefined) return [];
    return [...(lanes ?? interned.lanes())].filter((lane) => isCalled(filter, lane.kind));
  }
}

/** The column whose index serves the search. */
function exactOf({ name, action }: JobFilter, called: readonly Lane[]): "name" | "action" | null {
  if (name !== undefined && !isPattern(name) && called.length === 0) return "name";
  return action !== undefined && !isPattern(action) ? "action" : null;
}

function numbers(lanes: readonly Lane[]): string {
  return JSON.stringify(lanes.map(({ no }) => no));
}
