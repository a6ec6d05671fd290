/** What SQLite knows about lost sessions; read only when the reaper settles. */
import { type FindOtherWorkers, otherWorkers, processKey, type WatchedSession } from "../../core/decision/evidence.ts";
import {
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
import type { SqliteContext } from "./context.ts";

const WATCHED = `no, host, pool, process, pid, started_at as startedAt,
  renewed_at as renewedAt, ended_at as endedAt, lost_at as lostAt`;

export function lossKeeper({ db }: SqliteContext) {
  const find = db.prepare(
    `select ${WATCHED}, lease_ms as leaseMs, coalesce(lost_with, 0) as lostWith from session where no = ?`,
  );
  const inHand = db.prepare("select count(*) as jobs from job indexed by job_running where state = 1 and session = ?");
  // Sessions of the same process that were lost with it or earlier.
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
  const endTrial = db.prepare("update session set alone_until = null where no = ?");
  const countOf = (no: number) => (inHand.get(no) as { jobs: number }).jobs;

  function factsOf(jobs: Iterable<StoredJob>, now: number): LossFacts {
    const sessions = new Map<number, LostSession>();
    const processes = new Map<string, readonly ProcessSession[]>();
    let others: FindOtherWorkers | null = null;
    for (const { session } of jobs) {
      if (session === null || sessions.has(session)) continue;
      const found = find.get(session) as LostSession | undefined;
      if (found === undefined) continue;
      sessions.set(session, { ...found, lostWith: diedWith(found, countOf(session), processOf(found)) });
    }

    /** Read once for all sessions of the process. */
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
      sessions,
      gap: parseOrNull<EngineGap>((gap.get() as { value: string } | undefined)?.value ?? null),
      others(session, job) {
        others ??= otherWorkers(newest.all() as unknown as WatchedSession[], now);
        const own = lostIn.all(job.no) as { session: number }[];
        return others(
          session,
          own.map((row) => row.session),
        );
      },
    };
  }

  return {
    /** Sessions are read only for reports of the reaper. */
    of(jobs: Iterable<StoredJob>, items: readonly SettleItem[]): Losses {
      const isReaping = items.some(({ report }) => report.from.kind === "reaper");
      return new Losses(isReaping ? factsOf(jobs, items[0]?.now ?? 0) : NO_LOSSES);
    },
    write({ marks, endedTrials }: Losses, now: number): void {
      for (const [no, { lostWith, job }] of marks) mark.run(now, lostWith, job, no);
      for (const no of endedTrials) endTrial.run(no);
    },
  };
}
