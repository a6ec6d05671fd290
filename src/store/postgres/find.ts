/** Searches jobs. Only bound values enter the statement; the filter determines the index. Conditions without an index
 *  are checked on a bounded part of the jobs per call. */
import {
  afterPrefix,
  isCalled,
  isPattern,
  MAX_PREFIXED,
  nextOf,
  type PlannedField,
  readCursor,
  SCAN,
  toLike,
  writeCursor,
} from "../find.ts";
import type { Lane } from "../lane.ts";
import type { JobFilter, JobRow } from "../store.ts";
import { STATE_CODES } from "../stored-job.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import { LONG, type PgRow, type PgValue } from "./driver.ts";
import { type PostgresReader, ROW_COLUMNS } from "./read.ts";

const DEFAULT_LIMIT = 100;
const MAX_FIND = 1_000;

type Bind = (value: PgValue) => string;

/** Conditions that have the same form in every search; null: no condition. An id prefix is resolved beforehand. */
type PgField = Exclude<keyof JobFilter, PlannedField | "idPrefix">;
type PgCondition<Value> = (value: Value, bind: Bind) => string | null;

const PLAIN_CONDITIONS: { readonly [K in PgField]: PgCondition<NonNullable<JobFilter[K]>> } = {
  parentId: (id, bind) => `b.parent = ${bind(id)}`,
  tag: (tag, bind) => `j.no in (select job from $s.tag where tag = ${bind(tag)})`,
  deadLetter: (isDead) => (isDead ? "j.discarded_at is null" : null),
  submittedAfter: (at, bind) => `b.submitted_at >= ${bind(at)}`,
  submittedBefore: (at, bind) => `b.submitted_at < ${bind(at)}`,
};
const PLAIN = Object.entries(PLAIN_CONDITIONS) as [PgField, PgCondition<unknown>][];

export function finder({ db, sql, interned }: PostgresContext, reader: PostgresReader, secret: string) {
  const prefixed = sql(
    "prefixed",
    `select job from $s.submission where id >= $1 and id < $2 order by id limit ${MAX_PREFIXED}`,
  );
  return async (filter: JobFilter): Promise<{ jobs: JobRow[]; next: string | null }> => {
    const limit = Math.max(1, Math.min(filter.limit ?? DEFAULT_LIMIT, MAX_FIND));
    const newest = filter.order !== "oldest";
    const where: string[] = ["true"];
    const values: PgValue[] = [];
    // Submits and workers also search, by key and among children: they do not wait behind other searches.
    const aside = filter.key === undefined && filter.parentId === undefined;
    const read = (text: string, bound: readonly PgValue[]) =>
      db.read({ ...sql("", text, LONG), name: "" }, bound, { aside });
    const bind = (value: PgValue) => `$${values.push(value)}`;

    const lanes = await matchingLanes(filter);
    if (lanes !== null) where.push(`j.lane = any (${bind(numbers(lanes))}::int[])`);
    const states = statesOf(filter);
    // Written out, not bound: only then can PostgreSQL use a partial index on some states.
    if (states !== null) where.push(states.length === 0 ? "false" : `j.state in (${states.join(", ")})`);
    if (areAside(states)) where.push("(j.state = 2 or j.state >= 4)");
    for (const [field, conditionOf] of PLAIN) {
      const condition = filter[field] === undefined ? null : conditionOf(filter[field], bind);
      if (condition !== null) where.push(condition);
    }
    if (filter.key !== undefined) {
      const scope = filter.namespace === undefined ? "" : ` and namespace = ${bind(filter.namespace)}`;
      where.push(`b.id in (select id from $s.submit_key where key = ${bind(filter.key)}${scope})`);
    }
    if (filter.idPrefix !== undefined) {
      const found = await db.read(prefixed, [filter.idPrefix, afterPrefix(filter.idPrefix)]);
      where.push(`b.job = any (${bind(bigints(found.map(([no]) => no as number)))}::bigint[])`);
    }
    const called = await calledLanes(filter, lanes);
    const exact = exactOf(filter, called);
    if (exact !== null) where.push(`b.${exact} = ${bind(filter[exact] as string)}`);
    // These have indexes in the order of their numbers, on the table `submission`.
    const number = filter.parentId === undefined && exact === null ? "j.no" : "b.job";
    if (filter.cursor !== undefined) {
      where.push(`${number} ${newest ? "<" : ">"} ${bind(readCursor(filter.cursor, filter, secret))}`);
    }
    const from = "from $s.job j join $s.submission b on b.job = j.no";
    const order = `order by ${number} ${newest ? "desc" : "asc"}`;

    let scanned: { end: number; isCut: boolean } | null = null;
    if (isScan(filter, exact)) {
      const checked = `select ${number} as no ${from} where ${where.join(" and ")} ${order} limit ${SCAN}`;
      const [[end, count] = []] = await read(
        `select ${newest ? "min" : "max"}(no), count(*) from (${checked}) c`,
        values,
      );
      scanned = { end: (end as number | null) ?? 0, isCut: count === SCAN };
      where.push(`${number} ${newest ? ">=" : "<="} ${bind(scanned.end)}`);
      if (filter.name !== undefined && exact !== "name") {
        where.push(
          `(${matching("b.name", filter.name)} or (b.name is null and j.lane = any (${bind(numbers(called))}::int[])))`,
        );
      }
      if (filter.action !== undefined && exact !== "action") where.push(matching("b.action", filter.action));
      if (filter.reason !== undefined) where.push(`j.reason = any (${bind(texts([...filter.reason]))}::text[])`);
    }
    const text = `select ${ROW_COLUMNS} ${from} where ${where.join(" and ")} ${order} limit ${bind(limit + 1)}`;
    const rows = await read(text, values);
    const next = nextOf<PgRow>(rows, limit, scanned, (row) => row[0] as number);
    const jobs = await reader.toRows(rows.slice(0, limit));
    return { jobs, next: next === null ? null : writeCursor(next, filter, secret) };

    function matching(column: string, pattern: string): string {
      return isPattern(pattern) ? `${column} like ${bind(toLike(pattern))}` : `${column} = ${bind(pattern)}`;
    }
  };

  /** Null: any lane. */
  async function matchingLanes({ namespace, queue, kind }: JobFilter): Promise<readonly Lane[] | null> {
    if (namespace === undefined && queue === undefined && kind === undefined) return null;
    await interned.readLanes();
    return [...interned.allLanes()]
      .filter((lane) => namespace === undefined || lane.namespace === namespace)
      .filter((lane) => queue === undefined || queue.includes(lane.queue))
      .filter((lane) => kind === undefined || kind.includes(lane.kind));
  }

  /** Lanes whose jobs, if unnamed, are called by a kind that matches the search. */
  async function calledLanes(filter: JobFilter, lanes: readonly Lane[] | null): Promise<readonly Lane[]> {
    if (filter.name === undefined) return [];
    if (lanes === null) await interned.readLanes();
    return [...(lanes ?? interned.allLanes())].filter((lane) => isCalled(filter, lane.kind));
  }
}

/** The column whose index can be used. */
function exactOf({ name, action, parentId }: JobFilter, called: readonly Lane[]): "name" | "action" | null {
  if (parentId !== undefined) return null;
  if (name !== undefined && !isPattern(name) && called.length === 0) return "name";
  return action !== undefined && !isPattern(action) ? "action" : null;
}

/** Whether a condition without an index is left. */
function isScan({ name, action, reason }: JobFilter, exact: "name" | "action" | null): boolean {
  return (
    reason !== undefined || (name !== undefined && exact !== "name") || (action !== undefined && exact !== "action")
  );
}

function numbers(lanes: readonly Lane[]) {
  return ints(lanes.map(({ no }) => no));
}

/** State codes are our own numbers, so they may be part of the statement. Null: any state. */
function statesOf({ state, deadLetter, reason }: JobFilter): number[] | null {
  const asked = state?.map((name) => STATE_CODES[name]) ?? null;
  if (deadLetter !== true && reason === undefined) return asked;
  return asked === null || asked.includes(STATE_CODES.failed) ? [STATE_CODES.failed] : [];
}

/** Blocked, failed and cancelled jobs have their own index. */
function areAside(states: readonly number[] | null): boolean {
  return states !== null && states.length > 0 && states.every((code) => code === 2 || code >= 4);
}
