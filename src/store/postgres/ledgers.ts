/** Ledgers of budgets, and the live usage of attempts below them. Ledgers are locked after all rows of jobs, upper ones
 *  first: the holder of a ledger waits for nothing else. */

import { mostUsage, type Usage } from "../../core/job/job.ts";
import type { Policy } from "../../core/policy/policy.ts";
import { type LedgerRow, Ledgers } from "../ledger.ts";
import { jsonOrNull, parseOrNull } from "../stored-job.ts";
import { bigints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import type { RunStatement } from "./insert.ts";

export function ledgerBook({ sql }: Pick<PostgresContext, "sql">) {
  // Ancestry never changes, so the line may be read before it is locked.
  const line = `with recursive line (job) as (
      select unnest($1::bigint[]) union select b.above from line l join $s.budget b on b.job = l.job where b.above is not null
    )`;
  const read = sql("ledgers", `${line} select b.job, b.above, b.body from line l join $s.budget b on b.job = l.job`);
  const lock = sql(
    "ledgers_lock",
    `${line} select b.job, b.above, b.body from $s.budget b where b.job = any (array(select job from line))
     order by b.job for update of b`,
  );
  const set = sql(
    "ledgers_write",
    `update $s.budget b set body = m.body from unnest($1::bigint[], $2::text[]) as m (job, body) where b.job = m.job`,
  );

  const ask = async (statement: typeof read, numbers: Iterable<number | null>, by: RunStatement): Promise<Ledgers> => {
    const wanted = new Set([...numbers].filter((no) => no !== null));
    if (wanted.size === 0) return new Ledgers();
    return new Ledgers((await by(statement, [bigints([...wanted])])) as readonly PgRow[] as unknown as LedgerRow[]);
  };

  return {
    /** These ledgers and all above them; reads nothing if all are null. */
    read: (numbers: Iterable<number | null>, by: RunStatement) => ask(read, numbers, by),
    /** The same under their locks, within a transaction. */
    lock: (numbers: Iterable<number | null>, by: RunStatement) => ask(lock, numbers, by),
    async write(ledgers: Ledgers, by: RunStatement): Promise<void> {
      const changed = ledgers.takeChanged();
      if (changed.length === 0) return;
      await by(set, [bigints(changed.map(({ no }) => no)), texts(changed.map(({ body }) => body))]);
    },
  };
}

// Usage of running attempts of jobs under a budget: their rows and their ledgers change together.

interface UsedSoFar {
  readonly no: number;
  readonly jobId: string;
  readonly attempt: number;
  readonly usage?: Usage | null;
}

/** None of the attempts is running any more. */
export const NOT_HELD: ReadonlySet<string> = new Set();

export function liveUsageWriter(context: PostgresContext) {
  const { db, sql, interned } = context;
  const book = ledgerBook(context);
  const lock = sql(
    "live_lock",
    `select no, attempt, policy, live_usage, budget from $s.job where no = any ($1::bigint[]) and state + 0 = 1
     order by no for update`,
  );
  const set = sql(
    "live_set",
    `update $s.job j set live_usage = m.usage from unnest($1::bigint[], $2::text[]) as m (no, usage) where j.no = m.no`,
  );

  async function writeAll({ ask }: PgConnection, reported: readonly UsedSoFar[]): Promise<ReadonlySet<string>> {
    const byNo = new Map(reported.map((each) => [each.no, each]));
    const rows = (await ask(lock, [bigints([...byNo.keys()])])).filter(
      ([no, attempt]) => byNo.get(no as number)?.attempt === attempt,
    );
    if (rows.length === 0) return NOT_HELD;
    const names = await interned.learn(
      [],
      rows.map((row) => row[2] as number),
      [],
      ask,
    );
    const ledgers = await book.lock(
      rows.map((row) => row[4] as number | null),
      ask,
    );
    const over = new Set<string>();
    const changed: { readonly no: number; readonly usage: string | null }[] = [];
    for (const row of rows) {
      const [no, , policy, liveText, budget] = row as [number, number, number, string | null, number | null];
      const { jobId, usage } = byNo.get(no) as UsedSoFar;
      const before = parseOrNull<Usage>(liveText);
      const live = mostUsage(before, usage ?? null);
      const known: Policy = names.policy(policy);
      if (ledgers.move({ budget, policy: known }, before, live)) over.add(jobId);
      if (usage != null) changed.push({ no, usage: jsonOrNull(live) });
    }
    if (changed.length > 0) {
      await ask(set, [bigints(changed.map(({ no }) => no)), texts(changed.map(({ usage }) => usage))]);
    }
    await book.write(ledgers, ask);
    return over;
  }

  /** Returns the jobs to stop: they spend, and a budget that covers them is used up. */
  return async (
    reported: readonly UsedSoFar[],
    care: { readonly reserved?: boolean } = {},
  ): Promise<ReadonlySet<string>> =>
    reported.length === 0
      ? NOT_HELD
      : db.transaction((connection) => writeAll(connection, reported), { ...care, repeat: true });
}
