/** What PostgreSQL knows about lost sessions; read only when the reaper settles, under their locks. */
import { type FindOtherWorkers, otherWorkers, processKey, type WatchedSession } from "../../core/decision/evidence.ts";
import {
  byProcess,
  diedWith,
  type EngineGap,
  Losses,
  type LossFacts,
  type LostSession,
  NEWEST_WATCHED,
  NO_LOSSES,
  type ProcessSession,
} from "../losses.ts";
import type { SettleItem } from "../plan/settle.ts";
import { parseOrNull, type StoredJob } from "../stored-job.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";

const WATCHED = `s.no, s.host, s.pool, s.process, s.pid, s.started_at,
  s.renewed_at, s.ended_at, s.lost_at`;

export function lossKeeper({ sql }: PostgresContext) {
  const inHand = (session: string) =>
    `(select count(*)::int from $s.job j where j.state = 1 and j.session = ${session}.no)`;
  const find = sql(
    "loss_sessions",
    `select ${WATCHED}, s.lease_ms, coalesce(s.lost_with, 0), ${inHand("s")} from $s.session s where s.no = any ($1::int[])`,
  );
  // Sessions of the same processes that were lost with them or earlier.
  const ofProcesses = sql(
    "loss_processes",
    `select t.no, t.process, t.pid, t.lost_at, t.reaped <> 0, coalesce(t.lost_with, 0), ${inHand("t")}
     from unnest($1::text[], $2::bigint[]) as p (process, pid)
     join $s.session t on t.process = p.process and t.pid = p.pid and t.reaped < 2
     where t.reaped = 0 or t.lost_with is not null`,
  );
  const gapOf = sql("loss_gap", "select value from $s.meta where name = 'gap'");
  const lostIn = sql(
    "loss_before",
    "select job, session from $s.attempt where job = any ($1::bigint[]) and outcome = 'lost' and session is not null",
  );
  const newest = sql(
    "loss_newest",
    `select ${WATCHED}, coalesce((select j.reason = 'poison' from $s.job j where j.no = s.lost_job), false)
     from (select * from $s.session where reaped < 2 order by no desc limit ${NEWEST_WATCHED}) s`,
  );
  const mark = sql(
    "loss_mark",
    `update $s.session s set lost_at = coalesce(s.lost_at, m.at), lost_with = m.lost_with, lost_job = m.job
     from unnest($1::int[], $2::bigint[], $3::int[], $4::bigint[]) as m (no, at, lost_with, job) where s.no = m.no`,
  );
  const endTrial = sql("loss_trial", "update $s.session set alone_until = null where no = any ($1::int[])");

  async function lostSessions({ ask }: PgConnection, numbers: Iterable<number>): Promise<LostSession[]> {
    const found = (await ask(find, [ints([...numbers])])).map((row) => ({
      lost: lostSession(row),
      held: row[11] as number,
    }));
    const named = new Map(found.map(({ lost }) => [processKey(lost), lost]));
    named.delete(null);
    const processes = [...named.values()];
    const values = [texts(processes.map(({ process }) => process)), bigints(processes.map(({ pid }) => pid))];
    const groups = byProcess(processes.length === 0 ? [] : (await ask(ofProcesses, values)).map(processSession));
    return found.map(({ lost, held }) => {
      const key = processKey(lost);
      return { ...lost, lostWith: diedWith(lost, held, key === null ? [] : (groups.get(key) ?? [])) };
    });
  }

  async function factsOf(connection: PgConnection, jobs: readonly StoredJob[], now: number): Promise<LossFacts> {
    const { ask } = connection;
    const numbers = new Set(jobs.flatMap(({ session }) => (session === null ? [] : [session])));
    const sessions = new Map((await lostSessions(connection, numbers)).map((session) => [session.no, session]));
    const [[gap = null] = []] = await ask(gapOf);
    const own = new Map<number, number[]>();
    let others: FindOtherWorkers | null = null;
    const alone = jobs.filter(({ session }) => session !== null && sessions.get(session)?.lostWith === 1);
    if (alone.length > 0) {
      others = otherWorkers((await ask(newest)).map(watchedSession), now);
      for (const [job, session] of await ask(lostIn, [bigints(alone.map(({ no }) => no))])) {
        own.set(job as number, [...(own.get(job as number) ?? []), session as number]);
      }
    }
    return {
      sessions,
      gap: parseOrNull<EngineGap>(gap as string | null),
      others: (session, job) => others?.(session, own.get(job.no) ?? []) ?? NONE_WATCHED,
    };
  }

  return {
    /** Sessions are read only for reports of the reaper. */
    async of(connection: PgConnection, jobs: readonly StoredJob[], items: readonly SettleItem[]): Promise<Losses> {
      const isReaping = items.some(({ report }) => report.from.kind === "reaper");
      return new Losses(isReaping ? await factsOf(connection, jobs, items[0]?.now ?? 0) : NO_LOSSES);
    },
    async write({ ask }: PgConnection, { marks, endedTrials }: Losses, now: number): Promise<void> {
      const list = [...marks].sort(([a], [b]) => a - b);
      if (list.length > 0) {
        const numbers = ints(list.map(([no]) => no));
        const counts = ints(list.map(([, { lostWith }]) => lostWith));
        const alone = bigints(list.map(([, { job }]) => job));
        await ask(mark, [numbers, bigints(list.map(() => now)), counts, alone]);
      }
      if (endedTrials.size > 0) await ask(endTrial, [ints([...endedTrials].sort((a, b) => a - b))]);
    },
  };
}

const NONE_WATCHED = { lost: 0, watchedMs: 0 };

function ofRow([no, host, pool, process, pid, startedAt, renewedAt, endedAt, lostAt]: PgRow) {
  return { no, host, pool, process, pid, startedAt, renewedAt, endedAt, lostAt } as Omit<WatchedSession, "isExplained">;
}

function lostSession(row: PgRow): LostSession {
  const [leaseMs, lostWith] = row.slice(9) as [number, number];
  return { ...ofRow(row), leaseMs, lostWith };
}

function watchedSession(row: PgRow): WatchedSession {
  return { ...ofRow(row), isExplained: row[9] as boolean };
}

function processSession([no, process, pid, lostAt, isReaped, lostWith, held]: PgRow): ProcessSession {
  return { no, process, pid, lostAt, isReaped, lostWith, held } as unknown as ProcessSession;
}
