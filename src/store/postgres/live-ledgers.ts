/** What running attempts of jobs under a budget have used so far: their rows and their ledgers change together. */
import { mostUsage, type Usage } from "../../core/job.ts";
import type { Policy } from "../../core/policy.ts";
import { jsonOrNull, parseOrNull } from "../stored-job.ts";
import { bigints, texts } from "./arrays.ts";
import type { Connection } from "./connections.ts";
import type { Context } from "./context.ts";
import { ledgerBook } from "./ledgers.ts";

export interface UsedSoFar {
  readonly no: number;
  readonly jobId: string;
  readonly attempt: number;
  readonly usage?: Usage | null;
}

/** None of the attempts is running any more. */
export const NOT_HELD: ReadonlySet<string> = new Set();

export function liveTeller(context: Context) {
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

  async function tellAll({ ask }: Connection, told: readonly UsedSoFar[]): Promise<ReadonlySet<string>> {
    const byNo = new Map(told.map((each) => [each.no, each]));
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

  /** The jobs that are to be stopped: they spend, and a budget that covers them is used up. */
  return async (
    told: readonly UsedSoFar[],
    care: { readonly reserved?: boolean } = {},
  ): Promise<ReadonlySet<string>> =>
    told.length === 0 ? NOT_HELD : db.transaction((connection) => tellAll(connection, told), { ...care, repeat: true });
}
