/** Searching jobs. Only bound values enter the statement; which index serves it follows from what is asked. */
import { readCursor, writeCursor } from "../cursor.ts";
import type { JobFilter, JobRow } from "../store.ts";
import { STATE_CODES } from "../stored-job.ts";
import { ints } from "./arrays.ts";
import type { Context } from "./context.ts";
import { LONG, type Value } from "./driver.ts";
import { type Reader, ROW_COLUMNS } from "./read.ts";
import { learnRows } from "./rows.ts";

const DEFAULT_LIMIT = 100;
const MAX_FIND = 1_000;

export function finder({ db, sql, interned }: Context, reader: Reader, secret: string) {
  return async (filter: JobFilter): Promise<{ jobs: JobRow[]; next: string | null }> => {
    const limit = Math.max(1, Math.min(filter.limit ?? DEFAULT_LIMIT, MAX_FIND));
    const newest = filter.order !== "oldest";
    const where: string[] = [];
    const values: Value[] = [];
    const bind = (value: Value) => `$${values.push(value)}`;

    const lanes = await matchingLanes(filter);
    if (lanes !== null) where.push(`j.lane = any (${bind(ints(lanes))}::int[])`);
    const states = statesOf(filter);
    // Written out, not bound: only then is it known that an index on some states serves.
    if (states !== null) where.push(states.length === 0 ? "false" : `j.state in (${states.join(", ")})`);
    if (filter.deadLetter === true) where.push("j.discarded_at is null");
    if (areAside(states)) where.push("(j.state = 2 or j.state >= 4)");
    if (filter.parentId !== undefined) where.push(`b.parent = ${bind(filter.parentId)}`);
    if (filter.tag !== undefined) where.push(`j.no in (select job from $s.tag where tag = ${bind(filter.tag)})`);
    if (filter.key !== undefined) {
      const scope = filter.namespace === undefined ? "" : ` and namespace = ${bind(filter.namespace)}`;
      where.push(`b.id in (select id from $s.submit_key where key = ${bind(filter.key)}${scope})`);
    }
    if (filter.submittedAfter !== undefined) where.push(`b.submitted_at >= ${bind(filter.submittedAfter)}`);
    if (filter.submittedBefore !== undefined) where.push(`b.submitted_at < ${bind(filter.submittedBefore)}`);
    // Children have an index in the order of their numbers, on the table of what was submitted.
    const number = filter.parentId === undefined ? "j.no" : "b.job";
    if (filter.cursor !== undefined) {
      where.push(`${number} ${newest ? "<" : ">"} ${bind(readCursor(filter.cursor, filter, secret))}`);
    }
    const text = `select ${ROW_COLUMNS} from $s.job j join $s.submission b on b.job = j.no
      ${where.length > 0 ? `where ${where.join(" and ")}` : ""}
      order by ${number} ${newest ? "desc" : "asc"} limit ${bind(limit + 1)}`;
    const rows = await db.read({ ...sql("", text, LONG), name: "" }, values);
    await learnRows(interned, rows);
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    const more = rows.length > limit && last !== undefined;
    return { jobs: page.map(reader.toRow), next: more ? writeCursor(last[0] as number, filter, secret) : null };
  };

  /** Null: any lane. */
  async function matchingLanes({ namespace, queue, kind }: JobFilter): Promise<number[] | null> {
    if (namespace === undefined && queue === undefined && kind === undefined) return null;
    await interned.readLanes();
    return [...interned.allLanes()]
      .filter((lane) => namespace === undefined || lane.namespace === namespace)
      .filter((lane) => queue === undefined || queue.includes(lane.queue))
      .filter((lane) => kind === undefined || kind.includes(lane.kind))
      .map((lane) => lane.no);
  }
}

/** Codes of our own, so that they may stand in the statement. Null: any state. */
function statesOf({ state, deadLetter }: JobFilter): number[] | null {
  const asked = state?.map((name) => STATE_CODES[name]) ?? null;
  if (deadLetter !== true) return asked;
  return asked === null || asked.includes(STATE_CODES.failed) ? [STATE_CODES.failed] : [];
}

/** Blocked, failed and cancelled jobs have an index of their own. */
function areAside(states: readonly number[] | null): boolean {
  return states !== null && states.length > 0 && states.every((code) => code === 2 || code >= 4);
}
