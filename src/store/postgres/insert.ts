/** Inserts lists of jobs: the statements with their values, and the answers for submit keys that exist already. */
import { hasBudget } from "../../core/decision/budget.ts";
import { isOutage } from "../../core/errors.ts";
import { submittedText } from "../../core/job/lifecycle.ts";
import type { NewRun } from "../../core/run/run.ts";
import { newLedger } from "../ledger.ts";
import { type KeyOwner, keyAnswer } from "../plan/insert.ts";
import type { InsertAnswer, NewJob } from "../store.ts";
import { checkAt, STATE_CODES } from "../stored-job.ts";
import { bigints, ints, smallints, texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow, PgStatement, PgValue } from "./driver.ts";
import { explained, messageOf, UnknownCommit } from "./error-classes.ts";
import { BATCH } from "./events.ts";
import { refusal } from "./group.ts";
import type { PostgresInterned } from "./interned.ts";

// One statement writes all rows of a list. The statements for lists without parents, annotations, names, budgets and runs
// omit those columns: most lists have none.

export interface InsertItem {
  readonly job: NewJob;
  readonly now: number;
  /** The number of the nearest job above it with a budget. */
  readonly above?: number | null;
  /** Of a step: the number of its run's job, and of its row. */
  readonly runNo?: number | null;
  readonly step?: number | null;
}

/** One number for the jobs and one for the events of the statement; see events.ts. */
const NUMBERS = `drawn as materialized (
    select nextval('$s.job_no') * ${BATCH} as jobs, nextval('$s.event_seq') * ${BATCH} as events
    where pg_current_xact_id() is not null
  )`;

const TYPES =
  "$1::text[], $2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[], " +
  "$9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[]";
const NAMES =
  "id, lane, policy, priority, state, run_at, submitted_at, expires_at, check_at, deadline_at, expire_in, " +
  "timeout_ms, key, tags, body, data";
/** The values of keys come last. */
const KEYS_AFTER = { usual: 17, whole: 30 };

/** A repeat always writes to the log: a commit that wrote nothing waits neither for the disk nor for a standby, and
 *  would acknowledge what only the first try wrote. */
export const LOGGED = "pg_logical_emit_message(true, 'perdure', 'repeat')::text";

interface InsertShape {
  readonly isRepeat: boolean;
  /** With parents, annotations, names, budgets, and the details of runs and their steps. */
  readonly isWhole: boolean;
}

const columns = ({ isWhole }: InsertShape) =>
  isWhole
    ? `unnest(${TYPES}, $17::text[], $18::smallint[], $19::text[], $20::text[], $21::text[], $22::bigint[], $23::text[],
       $24::bigint[], $25::int[], $26::text[], $27::text[], $28::text[], $29::bigint[]) with ordinality
       as u (${NAMES}, parent, depth, annotations, name, action, above, ledger, run, step, detail, pins, run_data, run_deadline,
       ord)`
    : `unnest(${TYPES}) with ordinality as u (${NAMES}, ord)`;

/** The rows of the jobs in `new`. A repeat only writes those that do not exist yet; the insert waits for a first try
 *  that is still in progress. */
function rows({ isRepeat, isWhole }: InsertShape): string {
  const fresh = isRepeat ? "fresh" : "new";
  const more = isWhole ? ", parent, depth, annotations, name, action, step" : "";
  return `
  sub as (
    insert into $s.submission (job, id, lane, submitted_at, deadline_at, expire_in, timeout_ms, key, tags, body${more})
    select no, id, lane, submitted_at, deadline_at, expire_in, timeout_ms, key, tags, body${more} from new
    ${isRepeat ? "on conflict (id) do nothing returning job" : ""}
  ),
  ${isRepeat ? "fresh as materialized (select * from new where no in (select job from sub))," : ""}
  hot as (
    insert into $s.job (no, lane, policy, priority, state, run_at, revision, chapter, attempt, expires_at, check_at${
      isWhole ? ", budget, run" : ""
    })
    select no, lane, policy, priority, state, run_at, 1, 1, 0, expires_at, check_at${
      isWhole ? ", case when ledger is null then above else no end, run" : ""
    } from ${fresh}
  ),
  ${isWhole ? `ledgers as (insert into $s.budget (job, above, body) select no, above, ledger from ${fresh} where ledger is not null),` : ""}
  ${isWhole ? runRows(fresh) : ""}
  tagged as (
    insert into $s.tag (tag, job)
    select t.tag, f.no from ${fresh} f cross join lateral json_array_elements_text(f.tags::json) as t (tag)
    where f.tags is not null on conflict do nothing
  ),
  written as (
    insert into $s.event (seq, job, n, at, name, data) select seq, no, 1, submitted_at, 'job.submitted', data from ${fresh}
  )`;
}

/** Null, which the column refuses, if one of them is not stored. */
export const pinsOf = (pins: string) => `case when not exists (
    select from json_each_text(${pins}::json) e where not exists (select from $s.playbook p where p.hash = e.value)
  ) then ${pins} end`;

/** The details of jobs that are runs, and the message by which they start. */
const runRows = (fresh: string) => `runs as (
    insert into $s.run (job, playbook, phase, open, made, state, deadline_at, origin)
    select f.no, (select p.no from $s.playbook p where p.hash = r.playbook), r.phase, r.open, r.made, r.state, f.run_deadline, r.origin
    from ${fresh} f cross join lateral json_to_record(f.detail::json)
      as r (playbook text, phase text, open int, made int, state text, origin text)
    where f.detail is not null
  ),
  run_bodies as (
    insert into $s.run_data (run, pins, data)
    select no, ${pinsOf("pins")}, run_data from ${fresh} where detail is not null
  ),
  starts as (insert into $s.inbox (job, kind, at) select no, 'start', submitted_at from ${fresh} where detail is not null),`;

const numbered = (shape: InsertShape) =>
  `select drawn.jobs + ord as no, drawn.events + ord as seq, u.* from drawn cross join ${columns(shape)}`;

function plain(shape: InsertShape): string {
  return `with ${NUMBERS}, new as materialized (${numbered(shape)}), ${rows(shape)}
    select ${shape.isRepeat ? LOGGED : "1 where false"}`;
}

function keyed(shape: InsertShape): string {
  const first = shape.isWhole ? KEYS_AFTER.whole : KEYS_AFTER.usual;
  const arrays = ["text", "text", "text", "text", "bigint"].map((type, i) => `$${first + i}::${type}[]`).join(", ");
  return `with ${NUMBERS}, k as (
      insert into $s.submit_key (namespace, key, id, body_hash, at)
      select * from unnest(${arrays}) as n (namespace, key, id, h, at)
      order by namespace, key
      -- a stub whose window is over is replaced; a repeat finds its own job
      on conflict (namespace, key) do update
        set id = excluded.id, body_hash = excluded.body_hash, at = excluded.at, state = null, chapter = null, until = null
        where submit_key.until <= excluded.at or submit_key.id = excluded.id
      returning id
    ),
    new as materialized (${numbered(shape)} where (u.key is null or u.id in (select id from k))), ${rows(shape)}
    select id from k`;
}

/** By what the list needs: with keys, and with parents or annotations. */
function insertStatements(sql: PostgresContext["sql"]) {
  const make = (name: string, text: (shape: InsertShape) => string, isWhole: boolean) => {
    const first = sql(name, text({ isRepeat: false, isWhole }));
    const repeat = sql(`${name}_again`, text({ isRepeat: true, isWhole }));
    return (tries: number): PgStatement => (tries === 0 ? first : repeat);
  };
  return {
    usual: { plain: make("insert", plain, false), keyed: make("insert_keyed", keyed, false) },
    whole: { plain: make("insert_whole", plain, true), keyed: make("insert_whole_keyed", keyed, true) },
  };
}

function isWhole(items: readonly InsertItem[]): boolean {
  return items.some(
    ({ job }) =>
      job.parent !== null ||
      job.annotations !== null ||
      job.name !== null ||
      job.action !== null ||
      job.run !== undefined ||
      hasBudget(job.policy),
  );
}

/** The numbers of these jobs' lanes and policies. */
export interface NameNumbers {
  readonly lanes: Pick<PostgresInterned, "laneNo">;
  /** By hash. */
  readonly policies: ReadonlyMap<string, number>;
}

function rowValues(items: readonly InsertItem[], { lanes, policies }: NameNumbers): PgValue[] {
  const jobs = items.map((item) => item.job);
  const usual = [
    texts(jobs.map((job) => job.id)),
    ints(jobs.map((job) => lanes.laneNo(job))),
    ints(jobs.map((job) => policies.get(job.policyHash) as number)),
    smallints(jobs.map((job) => job.priority)),
    smallints(jobs.map((job) => STATE_CODES[job.transition.next.state])),
    bigints(jobs.map((job) => job.transition.next.runAt)),
    bigints(items.map((item) => item.now)),
    bigints(jobs.map((job) => job.transition.next.expiresAt)),
    bigints(jobs.map((job) => checkAt(job.transition.next.expiresAt, job.deadlineAt))),
    bigints(jobs.map((job) => job.deadlineAt)),
    bigints(jobs.map((job) => job.expireInMs)),
    bigints(jobs.map((job) => job.timeoutMs)),
    texts(jobs.map((job) => job.key)),
    texts(jobs.map((job) => (job.tags.length === 0 ? null : JSON.stringify(job.tags)))),
    texts(jobs.map((job) => job.payload)),
    texts(jobs.map((job) => submittedText(job.transition.event.data))),
  ];
  if (!isWhole(items)) return usual;
  return [
    ...usual,
    texts(jobs.map((job) => job.parent?.id ?? null)),
    smallints(jobs.map((job) => (job.parent === null ? null : job.depth))),
    texts(jobs.map((job) => job.annotations)),
    texts(jobs.map((job) => job.name)),
    texts(jobs.map((job) => job.action)),
    bigints(items.map(({ above = null }) => above)),
    texts(jobs.map((job) => (hasBudget(job.policy) ? newLedger(job.id, job.policy) : null))),
    bigints(items.map(({ runNo = null }) => runNo)),
    ints(items.map(({ step = null }) => step)),
    texts(jobs.map(({ run }) => (run === undefined ? null : runDetail(run)))),
    texts(jobs.map(({ run }) => (run === undefined ? null : JSON.stringify(run.pins)))),
    texts(jobs.map(({ run }) => (run === undefined ? null : run.data))),
    bigints(jobs.map(({ run }) => run?.deadlineAt ?? null)),
  ];
}

function runDetail({ playbook, origin, progress: { phase, open, made, state } }: NewRun): string {
  return JSON.stringify({ playbook, phase, open, made, state: JSON.stringify(state), origin });
}

function keyValues(items: readonly InsertItem[]): PgValue[] {
  return [
    texts(items.map(({ job }) => job.namespace)),
    texts(items.map(({ job }) => job.key)),
    texts(items.map(({ job }) => job.id)),
    texts(items.map(({ job }) => job.bodyHash)),
    bigints(items.map(({ now }) => now)),
  ];
}

// One statement writes all rows. Submit keys take two: the keys are inserted in order, and existing ones are read by a
// second statement, because the first cannot see the rows that it conflicted with.

/** Runs a statement on some connection. */
export type RunStatement = (statement: PgStatement, values: readonly PgValue[]) => Promise<PgRow[]>;

/** Sends a list of jobs: as a transaction of its own, or within the caller's. */
type SendStatement = (statement: (tries: number) => PgStatement, values: readonly PgValue[]) => Promise<PgRow[]>;

/** State of one call of `insert`. */
interface InsertWork {
  readonly items: readonly InsertItem[];
  readonly names: NameNumbers;
  readonly send: SendStatement;
  readonly ask: RunStatement;
}

export function inserter(context: PostgresContext) {
  const { sql, interned, marks } = context;
  const statements = insertStatements(sql);
  const byKey = sql(
    "keys",
    `select k.namespace, k.key, k.id, k.body_hash, coalesce(j.state, k.state), coalesce(j.chapter, k.chapter), k.until
     from unnest($1::text[], $2::text[]) as want (namespace, key)
     join $s.submit_key k on k.namespace = want.namespace and k.key = want.key
     left join $s.submission b on b.id = k.id left join $s.job j on j.no = b.job`,
  );

  /** Before `insert`, and outside its transaction: the holder of a connection must not wait for another. */
  async function storeNames(items: readonly InsertItem[]): Promise<NameNumbers> {
    const now = items[0]?.now ?? 0;
    const policies = await interned.store(
      items.map((item) => item.job),
      now,
    );
    return { lanes: interned, policies };
  }

  /** `ask` reads which jobs have these keys; it must see what was committed meanwhile. */
  async function insert(items: readonly InsertItem[], names: NameNumbers, send: SendStatement, ask: RunStatement) {
    const answers: (InsertAnswer | undefined)[] = new Array(items.length);
    let left = items.map((_, i) => i);
    // Twice at most for a key whose job is pruned at that moment, and one extra round.
    for (let round = 0; left.length > 0 && round < 3; round++) {
      left = await insertThese({ items, names, send, ask }, left, answers);
    }
    for (const i of left)
      answers[i] = refusal(new Error("its key changed repeatedly during the call; repeat the call"));
    return answers as InsertAnswer[];
  }

  /** Returns the indexes that are still without an answer. */
  async function insertThese(
    { items, names, send, ask }: InsertWork,
    places: readonly number[],
    answers: (InsertAnswer | undefined)[],
  ): Promise<number[]> {
    const owners = new Map<string, number>();
    const mine: number[] = [];
    const repeats: number[] = [];
    for (const i of places) {
      const { job } = items[i] as InsertItem;
      if (job.key !== null && owners.has(keyName(job.namespace, job.key))) repeats.push(i);
      else {
        mine.push(i);
        if (job.key !== null) owners.set(keyName(job.namespace, job.key), i);
      }
    }
    const chosen = mine.map((i) => items[i] as InsertItem);
    const values = rowValues(chosen, names);
    const { plain, keyed } = isWhole(chosen) ? statements.whole : statements.usual;
    let inserted: Set<string> | null = null;
    if (owners.size === 0) await send(plain, values);
    else {
      const keyedJobs = chosen.filter(({ job }) => job.key !== null);
      const rows = await send(keyed, [...values, ...keyValues(keyedJobs)]);
      inserted = new Set(rows.map(([id]) => id as string));
    }
    const taken: number[] = [...repeats];
    for (const i of mine) {
      const { job } = items[i] as InsertItem;
      if (job.key !== null && inserted?.has(job.id) !== true) taken.push(i);
      else {
        answers[i] = { status: "inserted", id: job.id };
        marks.put(interned.laneNo(job), job.priority, job.transition.next.runAt);
      }
    }
    return taken.length === 0 ? [] : answerTaken(items, taken, answers, ask);
  }

  async function answerTaken(
    items: readonly InsertItem[],
    taken: readonly number[],
    answers: (InsertAnswer | undefined)[],
    ask: RunStatement,
  ): Promise<number[]> {
    const jobs = taken.map((i) => (items[i] as InsertItem).job);
    // Other jobs of this list may be stored already: after an error now, the outcome is unknown.
    const owners = await keyOwners(jobs, ask).catch((error: unknown) => {
      throw isOutage(error) ? explained(new UnknownCommit(messageOf(error))) : error;
    });
    const gone: number[] = [];
    for (const i of taken) {
      const { job } = items[i] as InsertItem;
      const owner = owners.get(keyName(job.namespace, job.key as string));
      if (owner === undefined) gone.push(i);
      else answers[i] = keyAnswer(job, owner);
    }
    return gone;
  }

  /** The owners of these jobs' keys, by `keyName`. */
  async function keyOwners(jobs: readonly NewJob[], ask: RunStatement): Promise<ReadonlyMap<string, KeyOwner>> {
    const rows = await ask(byKey, [texts(jobs.map((job) => job.namespace)), texts(jobs.map((job) => job.key))]);
    return new Map(rows.map((row) => [keyName(row[0] as string, row[1] as string), toKeyOwner(row)]));
  }

  return { storeNames, insert, keyOwners };
}

/** Over a caller's own connection numbers may come as texts. */
function toKeyOwner([, , id, bodyHash, state, chapter, until]: PgRow): KeyOwner {
  return {
    ...{ id: id as string, bodyHash: bodyHash as string },
    state: numberOrNull(state),
    chapter: numberOrNull(chapter),
    until: numberOrNull(until),
  };
}

export function numberOrNull(value: unknown): number | null {
  return value === null ? null : Number(value);
}

export function keyName(namespace: string, key: string): string {
  return JSON.stringify([namespace, key]);
}
