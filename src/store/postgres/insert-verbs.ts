/** The verbs that store new jobs: each list in a transaction of its own, shared with others of its sort, or within somebody
 *  else's. */
import { ConfigError, PerdureError } from "../../core/errors.ts";
import type { InsertAnswer, NewJob, TransactionClient } from "../store.ts";
import { ints } from "./arrays.ts";
import type { Connection } from "./connections.ts";
import type { Context } from "./context.ts";
import type { Row, Statement, Value } from "./driver.ts";
import { type GroupVerb, refusal } from "./group.ts";
import { inserter } from "./insert.ts";
import { childInserter } from "./insert-children.ts";
import type { InsertItem } from "./insert-statements.ts";
import { runLaneHolder } from "./run-lanes.ts";
import { explained, messageOf, troubleOf } from "./trouble.ts";
import { IN_TRANSACTION } from "./watch.ts";

/** Within somebody's transaction: the statements go over their connection, and workers hear of it when it commits. */
export function insertWithin(context: Context, channel: string) {
  const { storeNames, insert } = inserter(context);
  const { withLanes, held } = runLaneHolder(context);
  // A transaction may be open for long: what its jobs name is held until it ends.
  const hold = context.sql(
    "",
    `select count(*) from (select no from $s.lane where no = any ($1::int[]) for key share) l union all
     select count(*) from (select no from $s.policy where no = any ($2::int[]) for key share) p`,
  );
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

export function insertVerb(context: Context): GroupVerb<InsertItem, InsertAnswer> {
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

/** For lists with parents, or with jobs of single runs: a transaction, as parents and lanes are locked before. */
export function insertChildrenVerb(context: Context): GroupVerb<InsertItem, InsertAnswer> {
  const { storeNames } = inserter(context);
  const insertChildren = childInserter(context);
  const { withLanes, held } = runLaneHolder(context);
  const { db, wrote } = context;
  return {
    ...insertVerb(context),
    inFlight: 3,
    async run(items) {
      const names = await storeNames(items);
      const work = ({ ask }: Connection, tries: number) =>
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

/** The transaction is the caller's: only they can do it again. */
function repeatAll(error: unknown): PerdureError {
  const message = `PostgreSQL ended your transaction (${messageOf(error)}): roll it back and repeat it as a whole`;
  return new PerdureError("store_unavailable", message, { cause: error });
}
