/** Searches jobs. Only bound values enter the statements. Candidates come in order of their numbers from the most
 *  suitable index or from the table, and each is checked against all conditions. SQLite blocks the process, so a search
 *  runs in slices, one per turn of the event loop, and a call ends after a number of them (`../find.ts`). */

import { type EventLoop, nextTurn } from "../../lib/clock.ts";
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
  toGlob,
  writeCursor,
} from "../find.ts";
import { FEW_LANES, type Lane } from "../lane.ts";
import type { JobFilter, JobRow } from "../store.ts";
import { STATE_CODES, type StoredJob } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import type { SqlStatement, SqlValue } from "./driver.ts";
import type { SqliteReader } from "./read.ts";
import { JOB_COLUMNS, toJob } from "./rows.ts";

const DEFAULT_LIMIT = 100;
export const MAX_FIND = 1_000;

/** Jobs in a state whose index has another order are sorted if there are fewer than this. */
const FEW = SCAN;

/** Conditions and their values. */
class WhereClause {
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

/** Conditions that every plan checks in the same way. They need no index, because a call checks a bounded
 *  number of jobs. Undefined: no condition. */
type SqliteField = Exclude<keyof JobFilter, PlannedField>;
type SqliteCondition = readonly [sql: string, ...values: SqlValue[]] | undefined;

const PLAIN_CONDITIONS: { readonly [K in SqliteField]: (value: NonNullable<JobFilter[K]>) => SqliteCondition } = {
  parentId: (id) => ["j.parent = ?", id],
  tag: (tag) => ["exists (select 1 from tag where tag = ? and job = j.no)", tag],
  idPrefix: (prefix) => ["j.id >= ? and j.id < ?", prefix, afterPrefix(prefix)],
  deadLetter: (isDead) => (isDead ? ["j.discarded_at is null"] : undefined),
  submittedAfter: (at) => ["j.submitted_at >= ?", at],
  submittedBefore: (at) => ["j.submitted_at < ?", at],
};

function addPlain(where: WhereClause, filter: JobFilter): void {
  for (const [field, conditionOf] of Object.entries(PLAIN_CONDITIONS) as [
    SqliteField,
    (value: unknown) => SqliteCondition,
  ][]) {
    const condition = filter[field] === undefined ? undefined : conditionOf(filter[field]);
    if (condition !== undefined) where.add(...condition);
  }
}

/** A list of candidates, such as the children of a job: `from` to `where`, and the name of its job number column. */
interface FindBranch {
  readonly from: string;
  readonly number: string;
  readonly values: readonly SqlValue[];
}

interface FindPlan {
  /** The union of all branches is searched. Null: all jobs. */
  readonly branches: readonly FindBranch[] | null;
  readonly where: WhereClause;
  /** How many jobs may be checked. */
  readonly budget: number;
}

interface FindSlice {
  readonly jobs: readonly JobRow[];
  readonly hasMore: boolean;
  readonly checked: number;
  readonly chars: number;
  /** Where the next slice starts. */
  readonly last: number;
}

type RunRead = <T>(give: () => T) => Promise<T>;
type FoundPage = { readonly jobs: JobRow[]; readonly next: string | null };

export function finder(
  { db, interned }: SqliteContext,
  reader: SqliteReader,
  secret: string,
  loop: Pick<EventLoop, "turn">,
) {
  const few = (index: string, state: number) =>
    db.prepare(
      `select count(*) as jobs from (select 1 from job indexed by ${index} where state = ${state} limit ${FEW})`,
    );
  const areFew = { job_ready: few("job_ready", 0), job_running: few("job_running", 1) };
  const prefixed = db.prepare(`select no from job where id >= ? and id < ? order by id limit ${MAX_PREFIXED}`);

  return async (filter: JobFilter, answer: RunRead): Promise<FoundPage> => {
    const limit = Math.max(1, Math.min(filter.limit ?? DEFAULT_LIMIT, MAX_FIND));
    const newest = filter.order !== "oldest";
    const before = filter.cursor === undefined ? null : readCursor(filter.cursor, filter, secret);
    const plan = await answer(() => planOf(filter));
    if (plan.branches?.length === 0) return { jobs: [], next: null };
    const read = slicer(plan, newest);

    const jobs: JobRow[] = [];
    let place = before ?? (newest ? Number.MAX_SAFE_INTEGER : 0);
    let size = Math.min(SCAN, FIRST_SLICE * (limit + 1));
    let chars = filter.chars ?? FIND_CHARS;
    for (let checked = 0; ; ) {
      const slice = await answer(() => read(place, size, { limit: limit - jobs.length, chars }));
      jobs.push(...slice.jobs);
      checked += slice.checked;
      chars -= slice.chars;
      place = slice.last;
      if (!slice.hasMore && slice.checked < size) return { jobs, next: null };
      if (jobs.length >= limit || chars <= 0 || checked >= plan.budget) {
        return { jobs, next: writeCursor(place, filter, secret) };
      }
      size = Math.min(SCAN, size * SLICE_GROWTH, plan.budget - checked);
      await nextTurn(loop); // yield to other work
    }
  };

  /** Reads the next slice: a number of candidates after `place`, and as many matches as a page may have. */
  function slicer({ branches, where }: FindPlan, newest: boolean) {
    const [after, until, order, extreme] = newest ? ["<", ">=", "desc", "min"] : [">", "<=", "asc", "max"];
    const columns = JOB_COLUMNS.replaceAll(/\w+/g, "j.$&");
    const fitting = `${where} order by j.no ${order} limit ?`;
    const rowsOf = (text: string): SqlStatement => {
      const statement = db.prepare(text);
      statement.setReturnArrays(true);
      return statement;
    };
    const list = (branches ?? []).map(
      ({ from, number }) =>
        `select * from (select ${number} as no ${from} and ${number} ${after} ? order by 1 ${order} limit ?)`,
    );
    const end =
      branches === null
        ? db.prepare(
            `select ${extreme}(no) as last, count(*) as checked
             from (select no from job where no ${after} ? order by no ${order} limit ?)`,
          )
        : db.prepare(
            `select ${extreme}(no) as last, count(*) as checked, json_group_array(no) as list
             from (select no from (${list.join(" union all ")}) order by no ${order} limit ?)`,
          );
    const rows =
      branches === null
        ? rowsOf(`select ${columns} from job j not indexed where j.no ${after} ? and j.no ${until} ? and ${fitting}`)
        : rowsOf(`select ${columns} from json_each(?) n cross join job j on j.no = n.value where ${fitting}`);

    return (place: number, size: number, most: { readonly limit: number; readonly chars: number }): FindSlice => {
      const bound = branches === null ? [place, size] : [...branches.flatMap((b) => [...b.values, place, size]), size];
      const edge = end.get(...bound) as { last: number | null; checked: number; list?: string };
      if (edge.last === null) return { jobs: [], hasMore: false, checked: 0, chars: 0, last: place };
      const range = branches === null ? [place, edge.last] : [edge.list as string];
      const read = rows.all(...range, ...where.values, most.limit + 1).map((row) => toJob(row, interned));
      const jobs: JobRow[] = [];
      let chars = 0;
      for (const job of read.slice(0, most.limit)) {
        if (chars >= most.chars) break;
        const row = reader.view(job);
        jobs.push(row);
        chars += charsOfJob(row);
      }
      const hasMore = read.length > jobs.length;
      const last = hasMore ? (read[jobs.length - 1] as StoredJob).no : edge.last;
      return { jobs, hasMore, checked: edge.checked, chars, last };
    };
  }

  function planOf(filter: JobFilter): FindPlan {
    const where = new WhereClause();
    const lanes = matchingLanes(filter);
    const states = statesOf(filter);
    if (lanes !== null) where.add("j.lane in (select value from json_each(?))", numbers(lanes));
    if (states !== null) where.add(`j.state in (${states.join(", ")})`);
    addPlain(where, filter);
    if (hidesSteps(filter)) where.add("j.run is null");
    const called = calledLanes(filter, lanes);
    const exact = exactOf(filter, called);
    if (exact !== null) where.add(`j.${exact} = ?`, filter[exact] as string);
    const isScan = addScans(where, filter, exact, called);
    const budget = isScan ? SCAN : MAX_CHECKED;
    const isNothing = states?.length === 0 || lanes?.length === 0;
    return { where, budget, branches: isNothing ? [] : branchesOf(filter, { lanes, states, exact }) };
  }

  /** Conditions without an index. */
  function addScans(where: WhereClause, filter: JobFilter, exact: ExactField, called: readonly Lane[]): boolean {
    const { name, action, reason } = filter;
    if (name !== undefined && exact !== "name") {
      const fit = isPattern(name) ? (["j.name glob ?", toGlob(name)] as const) : (["j.name = ?", name] as const);
      const unnamed = "(j.name is null and j.lane in (select value from json_each(?)))";
      where.add(`(${fit[0]} or ${unnamed})`, fit[1], numbers(called));
    }
    if (action !== undefined && exact !== "action") {
      if (isPattern(action)) where.add("j.action glob ?", toGlob(action));
      else where.add("j.action = ?", action);
    }
    if (reason !== undefined) where.add("j.reason in (select value from json_each(?))", JSON.stringify(reason));
    return (
      reason !== undefined || (name !== undefined && exact !== "name") || (action !== undefined && exact !== "action")
    );
  }

  /** The candidate lists: the shortest known list that contains all matches. */
  function branchesOf(filter: JobFilter, known: ResolvedFilter): readonly FindBranch[] | null {
    const { key, tag, parentId, idPrefix, namespace } = filter;
    if (key !== undefined) {
      const scope = namespace === undefined ? "" : " and namespace = ?";
      const from = `from job where id in (select id from submit_key where key = ?${scope})`;
      return [{ from, number: "no", values: namespace === undefined ? [key] : [key, namespace] }];
    }
    if (idPrefix !== undefined) {
      const found = prefixed.all(idPrefix, afterPrefix(idPrefix)) as { no: number }[];
      return [
        { from: "from json_each(?) where true", number: "value", values: [JSON.stringify(found.map(({ no }) => no))] },
      ];
    }
    if (parentId !== undefined) return [ordered("job_parent", "parent = ?", parentId)];
    const { exact } = known;
    if (exact !== null) return [ordered(`job_${exact}`, `${exact} = ?`, filter[exact] as string)];
    if (tag !== undefined) return [{ from: "from tag where tag = ?", number: "job", values: [tag] }];
    return stateBranches(known.states) ?? laneBranches(known.lanes);
  }

  /** Null if a state has no suitable index: succeeded jobs have none, and many waiting jobs would have to be sorted. */
  function stateBranches(states: readonly number[] | null): readonly FindBranch[] | null {
    const branches = (states ?? [STATE_CODES.succeeded]).map((code) => {
      // Written out, not bound: only then can SQLite use a partial index on some states.
      if (isAside(code)) return ordered("job_aside", `state = ${code} and (state = 2 or state >= 4)`);
      if (code === STATE_CODES.succeeded) return null;
      const index = code === STATE_CODES.queued ? "job_ready" : "job_running";
      const { jobs } = areFew[index].get() as { jobs: number };
      return jobs < FEW ? ordered(index, `state = ${code}`) : null;
    });
    return branches.every((branch) => branch !== null) ? branches : null;
  }

  /** Null if there are many lanes, or all are meant. */
  function laneBranches(lanes: readonly Lane[] | null): readonly FindBranch[] | null {
    if (lanes === null || lanes.length > FEW_LANES || lanes.length === [...interned.lanes()].length) return null;
    return lanes.map(({ no }) => ordered("job_lane", "lane = ?", no));
  }

  /** Null: any lane. */
  function matchingLanes({ namespace, queue, kind }: JobFilter): readonly Lane[] | null {
    if (namespace === undefined && queue === undefined && kind === undefined) return null;
    return [...interned.lanes()]
      .filter((lane) => namespace === undefined || lane.namespace === namespace)
      .filter((lane) => queue === undefined || queue.includes(lane.queue))
      .filter((lane) => kind === undefined || kind.includes(lane.kind));
  }

  /** Lanes whose jobs, if unnamed, are called by a kind that matches the search. */
  function calledLanes(filter: JobFilter, lanes: readonly Lane[] | null): readonly Lane[] {
    if (filter.name === undefined) return [];
    return [...(lanes ?? interned.lanes())].filter((lane) => isCalled(filter, lane.kind));
  }
}

type ExactField = "name" | "action" | null;

interface ResolvedFilter {
  readonly lanes: readonly Lane[] | null;
  readonly states: readonly number[] | null;
  readonly exact: ExactField;
}

function ordered(index: string, condition: string, ...values: SqlValue[]): FindBranch {
  return { from: `from job indexed by ${index} where ${condition}`, number: "no", values };
}

/** Blocked, failed and cancelled jobs have their own index. */
function isAside(code: number): boolean {
  return code === STATE_CODES.blocked || code >= STATE_CODES.failed;
}

/** State codes are our own numbers, so they may be part of the statement. Null: any state. */
function statesOf({ state, deadLetter, reason }: JobFilter): number[] | null {
  const codes = state === undefined ? null : [...new Set(state)].map((name) => STATE_CODES[name]);
  if (deadLetter !== true && reason === undefined) return codes;
  return codes === null || codes.includes(STATE_CODES.failed) ? [STATE_CODES.failed] : [];
}

/** The column whose index can be used. */
function exactOf({ name, action }: JobFilter, called: readonly Lane[]): ExactField {
  if (name !== undefined && !isPattern(name) && called.length === 0) return "name";
  return action !== undefined && !isPattern(action) ? "action" : null;
}

function numbers(lanes: readonly Lane[]): string {
  return JSON.stringify(lanes.map(({ no }) => no));
}
