/** Ledgers of budgets in the database. The write lock is ours wherever they are changed, so nobody comes between. */
import { type LedgerRow, Ledgers } from "../ledger.ts";
import type { Context } from "./context.ts";

export type LedgerBook = ReturnType<typeof ledgerBook>;

export function ledgerBook({ db }: Pick<Context, "db">) {
  const line = db.prepare(
    `with recursive line (job, above, body) as (
       select job, above, body from budget where job = ?
       union all select b.job, b.above, b.body from line cross join budget b on b.job = line.above
     ) select job, above, body from line`,
  );
  line.setReturnArrays(true);
  const set = db.prepare("update budget set body = ? where job = ?");

  return {
    /** Makes sure that the ledger of this number and all above it are known; nothing is read for a job without one. */
    learn(ledgers: Ledgers, no: number | null): void {
      if (no !== null && !ledgers.has(no)) ledgers.learn(line.all(no) as unknown as LedgerRow[]);
    },
    of(no: number): Ledgers {
      return new Ledgers(line.all(no) as unknown as LedgerRow[]);
    },
    write(ledgers: Ledgers): void {
      for (const { no, body } of ledgers.takeChanged()) set.run(body, no);
    },
  };
}
