/** Evidence that a job crashes its workers. If several attempts ran in a lost worker, any of them or something else may be the
 *  cause, so the loss does not count as evidence. For a job that ran alone, the evidence is the less likely the loss of the worker without
 *  its job in that time, as estimated from the losses of similar workers. It is counted in tenths of a power of ten, so that it
 *  adds up in whole numbers: 60 means a chance of one in a million. */

/** After this many quick losses in a row, a job runs alone in its worker. */
export const SUSPECT_STREAK = 2;
/** How long it runs alone, while the other slots of the worker wait: a later loss is not quick under the default policy. */
export const ALONE_MS = 30_000;
/** Enough evidence to fail a job as poison. */
export const DECISIVE = 60;
/** The limit for one loss, as the estimate is not more exact. */
const MOST = 99;
/** The time over which other workers are observed: it includes one that exits every few minutes, and soon forgets an outage. */
const WATCHED_MS = 10 * 60_000;
/** The assumed lifetime of a worker where no loss was observed. A loss within about five seconds of a start is then decisive,
 *  and one that only the end of a lease shows is not. */
const CALM_MS = 60 * 86_400_000;

/** Why a loss does not count as evidence against the jobs of the worker.
 *  @example
 *  const excuse: Excuse = "engine_away"; */
export type Excuse =
  /** The engine had exited too (not merely late or asleep), and the worker's process did not exist: probably for one reason. */
  | "engine_away"
  /** The worker had shut down cleanly. */
  | "stopped"
  /** The worker reports that it no longer holds the attempt. */
  | "alive"
  /** Its session has no record. */
  | "unknown";

/** The workers similar to the lost one, over the last ten minutes.
 *  @example
 *  const calm: OtherWorkers = { lost: 0, watchedMs: 4_800_000 }; */
interface OtherWorkers {
  /** How many of them were lost, without those that this job was lost in, and those lost while they ran only a job that has
   *  since failed as poison. */
  readonly lost: number;
  /** The sum of their running times. */
  readonly watchedMs: number;
}

/** The circumstances of a loss.
 *  @example
 *  const crash: Crash = { beside: 0, others: { lost: 0, watchedMs: 600_000 } }; */
export interface Crash {
  /** Other attempts that its process held. */
  readonly beside: number;
  /** Absent where no other cause is known. */
  readonly excuse?: Excuse;
  /** Only where it ran alone. */
  readonly others?: OtherWorkers;
}

/** Losses per millisecond of running time, with one more than were observed. */
function rate({ lost, watchedMs }: OtherWorkers): number {
  return lost === 0 ? 0 : (lost + 1) / Math.max(1, watchedMs);
}

/** The evidence of the loss of a worker that ran only this job, for `ranMs`. */
export function evidenceOf(ranMs: number, others: OtherWorkers): number {
  const perMs = Math.max(1 / CALM_MS, rate(others));
  const chance = -Math.expm1(-perMs * Math.max(1, ranMs));
  return Math.max(0, Math.min(MOST, Math.floor(-10 * Math.log10(chance))));
}

/** The chance of another cause as text: `one in 250,000`. */
export function chanceText(evidence: number): string {
  if (evidence > MOST) return "less than one in a billion";
  const one = 10 ** (evidence / 10);
  const digits = 10 ** Math.max(0, Math.floor(Math.log10(one)) - 1);
  return `one in ${(Math.round(one / digits) * digits).toLocaleString("en-US")}`;
}

/** The session of a worker, for the estimate of how long workers run. */
export interface WatchedSession {
  readonly no: number;
  readonly host: string;
  /** What it can run: workers with the same value are similar. */
  readonly pool: string;
  /** With `pid` it identifies a process, whose sessions are lost together. Null: not known. */
  readonly process: string | null;
  readonly pid: number;
  readonly startedAt: number;
  readonly renewedAt: number;
  readonly endedAt: number | null;
  /** Null: it is live, or shut down cleanly. */
  readonly lostAt: number | null;
  /** It was lost while it ran only a job that has since failed as poison. */
  readonly isExplained: boolean;
}

/** Returns the losses of similar workers, without the sessions in which the job was lost and those lost together with them. */
export type FindOtherWorkers = (lost: Omit<WatchedSession, "isExplained">, lostIn: Iterable<number>) => OtherWorkers;

/** Adds up the sessions once by host and once by pool, as there may be many lost jobs. The result is that of the host or of the
 *  pool, whichever has the higher rate of losses, so that a bad one is not hidden by many good ones. */
export function otherWorkers(sessions: readonly WatchedSession[], now: number): FindOtherWorkers {
  const byNo = new Map<number, WatchedSession>();
  const ofProcess = new Map<string, WatchedSession[]>();
  const [hosts, pools] = [new Map<string, OtherWorkers>(), new Map<string, OtherWorkers>()];
  for (const session of sessions) {
    byNo.set(session.no, session);
    const key = processKey(session);
    const same = key === null ? undefined : ofProcess.get(key);
    if (same !== undefined) same.push(session);
    else if (key !== null) ofProcess.set(key, [session]);
    const own = lossesOf(session, now);
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
        if (lostTogether(session, other, now)) left.add(other);
      }
    }
    let [ofHost, ofPool] = [hosts.get(lost.host) ?? NONE, pools.get(lost.pool) ?? NONE];
    for (const session of left) {
      const own = lossesOf(session, now);
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

/** The identity of its process; null where not known. */
export function processKey({ process, pid }: Pick<WatchedSession, "process" | "pid">): string | null {
  return process === null ? null : `${pid} ${process}`;
}

/** For two sessions of one process: neither had ended before the last renewal of the other. */
function lostTogether(a: Omit<WatchedSession, "isExplained">, b: Omit<WatchedSession, "isExplained">, now: number) {
  const overAt = ({ lostAt, endedAt }: typeof a) => lostAt ?? endedAt ?? now;
  return overAt(a) >= b.renewedAt && overAt(b) >= a.renewedAt;
}

function lossesOf({ startedAt, renewedAt, endedAt, lostAt, isExplained }: WatchedSession, now: number): OtherWorkers {
  const from = now - WATCHED_MS;
  const lost = lostAt !== null && lostAt > from && !isExplained ? 1 : 0;
  // The time of a loss is not known; the last renewal is the last sign of life.
  const until = lostAt === null ? (endedAt ?? now) : Math.min(lostAt, renewedAt);
  return { lost, watchedMs: Math.max(0, Math.min(now, until) - Math.max(from, startedAt)) };
}
