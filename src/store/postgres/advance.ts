/** Writes what follows from the messages of runs: up to 200 runs in one transaction, each only if its job is still at the revision
 *  that was loaded. The jobs of the runs are locked first, in the order of their numbers; messages are deleted by number, so those
 *  that commit meanwhile stay unread. */
import { isTerminal } from "../../core/job/job.ts";
import { messageOf } from "../../core/run/inbox.ts";
import { addProgress, type ColumnType, PROGRESS_COLUMNS, type RowValues } from "../job-row.ts";
import { STEP_CODES } from "../run-row.ts";
import type { AdvanceAnswer, AdvanceWrite, InsertAnswer } from "../store.ts";
import { jsonOrNull, type StoredJob } from "../stored-job.ts";
import { columnArrays, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgValue } from "./driver.ts";
import { writeJobEvents } from "./events.ts";
import type { GroupVerb } from "./group.ts";
import { type InsertItem, inserter, LOGGED, type NameNumbers, pinsOf } from "./insert.ts";
import { JOB_COLUMNS, learnRows, SET_PROGRESS, toJob } from "./rows.ts";
import { runLaneHolder } from "./run-lanes.ts";

export interface AdvanceItem {
  readonly write: AdvanceWrite;
  readonly now: number;
}

/** A write whose run is locked and has not moved. */
interface ReadyAdvance extends AdvanceItem {
  readonly job: StoredJob;
}

/** Jobs of one statement. */
const TOGETHER = 1_000;
const MAX_CHARS = 8_000_000;

type Columns = Readonly<Record<string, ColumnType>>;

const MOVE: Columns = { no: "bigint", ...PROGRESS_COLUMNS };
const EVENT: Columns = { no: "bigint", revision: "int", at: "bigint", event: "text", data: "text" };
/** `has`: which of the deadline, the result and the failure are written, as bits. */
const RUN: Columns = {
  ...{ no: "bigint", open: "int", made: "int", has: "int", deadline_at: "bigint" },
  ...{ phase: "text", state: "text", playbook: "text", result: "text", failure: "text" },
};
const DATA: Columns = { no: "bigint", data: "text", pins: "text" };
const MADE: Columns = {
  ...{ run: "bigint", n: "int", visit: "int", item: "int", try: "int", state: "smallint" },
  ...{ at: "bigint", due: "bigint", ended_at: "bigint" },
  ...{ node: "text", job: "text", tokens: "text", items: "text", result: "text", failure: "text" },
};
const CHANGED: Columns = {
  ...{ run: "bigint", n: "int", state: "smallint", has: "int", ended_at: "bigint", result: "text", failure: "text" },
};
const VARIABLE: Columns = { run: "bigint", name: "text", value: "text" };
const READ: Columns = { no: "bigint", job: "bigint" };
const SENT: Columns = { job: "bigint", at: "bigint", kind: "text", ref: "text", body: "text" };
const TIMER: Columns = { job: "bigint", n: "int", due_at: "bigint" };
const DROPPED: Columns = { job: "bigint", n: "int" };
/** Runs that end: their timers go. */
const ENDED: Columns = { job: "bigint" };

const HAS_DEADLINE = 1;
const HAS_RESULT = 2;
const HAS_FAILURE = 4;

/** The lists of one statement, each with its place among the values. */
const LISTS = { MOVE, EVENT, RUN, DATA, MADE, CHANGED, VARIABLE, READ, SENT, TIMER, DROPPED, ENDED } as const;
type ListName = keyof typeof LISTS;
type AdvanceLists = Record<ListName, RowValues>;

function unnested(name: ListName, alias: string): string {
  let first = 1;
  for (const [other, columns] of Object.entries(LISTS)) {
    if (other === name) break;
    first += Object.keys(columns).length;
  }
  const columns = Object.entries(LISTS[name]);
  const arrays = columns.map(([, type], i) => `$${first + i}::${type}[]`).join(", ");
  return `unnest(${arrays}) with ordinality as ${alias} (${columns.map(([column]) => column).join(", ")}, ord)`;
}

const columnsOf = (name: ListName) => Object.keys(LISTS[name]).join(", ");
const kept = (table: string, bit: number, column: string) =>
  `${column} = case when m.has & ${bit} > 0 then m.${column} else ${table}.${column} end`;

const WRITE = `with moved as (
    update $s.job j set ${SET_PROGRESS} from ${unnested("MOVE", "m")} where j.no = m.no
  ),
  happened as materialized (select * from ${unnested("EVENT", "e")}),
  ${writeJobEvents("happened", "at", "event", "data", "ord")},
  runs as (
    update $s.run r set phase = m.phase, open = m.open, made = m.made, state = m.state,
      playbook = case when m.playbook is null then r.playbook else (select p.no from $s.playbook p where p.hash = m.playbook) end,
      ${kept("r", HAS_DEADLINE, "deadline_at")}, ${kept("r", HAS_RESULT, "result")}, ${kept("r", HAS_FAILURE, "failure")}
    from ${unnested("RUN", "m")} where r.job = m.no
  ),
  bodies as (
    update $s.run_data d set data = coalesce(m.data, d.data), pins = case when m.pins is null then d.pins else ${pinsOf("m.pins")} end
    from ${unnested("DATA", "m")} where d.run = m.no
  ),
  made as (insert into $s.step (${columnsOf("MADE")}) select ${columnsOf("MADE")} from ${unnested("MADE", "m")}),
  changed as (
    update $s.step s set state = m.state, ended_at = m.ended_at, ${kept("s", HAS_RESULT, "result")},
      ${kept("s", HAS_FAILURE, "failure")}
    from ${unnested("CHANGED", "m")} where s.run = m.run and s.n = m.n
  ),
  variables as (
    insert into $s.variable (run, name, value) select run, name, value from ${unnested("VARIABLE", "m")}
    on conflict (run, name) do update set value = excluded.value
  ),
  taken as (delete from $s.inbox i using ${unnested("READ", "m")} where i.no = m.no and i.job = m.job),
  sent as (insert into $s.inbox (${columnsOf("SENT")}) select ${columnsOf("SENT")} from ${unnested("SENT", "m")}),
  timed as (
    insert into $s.timer (job, n, due_at) select job, n, due_at from ${unnested("TIMER", "m")}
    on conflict (job, n) do update set due_at = excluded.due_at
  ),
  dropped as (delete from $s.timer t using ${unnested("DROPPED", "m")} where t.job = m.job and t.n = m.n),
  stopped as (delete from $s.timer t using ${unnested("ENDED", "m")} where t.job = m.job)
  select 1 where false`;

export function advanceVerb(context: PostgresContext): GroupVerb<AdvanceItem, AdvanceAnswer> {
  const { db, sql, interned, wrote } = context;
  const { storeNames, insert } = inserter(context);
  const { withLanes, held } = runLaneHolder(context);
  const lock = sql(
    "advance_lock",
    `select ${JOB_COLUMNS} from $s.submission b join $s.job j on j.no = b.job where b.id = any ($1::text[])
     order by j.no for update of j`,
  );
  const write = sql("advance", WRITE);
  const logged = sql("advance_again", `select ${LOGGED}`);

  async function lockRuns(connection: PgConnection, items: readonly AdvanceItem[]): Promise<(ReadyAdvance | null)[]> {
    const rows = await connection.ask(lock, [texts([...new Set(items.map((item) => item.write.run))])]);
    const names = await learnRows(interned, rows, connection);
    const jobs = new Map(rows.map((row) => toJob(row, names)).map((job) => [job.id, job]));
    return items.map((item) => {
      const job = jobs.get(item.write.run);
      if (job === undefined || job.revision !== item.write.revision) return null;
      jobs.delete(job.id); // a second write of this list is based on what the first one changes
      return { ...item, job };
    });
  }

  /** Null: the lane of a job was deleted meanwhile, and nothing is written. */
  async function writeAll(
    connection: PgConnection,
    items: readonly AdvanceItem[],
    names: NameNumbers,
  ): Promise<AdvanceAnswer[] | null> {
    const locked = await lockRuns(connection, items);
    const ready = locked.filter((each) => each !== null);
    if (ready.length > 0) {
      const jobs = ready.flatMap(jobsOf);
      const stored = jobs.length === 0 ? [] : await held(jobs, connection.ask, () => store(connection, jobs, names));
      if (stored === null) return null;
      const other = stored.findIndex(({ status }) => status !== "inserted");
      if (other >= 0) throw new Error(`the job of a step was not stored: ${JSON.stringify(stored[other])}`);
      await connection.ask(write, valuesOf(ready));
    }
    return locked.map((each) => ({ status: each === null ? "moved" : "written" }));
  }

  async function store(
    { ask }: PgConnection,
    jobs: readonly InsertItem[],
    names: NameNumbers,
  ): Promise<InsertAnswer[]> {
    const answers: InsertAnswer[] = [];
    for (const part of inParts(jobs)) {
      answers.push(...(await insert(part, names, (statement, values) => ask(statement(0), values), ask)));
    }
    return answers;
  }

  return {
    inFlight: 3,
    together: 200,
    weigh: ({ write: { jobs, made, data } }) =>
      jobs.reduce((sum, { payload }) => sum + payload.length, 0) +
      made.reduce((sum, { items, result }) => sum + (items?.length ?? 0) + (result?.length ?? 0), 0) +
      (data?.length ?? 0),
    async run(items) {
      const jobs = items.flatMap(({ write: { jobs }, now }) => jobs.map((job) => ({ job, now })));
      const names = await storeNames(jobs);
      const answers = await withLanes(jobs, () =>
        db.transaction(
          async (connection, tries) => {
            // Otherwise a repeat could answer before what the first try wrote is on disk.
            if (tries > 0) await connection.ask(logged);
            return writeAll(connection, items, names);
          },
          { repeat: true },
        ),
      );
      wrote();
      return answers;
    },
  };
}

function jobsOf({ write: { run, jobs, made }, job: { no, budget }, now }: ReadyAdvance): InsertItem[] {
  if (jobs.length === 0) return [];
  const steps = new Map(made.map(({ row }) => [row.job, row.n]));
  return jobs.map(
    (job) =>
      job.runId === run ? { job, now, above: budget, runNo: no, step: steps.get(job.id) ?? null } : { job, now }, // an independent run
  );
}

function inParts(jobs: readonly InsertItem[]): InsertItem[][] {
  const parts: InsertItem[][] = [];
  let chars = Infinity;
  for (const item of jobs) {
    const more = item.job.payload.length;
    const last = parts.at(-1);
    if (last === undefined || last.length === TOGETHER || chars + more > MAX_CHARS) {
      parts.push([item]);
      chars = more;
    } else {
      last.push(item);
      chars += more;
    }
  }
  return parts;
}

function valuesOf(ready: readonly ReadyAdvance[]): PgValue[] {
  const lists = Object.fromEntries(Object.keys(LISTS).map((name) => [name, []])) as unknown as AdvanceLists;
  for (const each of ready) addWrite(lists, each);
  return Object.entries(LISTS).flatMap(([name, columns]) =>
    columnArrays(lists[name as ListName], Object.values(columns)),
  );
}

function addWrite(lists: AdvanceLists, { write, job, now }: ReadyAdvance): void {
  const { no } = job;
  for (const read of write.read) lists.READ.push(read, no);
  const last = write.transitions.at(-1);
  if (last === undefined) return;
  if (isTerminal(last.next.state)) lists.ENDED.push(no);
  lists.MOVE.push(no);
  addProgress(lists.MOVE, job, last.next, null);
  let before: Pick<StoredJob, "state"> = job;
  for (const { event, next } of write.transitions) {
    lists.EVENT.push(no, next.revision, now, event.name, JSON.stringify(event.data));
    const message = messageOf({ ...job, state: before.state }, event, next);
    if (message !== null) lists.SENT.push(job.run, now, message.kind, message.ref, jsonOrNull(message.body));
    before = next;
  }
  addRun(lists, write, no);
  addSteps(lists, write, no);
  for (const [name, value] of Object.entries(write.variables)) lists.VARIABLE.push(no, name, value);
  for (const { kind, body } of write.send) lists.SENT.push(no, now, kind, null, jsonText(body));
  const set = new Set(write.timers.set.map(({ n }) => n));
  if (isTerminal(last.next.state)) return;
  for (const { n, dueAt } of write.timers.set) lists.TIMER.push(no, n, dueAt);
  for (const n of write.timers.drop) if (!set.has(n)) lists.DROPPED.push(no, n);
}

function addRun(lists: AdvanceLists, write: AdvanceWrite, no: number) {
  const { playbook = null, deadlineAt, result, failure, data, pins } = write;
  const { phase, open, made, state } = write.progress;
  const has =
    (deadlineAt === undefined ? 0 : HAS_DEADLINE) |
    (result === undefined ? 0 : HAS_RESULT) |
    (failure === undefined ? 0 : HAS_FAILURE);
  lists.RUN.push(no, open, made, has, deadlineAt ?? null, phase, JSON.stringify(state), playbook);
  lists.RUN.push(result ?? null, jsonOrNull(failure ?? null));
  if (data !== undefined || pins !== undefined) lists.DATA.push(no, data ?? null, jsonOrNull(pins ?? null));
}

/** A row that is made and ends in the same advance is inserted as it is at the end. */
function addSteps(lists: AdvanceLists, { made, changed }: AdvanceWrite, no: number): void {
  const changes = new Map(changed.map((change) => [change.n, change]));
  for (const { row, items, result, failure } of made) {
    const change = changes.get(row.n);
    changes.delete(row.n);
    const { state, endedAt } = change ?? row;
    const { result: output = result, failure: cause = failure } = change ?? {};
    lists.MADE.push(
      no,
      row.n,
      row.visit,
      row.item,
      row.try,
      STEP_CODES[state],
      row.at,
      row.due,
      endedAt,
      row.node,
      row.job,
    );
    lists.MADE.push(row.tokens.length === 0 ? null : JSON.stringify(row.tokens), items, output, jsonOrNull(cause));
  }
  for (const { n, state, endedAt, result, failure } of changes.values()) {
    const has = (result === undefined ? 0 : HAS_RESULT) | (failure === undefined ? 0 : HAS_FAILURE);
    lists.CHANGED.push(no, n, STEP_CODES[state], has, endedAt, result ?? null, jsonOrNull(failure ?? null));
  }
}

function jsonText(body: unknown): string | null {
  return body === null || body === undefined ? null : JSON.stringify(body);
}
