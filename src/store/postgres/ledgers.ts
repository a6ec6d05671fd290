/** Ledgers of budgets in the database. They are locked after all rows of jobs, those above first, and last of all: whoever holds
 *  one waits for nothing any more. */
import { type LedgerRow, Ledgers } from "../ledger.ts";
import { bigints, texts } from "./arrays.ts";
import type { Context } from "./context.ts";
import type { Row } from "./driver.ts";
import type { Ask } from "./insert.ts";

export function ledgerBook({ sql }: Pick<Context, "sql">) {
  // Who is above whom never changes, so the line may be found before it is locked.
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

  const ask = async (statement: typeof read, numbers: Iterable<number | null>, by: Ask): Promise<Ledgers> => {
    const wanted = new Set([...numbers].filter((no) => no !== null));
    if (wanted.size === 0) return new Ledgers();
    return new Ledgers((await by(statement, [bigints([...wanted])])) as readonly Row[] as unknown as LedgerRow[]);
  };

  return {
    /** These ledgers and all above them; nothing is asked where all are null. */
    read: (numbers: Iterable<number | null>, by: Ask) => ask(read, numbers, by),
    /** The same under their locks, within a transaction. */
    lock: (numbers: Iterable<number | null>, by: Ask) => ask(lock, numbers, by),
    async write(ledgers: Ledgers, by: Ask): Promise<void> {
      const changed = ledgers.takeChanged();
      if (changed.length === 0) return;
      await by(set, [bigints(changed.map(({ no }) => no)), texts(changed.map(({ body }) => body))]);
    },
  };
}
