/** Searches jobs. Only bound values enter the statements. As on SQLite, candidates come in order of their numbers from the most
 *  suitable index or from all jobs, a slice at a time; each is checked against all conditions, and a call ends after a number of
 *  them. */
import {
  afterPrefix,
  charsOfJob,
  FIND_CHARS,
  FIRST_SLICE,
  hidesSteps,
  isCalled,
  isPattern,
  MAX_CHECKED,
  MAX_PREFIXED,
  type PlannedField,
  readCursor,
  SCAN,
  SLICE_GROWTH,
  toLike,
  writeCursor,
} from "../find.ts";
import type { Lane } from "../lane.ts";
import type { JobFilter, JobRow } from "../store.ts";
import { STATE_CODES } from "../stored-job.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import { LONG, type PgValue } from "./driver.ts";
import { type PostgresReader, ROW_COLUMNS } from "./read.ts";

const DEFAULT_LIMIT = 100;
const MAX_FIND = 1_000;

type Bind = (value: PgValue) => string;

/** Conditions that every search has in the same form; null: it narrows nothing. A prefix of an id is read beforehand. */
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

/** A list of candidates in an index in the order of their numbers, or one that is short: `from` to `where`, and the name of the
 *  column with the number of the job. */
interface PgSource {
  readonly from: string;
  readonly number: string;
  /** What the text of `from` is compared with at its end. */
  readonly value: string | null;
}

/** Its index has their lanes. */
const ALL_JOBS: PgSource = { from: "$s.submission where true", number: "job", value: null };

/** Conditions with their values. */
class PgConditions {
  readonly #texts: string[] = [];
  readonly values: PgValue[] = [];

  readonly bind: Bind = (value) => `$${this.values.push(value)}`;

  add(text: string): void {
    this.#texts.push(text);
  }
  toString(): string {
    return this.#texts.length === 0 ? "true" : this.#texts.join(" and ");
  }
}

export function finder({ db, sql, interned }: PostgresContext, reader: PostgresReader, secret: string) {
  const prefixed = sql(
    "prefixed",
    `select job from $s.submission where id >= $1 and id < $2 order by id limit ${MAX_PREFIXED}`,
  );
  const fewOf = (state: number) =>
    sql(`few_${state}`, `select count(*) from (select 1 from $s.job where state = ${state} limit ${SCAN}) c`);
  const few = { [STATE_CODES.queued]: fewOf(STATE_CODES.queued), [STATE_CODES.running]: fewOf(STATE_CODES.running) };

  return async (filter: JobFilter): Promise<{ jobs: JobRow[]; next: string | null }> => {
    const limit = Math.max(1, Math.min(filter.limit ?? DEFAULT_LIMIT, MAX_FIND));
    const [direction, beyond, extreme] = filter.order === "oldest" ? ["asc", ">", "max"] : ["desc", "<", "min"];
    // By a key, and among children, submits and workers search too: they do not wait for the searches of others.
    const aside = filter.key === undefined && filter.parentId === undefined;
    const read = (text: string, bound: readonly PgValue[]) =>
      db.read({ ...sql("", text, LONG), name: "" }, bound, { aside });

    const lanes = await matchingLanes(filter);
    const states = statesOf(filter);
    const called = await calledLanes(filter, lanes);
    const exact = exactOf(filter, called);
    const where = await conditionsOf(filter, { lanes, states, called, exact });
    // Both numbers are the same; these have indexes in the order of the numbers of submissions.
    const number = filter.parentId === undefined && exact === null ? "j.no" : "b.job";
    const cursor = filter.cursor === undefined ? null : readCursor(filter.cursor, filter, secret);
    const jobs: JobRow[] = [];
    let chars = filter.chars ?? FIND_CHARS;

    /** Adds matches to the page: those among these candidates, or all beyond the cursor. Null: all of them have been added; else
     *  the number of the last. */
    async function addMatches(candidates: readonly number[] | null): Promise<number | null> {
      const room = limit - jobs.length;
      const values = [...where.values];
      const bind: Bind = (value) => `$${values.push(value)}`;
      const among =
        candidates === null
          ? cursor === null
            ? "true"
            : `${number} ${beyond} ${bind(cursor)}`
          : `${number} = any (${bind(bigints(candidates))}::bigint[])`;
      // The first matches, up to the one that exceeds the characters of the page.
      const rows = await read(
        `select p.* from (
           select r.*, sum(size) over (order by no ${direction} rows unbounded preceding) - size as before,
             count(*) over () as total
           from (
             select m.*, octet_length(body) + coalesce(octet_length(won), 0) + coalesce(octet_length(failed), 0) as size
             from (
               select ${ROW_COLUMNS} from $s.job j join $s.submission b on b.job = j.no
               where ${where} and ${among} order by ${number} ${direction} limit ${bind(room + 1)}
             ) m
           ) r
         ) p where before < ${bind(chars)}::bigint order by no ${direction}`,
        values,
      );
      const shown = rows.slice(0, room);
      const found = await reader.toRows(shown);
      jobs.push(...found);
      for (const job of found) chars -= charsOfJob(job);
      const total = (rows[0]?.at(-1) ?? 0) as number;
      return total > shown.length ? (shown.at(-1)?.[0] as number) : null;
    }

    const page = (last: number | null) => ({ jobs, next: last === null ? null : writeCursor(last, filter, secret) });
    if (states?.length === 0 || lanes?.length === 0) return page(null);
    if (filter.key !== undefined || filter.idPrefix !== undefined) return page(await addMatches(null));
    const sources = await sourcesOf(filter, states, exact);

    /** Reads the next candidates: those of all sources together, or of all jobs, for whose lanes an index is enough. */
    async function nextCandidates(place: number | null, size: number) {
      const values: PgValue[] = [];
      const bind: Bind = (value) => `$${values.push(value)}`;
      const [after, most] = [place === null ? "" : bind(place), bind(size)];
      const lists = (sources ?? [ALL_JOBS]).map((source) => {
        const value = source.value === null ? "" : bind(source.value);
        const range = place === null ? "" : ` and ${source.number} ${beyond} ${after}`;
        const lane = sources === null ? ", lane" : "";
        return `(select ${source.number} as no${lane} from ${source.from}${value}${range}
          order by ${source.number} ${direction} limit ${most})`;
      });
      const listed =
        sources === null && lanes !== null ? ` filter (where lane = any (${bind(numbers(lanes))}::int[]))` : "";
      const all =
        lists.length === 1
          ? lists[0]
          : `(select no from (${lists.join(" union all ")}) u order by no ${direction} limit ${most})`;
      const [[end, count, list] = []] = await read(
        `select ${extreme}(no), count(*), string_agg(no::text, ',')${listed} from ${all} c`,
        values,
      );
      const candidates = typeof list === "string" ? list.split(",").map(Number) : [];
      return { end: end as number, count: (count ?? 0) as number, candidates };
    }

    const isScan = needsScan(filter, exact);
    let place = cursor;
    let size = Math.min(SCAN, FIRST_SLICE * (limit + 1));
    for (let [checked, scanned] = [0, 0]; ; ) {
      const slice = await nextCandidates(place, size);
      if (slice.candidates.length > 0) {
        const last = await addMatches(slice.candidates);
        if (last !== null) return page(last);
      }
      if (slice.count < size) return page(null);
      place = slice.end;
      checked += slice.count;
      scanned += isScan ? slice.candidates.length : 0;
      if (jobs.length >= limit || chars <= 0 || checked >= MAX_CHECKED || scanned >= SCAN) return page(place);
      size = Math.min(SCAN, size * SLICE_GROWTH, MAX_CHECKED - checked, SCAN - scanned);
    }
  };

  async function conditionsOf(
    filter: JobFilter,
    { lanes, states, called, exact }: ResolvedPgFilter,
  ): Promise<PgConditions> {
    const where = new PgConditions();
    const { bind } = where;
    if (lanes !== null) where.add(`j.lane = any (${bind(numbers(lanes))}::int[])`);
    // Written out, not bound: only then can PostgreSQL use a partial index on some states.
    if (states !== null) where.add(states.length === 0 ? "false" : `j.state in (${states.join(", ")})`);
    if (hidesSteps(filter)) where.add("j.run is null");
    for (const [field, conditionOf] of PLAIN) {
      const condition = filter[field] === undefined ? null : conditionOf(filter[field], bind);
      if (condition !== null) where.add(condition);
    }
    if (filter.key !== undefined) {
      const scope = filter.namespace === undefined ? "" : ` and namespace = ${bind(filter.namespace)}`;
      where.add(`b.id in (select id from $s.submit_key where key = ${bind(filter.key)}${scope})`);
    }
    if (filter.idPrefix !== undefined) {
      const found = await db.read(prefixed, [filter.idPrefix, afterPrefix(filter.idPrefix)]);
      where.add(`b.job = any (${bind(bigints(found.map(([no]) => no as number)))}::bigint[])`);
    }
    if (exact !== null) where.add(`b.${exact} = ${bind(filter[exact] as string)}`);
    const matching = (column: string, pattern: string) =>
      isPattern(pattern) ? `${column} like ${bind(toLike(pattern))}` : `${column} = ${bind(pattern)}`;
    if (filter.name !== undefined && exact !== "name") {
      const unnamed = `b.name is null and j.lane = any (${bind(numbers(called))}::int[])`;
      where.add(`(${matching("b.name", filter.name)} or (${unnamed}))`);
    }
    if (filter.action !== undefined && exact !== "action") where.add(matching("b.action", filter.action));
    if (filter.reason !== undefined) where.add(`j.reason = any (${bind(texts([...filter.reason]))}::text[])`);
    return where;
  }

  /** Where candidates come from: the shortest list that is known to have all matches. Null: from all jobs. */
  async function sourcesOf(
    { parentId, tag, ...filter }: JobFilter,
    states: readonly number[] | null,
    exact: PgExact,
  ): Promise<readonly PgSource[] | null> {
    if (parentId !== undefined) return [{ from: "$s.submission where parent = ", number: "job", value: parentId }];
    if (exact !== null) {
      return [{ from: `$s.submission where ${exact} = `, number: "job", value: filter[exact] as string }];
    }
    if (tag !== undefined) return [{ from: "$s.tag where tag = ", number: "job", value: tag }];
    const sources = await Promise.all((states ?? [STATE_CODES.succeeded]).map(stateSource));
    return sources.every((source) => source !== null) ? sources : null;
  }

  /** Null where no index serves: succeeded jobs have none, and many that wait or run would have to be sorted. */
  async function stateSource(code: number): Promise<PgSource | null> {
    const counted = few[code];
    if (counted === undefined) {
      if (!isAside(code)) return null;
      return { from: `$s.job where state = ${code} and (state = 2 or state >= 4)`, number: "no", value: null };
    }
    const [[jobs] = []] = await db.read(counted, [], { aside: true });
    if ((jobs as number) >= SCAN) return null;
    // Without `offset` a plan might go through all jobs in their order and check the state of each.
    return { from: `(select no from $s.job where state = ${code} offset 0) q where true`, number: "no", value: null };
  }

  /** Null: any lane. */
  async function matchingLanes({ namespace, queue, kind }: JobFilter): Promise<readonly Lane[] | null> {
    if (namespace === undefined && queue === undefined && kind === undefined) return null;
    await interned.readLanes();
    return [...interned.allLanes()]
      .filter((lane) => namespace === undefined || lane.namespace === namespace)
      .filter((lane) => queue === undefined || queue.includes(lane.queue))
      .filter((lane) => kind === undefined || kind.includes(lane.kind));
  }

  /** Lanes whose jobs, where they have no name, are called by a kind that the search means. */
  async function calledLanes(filter: JobFilter, lanes: readonly Lane[] | null): Promise<readonly Lane[]> {
    if (filter.name === undefined) return [];
    if (lanes === null) await interned.readLanes();
    return [...(lanes ?? interned.allLanes())].filter((lane) => isCalled(filter, lane.kind));
  }
}

type PgExact = "name" | "action" | null;

interface ResolvedPgFilter {
  readonly lanes: readonly Lane[] | null;
  readonly states: readonly number[] | null;
  readonly called: readonly Lane[];
  readonly exact: PgExact;
}

/** The column whose index serves the search. */
function exactOf({ name, action, parentId }: JobFilter, called: readonly Lane[]): PgExact {
  if (parentId !== undefined) return null;
  if (name !== undefined && !isPattern(name) && called.length === 0) return "name";
  return action !== undefined && !isPattern(action) ? "action" : null;
}

/** Whether a condition is left that no index serves. */
function needsScan({ name, action, reason }: JobFilter, exact: PgExact): boolean {
  return (
    reason !== undefined || (name !== undefined && exact !== "name") || (action !== undefined && exact !== "action")
  );
}

function numbers(lanes: readonly Lane[]) {
  return ints(lanes.map(({ no }) => no));
}

/** State codes are our own numbers, so they may be part of the statement. Null: any state. */
function statesOf({ state, deadLetter, reason }: JobFilter): number[] | null {
  const asked = state === undefined ? null : [...new Set(state.map((name) => STATE_CODES[name]))];
  if (deadLetter !== true && reason === undefined) return asked;
  return asked === null || asked.includes(STATE_CODES.failed) ? [STATE_CODES.failed] : [];
}

/** Blocked, failed and cancelled jobs have an index of their own. */
function isAside(code: number): boolean {
  return code === STATE_CODES.blocked || code >= STATE_CODES.failed;
}
