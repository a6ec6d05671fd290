/** What SQLite knows of sessions that were lost: asked only where the reaper settles. */
import {
  type Crash,
  type FindOtherWorkers,
  otherWorkers,
  processKey,
  type WatchedSession,
} from "../../core/decision/evidence.ts";
import type { Report } from "../../core/worker-protocol.ts";
import { crashOf, diedWith, type EngineGap, type LostSession, NEWEST_WATCHED, type ProcessSession } from "../losses.ts";
import { parseOrNull, type StoredJob } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";

const WATCHED = `no, host, pool, process, pid, started_at as startedAt,
  renewed_at as renewedAt, ended_at as endedAt, lost_at as lostAt`;

export type LossKeeper = ReturnType<typeof lossKeeper>;

export function lossKeeper({ db }: SqliteContext) {
  const find = db.prepare(
    `select ${WATCHED}, lease_ms as leaseMs, coalesce(lost_with, 0) as lostWith from session where no = ?`,
  );
  const inHand = db.prepare("select count(*) as jobs from job indexed by job_running where state = 1 and session = ?");
  // The sessions of a process that died with it, or before it.
  const ofProcess = db.prepare(
    `select no, process, pid, reaped, lost_at as lostAt, coalesce(lost_with, 0) as lostWith
     from session indexed by session_process
     where process = ? and pid = ? and reaped < 2 and (reaped = 0 or lost_with is not null)`,
  );
  const mark = db.prepare(
    "update session set lost_at = coalesce(lost_at, ?), lost_with = ?, lost_job = ? where no = ?",
  );
  const lostIn = db.prepare("select session from attempt where job = ? and outcome = 'lost' and session is not null");
  const newest = db.prepare(
    `select ${WATCHED}, exists (select 1 from job j where j.no = lost_job and j.reason = 'poison') as isExplained
     from session where reaped < 2 order by no desc limit ${NEWEST_WATCHED}`,
  );
  const gap = db.prepare("select value from meta where name = 'gap'");
  const countOf = (no: number) => (inHand.get(no) as { jobs: number }).jobs;

  /** For one list of reports: what it says of a session was so before any of them was settled. */
  return (jobs: Iterable<StoredJob>, reports: readonly Report[], now: number) => {
    const sessions = new Map<number, LostSession>();
    const processes = new Map<string, readonly ProcessSession[]>();
    let others: FindOtherWorkers | null = null;
    let lastGap: EngineGap | null = null;
    if (reports.some(({ from }) => from.kind === "reaper")) {
      lastGap = parseOrNull<EngineGap>((gap.get() as { value: string } | undefined)?.value ?? null);
      for (const { session } of jobs) {
        if (session === null || sessions.has(session)) continue;
        const found = find.get(session) as LostSession | undefined;
        if (found !== undefined)
          sessions.set(session, { ...found, lostWith: diedWith(found, countOf(session), processOf(found)) });
      }
    }

    /** Read once for all of its sessions. */
    function processOf({ process, pid }: LostSession): readonly ProcessSession[] {
      const key = processKey({ process, pid });
      if (key === null) return [];
      const known = processes.get(key);
      if (known !== undefined) return known;
      const rows = ofProcess.all(process, pid) as unknown as (ProcessSession & { reaped: number })[];
      const found = rows.map((row) => ({ ...row, isReaped: row.reaped !== 0, held: countOf(row.no) }));
      processes.set(key, found);
      return found;
    }

    return {
      crash(job: StoredJob, report: Report): Crash | undefined {
        const session = job.session === null ? null : (sessions.get(job.session) ?? null);
        const ask = () => {
          if (session === null) return undefined;
          others ??= otherWorkers(newest.all() as unknown as WatchedSession[], now);
          return others(
            session,
            (lostIn.all(job.no) as { session: number }[]).map((row) => row.session),
          );
        };
        return crashOf(job, report, session, { gap: lastGap, others: ask });
      },
      /** The attempt was taken from its session, which is lost. */
      took(job: StoredJob, { from }: Report): void {
        const session = job.session === null ? undefined : sessions.get(job.session);
        if (from.kind !== "reaper" || session === undefined) return;
        const { no, lostWith, endedAt, lostAt } = session;
        if (endedAt !== null && lostAt === null) return; // it had stopped
        mark.run(now, lostWith, lostWith === 1 ? job.no : null, no);
      },
    };
  };
}
