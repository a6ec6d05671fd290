/** What PostgreSQL knows of sessions that were lost: asked only where the reaper settles. The sessions are locked by then. */
import {
  type Crash,
  type FindOtherWorkers,
  otherWorkers,
  processKey,
  SUSPECT_STREAK,
  type WatchedSession,
} from "../../core/decision/evidence.ts";
import type { Report } from "../../core/worker-protocol.ts";
import {
  byProcess,
  crashOf,
  diedWith,
  type EngineGap,
  type LostSession,
  NEWEST_WATCHED,
  type ProcessSession,
} from "../losses.ts";
import type { StoredJob } from "../stored-job.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";

export interface Losses {
  crash(job: StoredJob, report: Report): Crash | undefined;
  /** The attempt was taken from its session. */
  took(job: StoredJob, report: Report): void;
  /** What is to be noted of the sessions. */
  write(connection: PgConnection): Promise<void>;
}

const WATCHED = `s.no, s.host, s.pool, s.process, s.pid, s.started_at,
  s.renewed_at, s.ended_at, s.lost_at`;

export function lossKeeper({ sql }: PostgresContext) {
  const inHand = (session: string) =>
    `(select count(*)::int from $s.job j where j.state = 1 and j.session = ${session}.no)`;
  const find = sql(
    "loss_sessions",
    `select ${WATCHED}, s.lease_ms, coalesce(s.lost_with, 0), ${inHand("s")} from $s.session s where s.no = any ($1::int[])`,
  );
  // The sessions of processes that died with them, or before.
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

  /** For one list of reports: what it says of a session was so before any of them was settled. */
  return async (
    connection: PgConnection,
    jobs: readonly StoredJob[],
    reports: readonly Report[],
    now: number,
  ): Promise<Losses> => {
    const sessions = new Map<number, LostSession>();
    const own = new Map<number, number[]>();
    let others: FindOtherWorkers = () => ({ lost: 0, watchedMs: 0 });
    let gap: EngineGap | null = null;
    if (reports.some(({ from }) => from.kind === "reaper")) {
      const numbers = new Set(jobs.flatMap(({ session }) => (session === null ? [] : [session])));
      for (const session of await lostSessions(connection, numbers)) sessions.set(session.no, session);
      const [[text = ""] = []] = await connection.ask(gapOf);
      gap = text === "" ? null : (JSON.parse(text as string) as EngineGap);
      const alone = jobs.filter(({ session }) => session !== null && sessions.get(session)?.lostWith === 1);
      if (alone.length > 0) {
        others = otherWorkers((await connection.ask(newest)).map(watchedSession), now);
        for (const [job, session] of await connection.ask(lostIn, [bigints(alone.map(({ no }) => no))])) {
          own.set(job as number, [...(own.get(job as number) ?? []), session as number]);
        }
      }
    }
    const marks = new Map<number, { readonly lostWith: number; readonly job: number | null }>();
    const tried = new Set<number>();
    return {
      crash(job, report) {
        const session = job.session === null ? null : (sessions.get(job.session) ?? null);
        const ask = () => (session === null ? undefined : others(session, own.get(job.no) ?? []));
        return crashOf(job, report, session, { gap, others: ask });
      },
      took(job, { from }) {
        if (job.state !== "running" || job.session === null) return;
        if (job.streak >= SUSPECT_STREAK) tried.add(job.session);
        const session = sessions.get(job.session);
        if (from.kind !== "reaper" || session === undefined) return;
        const { no, lostWith, endedAt, lostAt } = session;
        if (endedAt !== null && lostAt === null) return; // it had stopped
        marks.set(no, { lostWith, job: lostWith === 1 ? job.no : null });
      },
      async write({ ask }) {
        const list = [...marks].sort(([a], [b]) => a - b);
        if (list.length > 0) {
          const numbers = ints(list.map(([no]) => no));
          const counts = ints(list.map(([, { lostWith }]) => lostWith));
          const alone = bigints(list.map(([, { job }]) => job));
          await ask(mark, [numbers, bigints(list.map(() => now)), counts, alone]);
        }
        if (tried.size > 0) await ask(endTrial, [ints([...tried].sort((a, b) => a - b))]);
      },
    };
  };
}

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
