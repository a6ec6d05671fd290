/** How other workers fared, from the sessions of the last minutes: it shows how often one dies by itself. */
import { type OtherWorkers, rate, WATCHED_MS } from "./evidence.ts";

/** A worker's session, as far as it shows how long workers live. */
export interface WatchedSession {
  readonly no: number;
  readonly host: string;
  /** Of what it can run: workers with the same are alike. */
  readonly pool: string;
  /** Null: not known. Together with `pid` it names one process, and sessions of one process die together. */
  readonly process: string | null;
  readonly pid: number;
  readonly startedAt: number;
  readonly renewedAt: number;
  readonly endedAt: number | null;
  /** Null: it lives, or stopped in good order. */
  readonly lostAt: number | null;
  /** It died alone with a job that has since been found to be poison. */
  readonly isExplained: boolean;
}

/** Answers how workers like a lost one fared, without the sessions in which its job was lost and those that died with them. */
export type AskOthers = (lost: Omit<WatchedSession, "isExplained">, lostIn: Iterable<number>) => OtherWorkers;

/** The sessions are added up once, host by host and pool by pool, because many lost jobs may ask. The answer is of the host or of
 *  the pool, whichever fared worse: many good machines must not hide a bad one, nor good pools a bad one. */
export function otherWorkers(sessions: readonly WatchedSession[], now: number): AskOthers {
  const byNo = new Map<number, WatchedSession>();
  const ofProcess = new Map<string, WatchedSession[]>();
  const [hosts, pools] = [new Map<string, OtherWorkers>(), new Map<string, OtherWorkers>()];
  for (const session of sessions) {
    byNo.set(session.no, session);
    const key = processKey(session);
    const same = key === null ? undefined : ofProcess.get(key);
    if (same !== undefined) same.push(session);
    else if (key !== null) ofProcess.set(key, [session]);
    const own = fared(session, now);
    hosts.set(session.host, plus(hosts.get(session.host), own));
    pools.set(session.pool, plus(pools.get(session.pool), own));
  }

  return (lost, lostIn) => {
    const left = new Set<WatchedSession>();
    for (const no of [lost.no, ...lostIn]) {
      const session = no === lost.no ? lost : byNo.get(no);
      if (session === undefined) continue;
      const itself = byNo.get(no);
      if (itself !== undefined) left.add(itself);
      for (const other of ofProcess.get(processKey(session) ?? "") ?? []) {
        if (diedTogether(session, other, now)) left.add(other);
      }
    }
    let [ofHost, ofPool] = [hosts.get(lost.host) ?? NONE, pools.get(lost.pool) ?? NONE];
    for (const session of left) {
      const own = fared(session, now);
      if (session.host === lost.host) ofHost = minus(ofHost, own);
      if (session.pool === lost.pool) ofPool = minus(ofPool, own);
    }
    return rate(ofHost) > rate(ofPool) ? ofHost : ofPool;
  };
}

const NONE: OtherWorkers = { lost: 0, watchedMs: 0 };

function plus(sum: OtherWorkers = NONE, { lost, watchedMs }: OtherWorkers): OtherWorkers {
  return { lost: sum.lost + lost, watchedMs: sum.watchedMs + watchedMs };
}

function minus(sum: OtherWorkers, { lost, watchedMs }: OtherWorkers): OtherWorkers {
  return { lost: sum.lost - lost, watchedMs: sum.watchedMs - watchedMs };
}

/** The name of its process; null where that is not known. */
export function processKey({ process, pid }: Pick<WatchedSession, "process" | "pid">): string | null {
  return process === null ? null : `${pid} ${process}`;
}

/** Of two sessions of one process: neither was over before the other was last heard of. */
function diedTogether(a: Omit<WatchedSession, "isExplained">, b: Omit<WatchedSession, "isExplained">, now: number) {
  const overAt = ({ lostAt, endedAt }: typeof a) => lostAt ?? endedAt ?? now;
  return overAt(a) >= b.renewedAt && overAt(b) >= a.renewedAt;
}

function fared({ startedAt, renewedAt, endedAt, lostAt, isExplained }: WatchedSession, now: number): OtherWorkers {
  const from = now - WATCHED_MS;
  const lost = lostAt !== null && lostAt > from && !isExplained ? 1 : 0;
  // When a lost one died nobody knows: it was last heard of with its last renewal.
  const until = lostAt === null ? (endedAt ?? now) : Math.min(lostAt, renewedAt);
  return { lost, watchedMs: Math.max(0, Math.min(now, until) - Math.max(from, startedAt)) };
}
