/** What PostgreSQL knows of sessions that were lost: asked only where the reaper settles. The sessions are locked by then. */
import { type Crash, SUSPECT_STREAK, type WatchedSession } from "../../core/evidence.ts";
import type { Report } from "../../core/work.ts";
import { crashOf, type Gap, type LostSession, NEWEST_WATCHED, othersOf } from "../losses.ts";
import type { StoredJob } from "../stored-job.ts";
import { bigints, ints } from "./arrays.ts";
import type { Connection } from "./connections.ts";
import type { Context } from "./context.ts";
import type { Row } from "./driver.ts";

export interface Losses {
  crash(job: StoredJob, report: Report): Crash | undefined;
  /** The attempt was taken from its session. */
  took(job: StoredJob, report: Report): void;
  /** What is to be noted of the sessions. */
  write(connection: Connection): Promise<void>;
}

const WATCHED = `s.no, s.host, json_build_array(s.namespace, s.kinds, s.queues, s.labels)::text, s.started_at, s.renewed_at,
  s.ended_at, s.lost_at`;

export function lossKeeper({ sql }: Context) {
  // With all that the other sessions of the same process hold: they died with it.
  const find = sql(
    "loss_sessions",
    `select ${WATCHED}, s.pid, s.process, s.lease_ms, greatest(
       (select count(*)::int from $s.session t cross join lateral (
          select from $s.job j where j.state = 1 and j.session = t.no
        ) held where t.no = s.no or (t.reaped = 0 and t.process = s.process and t.pid = s.pid)),
       (select coalesce(max(t.lost_with), 0) from $s.session t
        where t.no = s.no or (t.reaped = 0 and t.process = s.process and t.pid = s.pid)))
     from $s.session s where s.no = any ($1::int[])`,
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

  /** For one list of reports: what it says of a session was so before any of them was settled. */
  return async (
    connection: Connection,
    jobs: readonly StoredJob[],
    reports: readonly Report[],
    now: number,
  ): Promise<Losses> => {
    const sessions = new Map<number, LostSession>();
    const own = new Map<number, number[]>();
    let watched: readonly WatchedSession[] = [];
    let gap: Gap | null = null;
    if (reports.some(({ from }) => from.kind === "reaper")) {
      const numbers = new Set(jobs.flatMap(({ session }) => (session === null ? [] : [session])));
      for (const row of await connection.ask(find, [ints([...numbers])]))
        sessions.set(row[0] as number, lostSession(row));
      const [[text = ""] = []] = await connection.ask(gapOf);
      gap = text === "" ? null : (JSON.parse(text as string) as Gap);
      const alone = jobs.filter(({ session }) => session !== null && sessions.get(session)?.lostWith === 1);
      if (alone.length > 0) {
        watched = (await connection.ask(newest)).map(watchedSession);
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
        const others = () => (session === null ? undefined : othersOf(watched, session, own.get(job.no) ?? [], now));
        return crashOf(job, report, session, { gap, others });
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

function ofRow([no, host, pool, startedAt, renewedAt, endedAt, lostAt]: Row) {
  return { no, host, pool, startedAt, renewedAt, endedAt, lostAt } as Omit<WatchedSession, "isExplained">;
}

function lostSession(row: Row): LostSession {
  const [pid, process, leaseMs, lostWith] = row.slice(7) as [number, string | null, number, number];
  return { ...ofRow(row), pid, process, leaseMs, lostWith };
}

function watchedSession(row: Row): WatchedSession {
  return { ...ofRow(row), isExplained: row[7] as boolean };
}
