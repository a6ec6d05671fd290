/** What the loss of a worker says about its job: was it alone, and which other workers were lost or stayed alive. */

// What the loss of a worker says about a job that ran in it. A worker that dies with several attempts accuses none of
// them: any of them, or something outside, may have ended it. A job that was alone in its worker is accused as
// strongly as it is unlikely that the worker died by itself in that time, and how likely that is, other workers show.
// Evidence is counted in tenths of a power of ten, so that it adds up in whole numbers: 60 means one chance in a
// million.

/** Lost quickly so often in a row, a job runs alone in its worker. */
export const SUSPECT_STREAK = 2;
/** Alone for so long: by then a run is no quick loss any more under the default policy. The worker's other slots wait. */
export const ALONE_MS = 30_000;
/** Enough to condemn a job: of a million that are innocent and run alone again and again, one would be. */
export const DECISIVE = 60;
/** Of one loss: more would make rounding errors of the estimate look like certainty. */
const MOST = 99;
/** How long back other workers are looked at: long enough to see one that dies every few minutes, short enough that an
 *  outage is soon forgotten. */
const WATCHED_MS = 10 * 60_000;
/** How often a worker dies by itself where none has died: one that nobody kills and no job harms lives for weeks. With it a
 *  loss within about five seconds of a start is decisive, and one that only the end of a lease shows needs another. */
const CALM_MS = 60 * 86_400_000;

/** Why a loss says nothing about the jobs of the worker.
 *  @example
 *  const excuse: Excuse = "engine_away"; */
export type Excuse =
  /** The engine had ended by then (one that is late or asleep excuses nothing), and the worker's process was none: what ended the engine is likely to have ended the worker. */
  | "engine_away"
  /** The worker had said goodbye. */
  | "stopped"
  /** The worker itself reports that the run is no longer its own. */
  | "alive"
  /** Nothing is recorded of its session. */
  | "unknown";

/** Other workers like the one that was lost, over the last ten minutes.
 *  @example
 *  const calm: OtherWorkers = { lost: 0, watchedMs: 4_800_000 }; */
interface OtherWorkers {
  /** How many of them were lost. Those that the job itself was lost in are not counted, nor those that died alone with a job
   *  that has since been found to be poison. */
  readonly lost: number;
  /** For how long they were alive, added up. */
  readonly watchedMs: number;
}

/** The circumstances of a loss.
 *  @example
 *  const crash: Crash = { beside: 0, others: { lost: 0, watchedMs: 600_000 } }; */
export interface Crash {
  /** Other attempts that its process had in hand. */
  readonly beside: number;
  /** Left out: nothing speaks for the job. */
  readonly excuse?: Excuse;
  /** Only where it was alone. */
  readonly others?: OtherWorkers;
}

/** Deaths in a millisecond of a worker's life. One more than were seen: the next one is always to be expected. */
function rate({ lost, watchedMs }: OtherWorkers): number {
  return lost === 0 ? 0 : (lost + 1) / Math.max(1, watchedMs);
}

/** What a loss adds to the evidence against a job that had run for so long, and was alone in its worker. */
export function evidenceOf(ranMs: number, others: OtherWorkers): number {
  const perMs = Math.max(1 / CALM_MS, rate(others));
  const chance = -Math.expm1(-perMs * Math.max(1, ranMs));
  return Math.max(0, Math.min(MOST, Math.floor(-10 * Math.log10(chance))));
}

/** "one in 250,000": the chance that a worker dies by itself so often, for people. */
export function chanceText(evidence: number): string {
  if (evidence > MOST) return "less than one in a billion";
  const one = 10 ** (evidence / 10);
  const digits = 10 ** Math.max(0, Math.floor(Math.log10(one)) - 1);
  return `one in ${(Math.round(one / digits) * digits).toLocaleString("en-US")}`;
}

// How other workers fared, from the sessions of the last minutes: it shows how often one dies by itself.

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
export type FindOtherWorkers = (lost: Omit<WatchedSession, "isExplained">, lostIn: Iterable<number>) => OtherWorkers;

/** The sessions are added up once, host by host and pool by pool, because many lost jobs may ask. The answer is of the host or of
 *  the pool, whichever fared worse: many good machines must not hide a bad one, nor good pools a bad one. */
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
