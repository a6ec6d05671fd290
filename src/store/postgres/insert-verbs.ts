/** The insert verbs: jobs, children under the locks of their parents, and jobs within a transaction of the caller. */

import { ConfigError, PerdureError } from "../../core/errors.ts";
import { isFree, keyAnswer, type ParentFacts, parentFacts, refusedChild } from "../plan/insert.ts";
import type { InsertAnswer, NewJob, TransactionClient } from "../store.ts";
import { ints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow, PgStatement, PgValue } from "./driver.ts";
import { errorClassOf, explained, messageOf } from "./error-classes.ts";
import { type GroupVerb, refusal } from "./group.ts";
import {
  type InsertItem,
  inserter,
  keyName,
  LOGGED,
  type NameNumbers,
  numberOrNull,
  type RunStatement,
} from "./insert.ts";
import { runLaneHolder } from "./run-lanes.ts";
import { IN_TRANSACTION } from "./watch.ts";

// Stores jobs with parents. The parents' rows are locked first, in the order of their numbers, until the children are
// stored: whoever ends or cancels a parent either finds the child, or was first, and the child is refused. A key that
// already names a job gets that job in any case: a repeated submit finds its child.

interface LockedParent extends ParentFacts {
  readonly no: number;
}

function childInserter(context: PostgresContext) {
  const { sql, interned } = context;
  const { insert, keyOwners } = inserter(context);
  const lock = sql(
    "insert_parents",
    `select b.id, j.lane, j.state, j.attempt, j.cancel_requested_at, j.budget, j.no from $s.submission b join $s.job j on j.no = b.job
     where b.id = any ($1::text[]) order by j.no for share of j`,
  );
  const there = sql("insert_there", `select id, ${LOGGED} from $s.submission where id = any ($1::text[])`);

  /** All in one transaction, whose statements go through `ask`; `tries` is the number of earlier tries. The jobs' lanes
   *  and policies must be stored before: the holder of a connection must not wait for another. */
  return async (
    items: readonly InsertItem[],
    names: NameNumbers,
    ask: RunStatement,
    tries: number,
  ): Promise<InsertAnswer[]> => {
    const parents = await lockParents(items, ask);
    const answers: (InsertAnswer | null)[] = items.map(({ job }) =>
      job.parent === null ? null : refusedChild(job, parents.get(job.parent.id) ?? null),
    );
    const good = items
      .filter((_, i) => answers[i] === null)
      .map((item) => ({
        ...item,
        above: item.job.parent === null ? null : (parents.get(item.job.parent.id)?.budget ?? null),
        runNo: item.job.runId === undefined ? null : (parents.get(item.job.runId)?.no ?? null),
      }));
    const send = (statement: (tries: number) => PgStatement, values: readonly PgValue[]) =>
      ask(statement(tries), values);
    const stored = good.length === 0 ? [] : await insert(good, names, send, ask);
    await findExisting(items, answers, ask, tries);
    return answers.map((answer) => answer ?? (stored.shift() as InsertAnswer));
  };

  async function lockParents(items: readonly InsertItem[], ask: RunStatement): Promise<Map<string, LockedParent>> {
    const ids = new Set(items.flatMap(({ job }) => (job.parent === null ? [] : [job.parent.id])));
    const rows = await ask(lock, [texts([...ids])]);
    await interned.learn(new Set(rows.map((row) => Number(row[1]))), [], [], ask);
    return new Map(rows.map((row) => [row[0] as string, factsOf(row)]));
  }

  function factsOf([, lane, state, attempt, cancelRequestedAt, budget, no]: PgRow): LockedParent {
    const row = {
      ...{ state: Number(state), attempt: Number(attempt) },
      ...{ cancel_requested_at: numberOrNull(cancelRequestedAt), budget: numberOrNull(budget) },
    };
    return { ...parentFacts(row, interned.lane(Number(lane)).namespace), no: Number(no) };
  }

  /** Some of the jobs that their parents refuse may exist: under their key, or stored by the first try of a repeat. */
  async function findExisting(
    items: readonly InsertItem[],
    answers: (InsertAnswer | null)[],
    ask: RunStatement,
    tries: number,
  ): Promise<void> {
    const refused = items.map((item, i) => ({ ...item, i })).filter(({ i }) => answers[i] !== null);
    const named = refused.filter(({ job }) => job.key !== null);
    const keyed = named.map(({ job }) => job);
    const owners = keyed.length === 0 ? null : await keyOwners(keyed, ask);
    // Each job only conflicts with jobs before it in the list.
    const places = new Map(items.map(({ job }, i) => [job.id, i]));
    for (const { job, now, i } of named) {
      const owner = owners?.get(keyName(job.namespace, job.key as string));
      if (owner === undefined || isFree(owner, now)) continue;
      if ((places.get(owner.id) ?? -1) > i) continue;
      answers[i] = owner.id === job.id ? { status: "inserted", id: job.id } : keyAnswer(job, owner);
    }
    if (tries === 0 || refused.length === 0) return;
    const stored = new Set((await ask(there, [texts(refused.map(({ job }) => job.id))])).map(([id]) => id));
    for (const { job, i } of refused) if (stored.has(job.id)) answers[i] = { status: "inserted", id: job.id };
  }
}

// The verbs that store new jobs: each list in a transaction shared with similar lists, or within the caller's.

/** Within the caller's transaction: statements go over its connection, and workers are notified by its commit. */
export function insertWithin(context: PostgresContext, channel: string) {
  const { storeNames, insert } = inserter(context);
  const { withLanes, held } = runLaneHolder(context);
  // A transaction may be open for long: names of its jobs are locked until it ends.
  const hold = context.sql(
    "",
    `select count(*) from (select no from $s.lane where no = any ($1::int[]) for key share) l union all
     select count(*) from (select no from $s.policy where no = any ($2::int[]) for key share) p`,
  );
  // In a transaction "now" is its start, and this statement is later.
  const begun = context.sql("", "select now() < statement_timestamp()");
  const hint = context.sql("", "select pg_notify($1, $2)");
  return async (client: TransactionClient, items: readonly InsertItem[]): Promise<InsertAnswer[]> => {
    const ask = async ({ text }: PgStatement, values: readonly PgValue[]) => {
      try {
        return (await client.query({ text, values: [...values], rowMode: "array" })).rows as PgRow[];
      } catch (error) {
        throw errorClassOf(error) === "again" ? repeatAll(error) : explained(error);
      }
    };
    const [[isBegun] = []] = await ask(begun, []);
    if (isBegun !== true && isBegun !== "t") {
      const allowed = "a client in a transaction; otherwise the job would be stored at once";
      throw new ConfigError({
        path: "submit.client",
        given: "a client",
        problem: "no transaction is in progress",
        allowed,
      });
    }
    const names = await storeNames(items);
    const store = async () => {
      const lanes = ints([...new Set(items.map(({ job }) => names.lanes.laneNo(job)))]);
      await ask(hold, [lanes, ints([...names.policies.values()])]);
      return insert(items, names, (statement, values) => ask(statement(0), values), ask);
    };
    const answers = await withLanes(items, () => held(items, ask, store));
    if (answers.some(({ status }) => status === "inserted")) await ask(hint, [channel, IN_TRANSACTION]);
    return answers;
  };
}

export function insertVerb(context: PostgresContext): GroupVerb<InsertItem, InsertAnswer> {
  const { storeNames, insert } = inserter(context);
  const { db, wrote } = context;
  return {
    inFlight: 4,
    together: 250,
    isPartly: true,
    weigh: ({ job }) => job.payload.length,
    async run(items) {
      const answers = await insert(
        items,
        await storeNames(items),
        (statement, values) => db.writeAs(statement, values, { repeat: true }),
        (s, v) => db.read(s, v),
      );
      wrote();
      return answers;
    },
    refuse: (_item, error) => refusal(error),
  };
}

/** For lists with parents, or with jobs of single runs: a transaction that locks parents and lanes first. */
export function insertChildrenVerb(context: PostgresContext): GroupVerb<InsertItem, InsertAnswer> {
  const { storeNames } = inserter(context);
  const insertChildren = childInserter(context);
  const { withLanes, held } = runLaneHolder(context);
  const { db, wrote } = context;
  return {
    ...insertVerb(context),
    inFlight: 3,
    async run(items) {
      const names = await storeNames(items);
      const work = ({ ask }: PgConnection, tries: number) =>
        held(items, ask, () => insertChildren(items, names, ask, tries));
      const answers = await withLanes(items, () => db.transaction(work, { repeat: true }));
      wrote();
      return answers;
    },
  };
}

export function hasParents(jobs: readonly NewJob[]): boolean {
  return jobs.some((job) => job.parent !== null);
}

/** The transaction is the caller's: only the caller can repeat it. */
function repeatAll(error: unknown): PerdureError {
  const message = `PostgreSQL aborted your transaction (${messageOf(error)}): roll it back and repeat all of it`;
  return new PerdureError("store_unavailable", message, { cause: error });
}
