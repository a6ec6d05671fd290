/** Stores new jobs. One statement writes all their rows. Submit keys take two: the keys are inserted in order, those
 *  that were already there are read by a second statement, because the first cannot see what it collided with. */
import { isOutage } from "../../core/errors.ts";
import { JOB_STATES, type JobState } from "../../core/job.ts";
import type { InsertAnswer, NewJob } from "../store.ts";
import { isSameBody } from "../stored-job.ts";
import { texts } from "./arrays.ts";
import type { Context } from "./context.ts";
import type { Row, Statement, Value } from "./driver.ts";
import { refusal } from "./group.ts";
import {
  type InsertItem,
  insertStatements,
  isWhole,
  keyValues,
  type NameNumbers,
  rowValues,
} from "./insert-statements.ts";
import { explained, messageOf, UnknownCommit } from "./trouble.ts";

/** Asks a statement, over whatever connection. */
export type Ask = (statement: Statement, values: readonly Value[]) => Promise<Row[]>;

/** How a list of jobs gets to the database: as a transaction of its own, or within somebody's. */
export type Send = (statement: (tries: number) => Statement, values: readonly Value[]) => Promise<Row[]>;

/** What one call of `insert` goes by. */
interface Work {
  readonly items: readonly InsertItem[];
  readonly names: NameNumbers;
  readonly send: Send;
  readonly ask: Ask;
}

export function inserter(context: Context) {
  const { sql, interned, marks } = context;
  const statements = insertStatements(sql);
  const byKey = sql(
    "keys",
    `select k.namespace, k.key, k.id, k.body_hash, k.state, k.chapter, k.until, j.state, j.chapter
     from unnest($1::text[], $2::text[]) as want (namespace, key)
     join $s.submit_key k on k.namespace = want.namespace and k.key = want.key
     left join $s.submission b on b.id = k.id left join $s.job j on j.no = b.job`,
  );

  /** Before `insert`, and outside of its transaction: who holds a connection must not wait for another. */
  async function storeNames(items: readonly InsertItem[]): Promise<NameNumbers> {
    const now = items[0]?.now ?? 0;
    const policies = await interned.store(
      items.map((item) => item.job),
      now,
    );
    return { lanes: interned, policies };
  }

  /** `ask` reads what other jobs have these keys; it must see what has been committed meanwhile. */
  async function insert(items: readonly InsertItem[], names: NameNumbers, send: Send, ask: Ask) {
    const answers: (InsertAnswer | undefined)[] = new Array(items.length);
    let left = items.map((_, i) => i);
    // Twice at most for a key whose job is pruned at the very moment; and once more, to be sure.
    for (let round = 0; left.length > 0 && round < 3; round++) {
      left = await insertThese({ items, names, send, ask }, left, answers);
    }
    for (const i of left) answers[i] = refusal(new Error("its key was taken and given back all the time; repeat it"));
    return answers as InsertAnswer[];
  }

  /** Returns the places that are still without an answer. */
  async function insertThese(
    { items, names, send, ask }: Work,
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
    ask: Ask,
  ): Promise<number[]> {
    const jobs = taken.map((i) => (items[i] as InsertItem).job);
    const found = new Map<string, Row>();
    // The others of this list may be stored already: whatever breaks now, it is not known that nothing was.
    const rows = await takenKeys(jobs, ask).catch((error: unknown) => {
      throw isOutage(error) ? explained(new UnknownCommit(messageOf(error))) : error;
    });
    for (const row of rows) found.set(keyName(row[0] as string, row[1] as string), row);
    const gone: number[] = [];
    for (const i of taken) {
      const { job } = items[i] as InsertItem;
      const row = found.get(keyName(job.namespace, job.key as string));
      if (row === undefined) gone.push(i);
      else answers[i] = takenAnswer(job, row);
    }
    return gone;
  }

  /** What has the keys of these jobs, as `takenAnswer` reads it. */
  function takenKeys(jobs: readonly NewJob[], ask: Ask): Promise<Row[]> {
    return ask(byKey, [texts(jobs.map((job) => job.namespace)), texts(jobs.map((job) => job.key))]);
  }

  return { storeNames, insert, takenKeys };
}

export function takenAnswer(
  job: NewJob,
  [, , id, bodyHash, stubState, stubChapter, until, state, chapter]: Row,
): InsertAnswer {
  if (!isSameBody(bodyHash as string, job.bodyHash)) return { status: "conflict", id: id as string };
  return {
    status: "exists",
    id: id as string,
    state: JOB_STATES[Number(state ?? stubState ?? 0)] as JobState,
    chapter: Number(chapter ?? stubChapter ?? 1),
    pruned: until !== null,
  };
}

export function keyName(namespace: string, key: string): string {
  return JSON.stringify([namespace, key]);
}
