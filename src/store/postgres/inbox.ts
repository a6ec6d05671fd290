/** The inbox of runs: which runs have something to react to, and what. A row is written in the transaction of what happened and
 *  deleted by its number, so the order in which rows become visible does not matter. */
import type { DueTimer, RunMessage, RunMessageKind } from "../../core/run/run.ts";
import { MESSAGES } from "../run-row.ts";
import type { DueRuns, DueRunsQuery } from "../store.ts";
import { texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";

/** Unread messages that are checked before all of them are counted by run. */
const WINDOW = 5_000;

export interface UnreadOfRun {
  /** Of the run's job. */
  readonly no: number;
  readonly revision: number;
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
  // A time to come is that of a clock which was set back since: nobody handles the message.
  const first = due(
    "runs_due",
    `unread as materialized (
       select job, min(at) as at, count(*) as messages from (
         select job, at from $s.inbox where kept + 0 = 0 and (at < $3 or at > $1) order by no limit ${WINDOW}) w group by job
     )`,
  );
  const all = due(
    "runs_due_all",
    `unread as materialized (
       select job, min(at) as at, count(*) as messages from $s.inbox where kept = 0 and (at < $3 or at > $1) group by job order by 2, 1 limit $2
     )`,
  );
  // One statement, so that the revision is the one at which these messages were unread.
  const unreadOfRuns = sql(
    "run_unread",
    `select b.id, j.no, j.revision, m.no, m.kind, m.ref, m.at, m.body
     from $s.submission b join $s.job j on j.no = b.job cross join lateral (
       (select no, kind, ref, at, body from $s.inbox where job = j.no and kept = 0 order by no limit ${MESSAGES + 1})
       union all
       (select n, null, null, due_at, null from $s.timer where job = j.no and due_at + 0 <= $2
        order by due_at, n limit ${MESSAGES})
     ) m where b.id = any ($1::text[])`,
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

  /** By the run's id; runs of which nothing is unread or due are missing. */
  async function unreadOf(ids: readonly string[], now: number): Promise<ReadonlyMap<string, UnreadOfRun>> {
    const byRun = new Map<string, { no: number; revision: number; messages: RunMessage[]; timers: DueTimer[] }>();
    for (const [id, job, revision, ...row] of await db.read(unreadOfRuns, [texts(ids), now])) {
      const run = id as string;
      const entry = byRun.get(run) ?? { no: job as number, revision: revision as number, messages: [], timers: [] };
      byRun.set(run, entry);
      const [no, kind, , at] = row;
      if (kind === null) entry.timers.push({ n: no as number, dueAt: at as number });
      else entry.messages.push(toMessage(row));
    }
    return new Map(
      [...byRun].map(([id, { messages, timers, ...run }]) => [
        id,
        {
          ...run,
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

function toMessage([no, kind, ref, at, body]: PgRow): RunMessage {
  return {
    no: no as number,
    kind: kind as RunMessageKind,
    ref: ref as string | null,
    at: at as number,
    body: body === null ? null : JSON.parse(body as string),
  };
}
