/** The inbox of runs: which runs have something to react to, and what. A row is written in the transaction of what happened and
 *  deleted by its number, so the order in which rows become visible does not matter. */
import type { DueTimer, RunMessage, RunMessageKind } from "../../core/run/run.ts";
import { MESSAGES } from "../run-row.ts";
import type { DueRuns, DueRunsQuery } from "../store.ts";
import { bigints } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";

/** Unread messages that are checked before all of them are counted by run. */
const WINDOW = 5_000;

export interface UnreadOfRun {
  readonly messages: readonly RunMessage[];
  readonly hasMoreMessages: boolean;
  readonly timers: readonly DueTimer[];
}

export function inboxReader({ db, sql }: PostgresContext) {
  const due = (name: string, unread: string) =>
    sql(
      name,
      `with ${unread},
       late as (
         select job, min(due_at) as at from (
           select job, due_at from $s.timer where due_at <= $1 order by due_at limit $2) t group by job
       )
       select b.id, u.at, null from (select job, at from unread union all select job, at from late) u
         join $s.submission b on b.job = u.job
       union all
       select null, (select min(due_at) from $s.timer where due_at > $1), (select sum(messages)::bigint from unread)`,
    );
  const first = due(
    "runs_due",
    `unread as materialized (
       select job, min(at) as at, count(*) as messages from (
         select job, at from $s.inbox where kept + 0 = 0 and at < $3 order by no limit ${WINDOW}) w group by job
     )`,
  );
  const all = due(
    "runs_due_all",
    `unread as materialized (
       select job, min(at) as at, count(*) as messages from $s.inbox where kept = 0 and at < $3 group by job order by 2, 1 limit $2
     )`,
  );
  const unreadOfRuns = sql(
    "run_unread",
    `select m.job, m.no, m.kind, m.ref, m.at, m.body from unnest($1::bigint[]) as w (job) cross join lateral (
       select job, no, kind, ref, at, body from $s.inbox where job = w.job and kept = 0 order by no limit ${MESSAGES + 1}) m
     union all
     select t.job, t.n, null, null, t.due_at, null from unnest($1::bigint[]) as w (job)
       join $s.timer t on t.job = w.job and t.due_at + 0 <= $2`,
  );

  async function dueRuns({ now, limit, writtenBefore = Number.MAX_SAFE_INTEGER }: DueRunsQuery): Promise<DueRuns> {
    let rows = await db.read(first, [now, limit, writtenBefore]);
    const { found, read } = pageOf(rows);
    // A run with very many messages may hide others.
    if (found < limit && read >= WINDOW) rows = await db.read(all, [now, limit, writtenBefore]);
    const times = new Map<string, number>();
    for (const [id, at] of rows) {
      if (id !== null) times.set(id as string, Math.min(at as number, times.get(id as string) ?? Infinity));
    }
    const runs = [...times].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1)).map(([id]) => id);
    return {
      runs: runs.slice(0, limit),
      nextAt: (rows.find(([id]) => id === null)?.[1] as number | undefined) ?? null,
    };
  }

  /** By the number of the run's job; runs of which nothing is unread or due are missing. */
  async function unreadOf(runs: readonly number[], now: number): Promise<ReadonlyMap<number, UnreadOfRun>> {
    const byRun = new Map<number, { messages: RunMessage[]; timers: DueTimer[] }>();
    for (const row of await db.read(unreadOfRuns, [bigints(runs), now])) {
      const [job, no, kind, , at] = row;
      const entry = byRun.get(job as number) ?? { messages: [], timers: [] };
      byRun.set(job as number, entry);
      if (kind === null) entry.timers.push({ n: no as number, dueAt: at as number });
      else entry.messages.push(toMessage(row));
    }
    return new Map(
      [...byRun].map(([job, { messages, timers }]) => [
        job,
        {
          messages: messages.sort((a, b) => a.no - b.no).slice(0, MESSAGES),
          hasMoreMessages: messages.length > MESSAGES,
          timers: timers.sort((a, b) => a.dueAt - b.dueAt || a.n - b.n),
        },
      ]),
    );
  }

  return { dueRuns, unreadOf };
}

function pageOf(rows: readonly PgRow[]): { found: number; read: number } {
  const read = rows.find(([id]) => id === null)?.[2];
  return { found: new Set(rows.map(([id]) => id)).size - 1, read: Number(read ?? 0) };
}

function toMessage([, no, kind, ref, at, body]: PgRow): RunMessage {
  return {
    no: no as number,
    kind: kind as RunMessageKind,
    ref: ref as string | null,
    at: at as number,
    body: body === null ? null : JSON.parse(body as string),
  };
}
