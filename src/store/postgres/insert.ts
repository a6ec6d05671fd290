/** Stores new jobs. One statement writes all their rows. Submit keys take two: the keys are inserted in order, those
 *  that were already there are read by a second statement, because the first cannot see what it collided with. */
import { ConfigError, isOutage, PerdureError } from "../../core/errors.ts";
import { JOB_STATES, type JobState } from "../../core/job.ts";
import { submittedText } from "../../core/lifecycle.ts";
import type { InsertAnswer, NewJob, TransactionClient } from "../store.ts";
import { checkAt, STATE_CODES } from "../stored-job.ts";
import { bigints, ints, smallints, texts } from "./arrays.ts";
import type { Context } from "./context.ts";
import type { Row, Statement, Value } from "./driver.ts";
import { BATCH } from "./events.ts";
import { type GroupVerb, refusal } from "./group.ts";
import { explained, messageOf, troubleOf, UnknownCommit } from "./trouble.ts";
import { IN_TRANSACTION } from "./watch.ts";

export interface InsertItem {
  readonly job: NewJob;
  readonly now: number;
}

/** How a list of jobs gets to the database: as a transaction of its own, or within somebody's. */
export type Send = (statement: (tries: number) => Statement, values: readonly Value[]) => Promise<Row[]>;

/** One number for the jobs and one for the events of the statement; the transaction has its own before (feed.ts). */
const NUMBERS = `drawn as materialized (
    select nextval('$s.job_no') * ${BATCH} as jobs, nextval('$s.event_seq') * ${BATCH} as events
    where pg_current_xact_id() is not null
  )`;

const COLUMNS = `unnest($1::text[], $2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bigint[], $7::bigint[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[],
    $16::text[]) with ordinality as u (id, lane, policy, priority, state, run_at, submitted_at, expires_at, check_at, deadline_at,
    expire_in, timeout_ms, key, tags, body, data, ord)`;

/** The rows of the jobs in `new`. In a repeat, only of those that turn out not to be there: the first try may still be
 *  under way, and then its end is waited for. */
const rows = (isRepeat: boolean, fresh = isRepeat ? "fresh" : "new") => `
  sub as (
    insert into $s.submission (job, id, lane, submitted_at, deadline_at, expire_in, timeout_ms, key, tags, body)
    select no, id, lane, submitted_at, deadline_at, expire_in, timeout_ms, key, tags, body from new
    ${isRepeat ? "on conflict (id) do nothing returning job" : ""}
  ),
  ${isRepeat ? "fresh as materialized (select * from new where no in (select job from sub))," : ""}
  hot as (
    insert into $s.job (no, lane, policy, priority, state, run_at, revision, chapter, attempt, expires_at, check_at)
    select no, lane, policy, priority, state, run_at, 1, 1, 0, expires_at, check_at from ${fresh}
  ),
  tagged as (
    insert into $s.tag (tag, job)
    select t.tag, f.no from ${fresh} f cross join lateral json_array_elements_text(f.tags::json) as t (tag)
    where f.tags is not null on conflict do nothing
  ),
  told as (
    insert into $s.event (seq, job, n, at, name, data) select seq, no, 1, submitted_at, 'job.submitted', data from ${fresh}
  )`;

/** A repeat writes to the log in any case: a commit that wrote nothing waits neither for the disk nor for a standby, and
 *  would acknowledge what only the first try wrote. */
const LOGGED = "pg_logical_emit_message(true, 'perdure', 'repeat')::text";

export function inserter(context: Context) {
  const { sql, interned, marks } = context;
  const numbered = `select drawn.jobs + ord as no, drawn.events + ord as seq, u.* from drawn cross join ${COLUMNS}`;
  const plain = (isRepeat: boolean) =>
    `with ${NUMBERS}, new as materialized (${numbered}), ${rows(isRepeat)} select ${isRepeat ? LOGGED : "1 where false"}`;
  const keyed = (isRepeat: boolean) => `with ${NUMBERS}, k as (
      insert into $s.submit_key (namespace, key, id, body_hash, at)
      select * from unnest($17::text[], $18::text[], $19::text[], $20::text[], $21::bigint[]) as n (namespace, key, id, h, at)
      order by namespace, key
      -- a stub whose window is over gives way; a repeat finds its own
      on conflict (namespace, key) do update
        set id = excluded.id, body_hash = excluded.body_hash, at = excluded.at, state = null, chapter = null, until = null
        where submit_key.until <= excluded.at or submit_key.id = excluded.id
      returning id
    ),
    new as materialized (${numbered} where (u.key is null or u.id in (select id from k))), ${rows(isRepeat)}
    select id from k`;
  const plainFirst = sql("insert", plain(false));
  const plainAgain = sql("insert_again", plain(true));
  const keyedFirst = sql("insert_keyed", keyed(false));
  const keyedAgain = sql("insert_keyed_again", keyed(true));
  const byKey = sql(
    "keys",
    `select k.namespace, k.key, k.id, k.body_hash, k.state, k.chapter, k.until, j.state, j.chapter
     from unnest($1::text[], $2::text[]) as want (namespace, key)
     join $s.submit_key k on k.namespace = want.namespace and k.key = want.key
     left join $s.submission b on b.id = k.id left join $s.job j on j.no = b.job`,
  );

  /** `ask` reads what other jobs have these keys; it must see what has been committed meanwhile. */
  async function insert(items: readonly InsertItem[], send: Send, ask: (s: Statement, v: Value[]) => Promise<Row[]>) {
    await interned.store(items.map((item) => item.job));
    const answers: (InsertAnswer | undefined)[] = new Array(items.length);
    let left = items.map((_, i) => i);
    // Twice at most for a key whose job is pruned at the very moment; and once more, to be sure.
    for (let round = 0; left.length > 0 && round < 3; round++) {
      left = await insertThese(items, left, answers, send, ask);
    }
    for (const i of left) answers[i] = refusal(new Error("its key was taken and given back all the time; repeat it"));
    return answers as InsertAnswer[];
  }

  /** Returns the places that are still without an answer. */
  async function insertThese(
    items: readonly InsertItem[],
    places: readonly number[],
    answers: (InsertAnswer | undefined)[],
    send: Send,
    ask: (statement: Statement, values: Value[]) => Promise<Row[]>,
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
    const values = rowValues(chosen);
    let inserted: Set<string> | null = null;
    if (owners.size === 0) await send((tries) => (tries === 0 ? plainFirst : plainAgain), values);
    else {
      const keyedJobs = chosen.filter(({ job }) => job.key !== null);
      const rows = await send((tries) => (tries === 0 ? keyedFirst : keyedAgain), [...values, ...keyValues(keyedJobs)]);
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
    ask: (statement: Statement, values: Value[]) => Promise<Row[]>,
  ): Promise<number[]> {
    const jobs = taken.map((i) => (items[i] as InsertItem).job);
    const names = [texts(jobs.map((job) => job.namespace)), texts(jobs.map((job) => job.key))];
    const found = new Map<string, Row>();
    // The others of this list may be stored already: whatever breaks now, it is not known that nothing was.
    const there = await ask(byKey, names).catch((error: unknown) => {
      throw isOutage(error) ? explained(new UnknownCommit(messageOf(error))) : error;
    });
    for (const row of there) found.set(keyName(row[0] as string, row[1] as string), row);
    const gone: number[] = [];
    for (const i of taken) {
      const { job } = items[i] as InsertItem;
      const row = found.get(keyName(job.namespace, job.key as string));
      if (row === undefined) gone.push(i);
      else answers[i] = takenAnswer(job, row);
    }
    return gone;
  }

  function rowValues(items: readonly InsertItem[]): Value[] {
    const jobs = items.map((item) => item.job);
    return [
      texts(jobs.map((job) => job.id)),
      ints(jobs.map((job) => interned.laneNo(job))),
      ints(jobs.map((job) => interned.policyNo(job.policyHash))),
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
  }

  return insert;
}

/** Within somebody's transaction: the statements go over their connection, and workers hear of it when it commits. */
export function insertWithin(context: Context, channel: string) {
  const insert = inserter(context);
  // In a transaction "now" is its beginning, and this statement is a later one.
  const begun = context.sql("", "select now() < statement_timestamp()");
  const hint = context.sql("", "select pg_notify($1, $2)");
  return async (client: TransactionClient, items: readonly InsertItem[]): Promise<InsertAnswer[]> => {
    const ask = async ({ text }: Statement, values: readonly Value[]) => {
      try {
        return (await client.query({ text, values: [...values], rowMode: "array" })).rows as Row[];
      } catch (error) {
        throw troubleOf(error) === "again" ? repeatAll(error) : explained(error);
      }
    };
    const [[isBegun] = []] = await ask(begun, []);
    if (isBegun !== true && isBegun !== "t") {
      const allowed = "a client with a transaction begun: without one the job would be stored at once";
      throw new ConfigError({
        path: "submit.client",
        given: "a client",
        problem: "no transaction is under way",
        allowed,
      });
    }
    const answers = await insert(items, (statement, values) => ask(statement(0), values), ask);
    if (answers.some(({ status }) => status === "inserted")) await ask(hint, [channel, IN_TRANSACTION]);
    return answers;
  };
}

export function insertVerb(context: Context): GroupVerb<InsertItem, InsertAnswer> {
  const insert = inserter(context);
  const { db, wrote } = context;
  return {
    inFlight: 4,
    together: 250,
    isPartly: true,
    weigh: ({ job }) => job.payload.length,
    async run(items) {
      const answers = await insert(
        items,
        (statement, values) => db.writeAs(statement, values, { repeat: true }),
        (s, v) => db.read(s, v),
      );
      wrote();
      return answers;
    },
    refuse: (_item, error) => refusal(error),
  };
}

/** The transaction is the caller's: only they can do it again. */
function repeatAll(error: unknown): PerdureError {
  const message = `PostgreSQL ended your transaction (${messageOf(error)}): roll it back and repeat it as a whole`;
  return new PerdureError("store_unavailable", message, { cause: error });
}

function keyValues(items: readonly InsertItem[]): Value[] {
  return [
    texts(items.map(({ job }) => job.namespace)),
    texts(items.map(({ job }) => job.key)),
    texts(items.map(({ job }) => job.id)),
    texts(items.map(({ job }) => job.bodyHash)),
    bigints(items.map(({ now }) => now)),
  ];
}

function takenAnswer(
  job: NewJob,
  [, , id, bodyHash, stubState, stubChapter, until, state, chapter]: Row,
): InsertAnswer {
  if (bodyHash !== job.bodyHash) return { status: "conflict", id: id as string };
  return {
    status: "exists",
    id: id as string,
    state: JOB_STATES[Number(state ?? stubState ?? 0)] as JobState,
    chapter: Number(chapter ?? stubChapter ?? 1),
    pruned: until !== null,
  };
}

function keyName(namespace: string, key: string): string {
  return JSON.stringify([namespace, key]);
}
