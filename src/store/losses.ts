/** What a store knows about a lost session, and what that means for its jobs. The same in every adapter. */
import { createHash } from "node:crypto";
import { type Crash, processKey, SUSPECT_STREAK, type WatchedSession } from "../core/decision/evidence.ts";
import type { NewSession, Report } from "../core/worker-protocol.ts";
import type { Beat, EngineProcess } from "./store.ts";
import type { StoredJob } from "./stored-job.ts";

/** How many of the newest sessions are checked: far more than start in ten minutes, and few enough to read at once. */
export const NEWEST_WATCHED = 2_000;

/** A short hash of what a session can run. The texts may be long and are compared across thousands of sessions. */
export function poolOf({ namespace, kinds, queues, labels }: NewSession): string {
  const text = JSON.stringify([namespace, kinds, queues, labels]);
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

/** A session that holds, or held, the attempts that the reaper settles. */
export interface LostSession extends Omit<WatchedSession, "isExplained"> {
  readonly leaseMs: number;
  /** Attempts that its process held when it was found lost. */
  readonly lostWith: number;
}

/** A session of the same process as a lost one. */
export interface ProcessSession extends Pick<WatchedSession, "no" | "process" | "pid" | "lostAt"> {
  /** It was lost, and all its attempts are settled. */
  readonly isReaped: boolean;
  /** Attempts that it holds now. */
  readonly held: number;
  /** As noted when it was lost; 0: not lost, or it held nothing. */
  readonly lostWith: number;
}

/** Attempts that a session's process held when it exited. Sessions of one process are lost together but found one after
 *  another, as their leases end: so those found and settled since this session's last renewal count too. */
export function diedWith(
  { no, renewedAt, lostWith }: LostSession,
  held: number,
  ofProcess: readonly ProcessSession[],
): number {
  let [inHand, most] = [held, lostWith];
  for (const other of ofProcess) {
    if (other.no === no) continue;
    if (!other.isReaped) inHand += other.held;
    else if (other.lostAt === null || other.lostAt < renewedAt) continue;
    most = Math.max(most, other.lostWith);
  }
  return Math.max(inHand, most);
}

/** Groups the sessions by process. */
export function byProcess(sessions: Iterable<ProcessSession>): ReadonlyMap<string, readonly ProcessSession[]> {
  const groups = new Map<string, ProcessSession[]>();
  for (const session of sessions) {
    const key = processKey(session) ?? "";
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [session]);
    else group.push(session);
  }
  return groups;
}

/** The time from the last known beat of an engine that exited to the next beat of any engine. */
export interface EngineGap {
  readonly from: number;
  readonly to: number;
  /** The last engine before the gap; null if its whole machine went down, or it is unknown. */
  readonly by: EngineProcess | null;
}

/** What is known of the sessions in a list of reports, before any of its jobs is settled. */
export interface LossFacts {
  /** By number; empty if no report is from the reaper. */
  readonly sessions: ReadonlyMap<number, LostSession>;
  readonly gap: EngineGap | null;
  /** Whether other workers were lost too; queried only for a job that was alone in its session's process. */
  others(session: LostSession, job: StoredJob): Crash["others"];
}

export const NO_LOSSES: LossFacts = { sessions: new Map(), gap: null, others: () => undefined };

/** What is stored about a lost session. */
export interface LossMark {
  readonly lostWith: number;
  /** The only job that it held. */
  readonly job: number | null;
}

/** The losses of one settle: what they mean for their jobs, and what is stored about their sessions. */
export class Losses {
  /** By the session's number. */
  readonly marks = new Map<number, LossMark>();
  /** Sessions that ran a suspect alone, which has ended. */
  readonly endedTrials = new Set<number>();
  readonly #facts: LossFacts;

  constructor(facts: LossFacts) {
    this.#facts = facts;
  }

  /** What is known about the loss of a job, if this report closes it as lost. */
  crash(job: StoredJob, { from, outcome }: Report): Crash | undefined {
    if (outcome.kind !== "lost") return undefined;
    if (from.kind !== "reaper") return { beside: 0, excuse: "alive" };
    const { sessions, gap } = this.#facts;
    const session = job.session === null ? undefined : sessions.get(job.session);
    if (session === undefined) return { beside: 0, excuse: "unknown" };
    const beside = Math.max(0, session.lostWith - 1);
    if (hasStopped(session)) return { beside, excuse: "stopped" };
    if (isAway(job, session, gap)) return { beside, excuse: "engine_away" };
    const others = beside === 0 ? this.#facts.others(session, job) : undefined;
    return others === undefined ? { beside } : { beside, others };
  }

  /** The attempt is taken from its session. */
  took({ no, state, session, streak }: StoredJob, { from }: Report): void {
    if (state !== "running" || session === null) return;
    if (streak >= SUSPECT_STREAK) this.endedTrials.add(session);
    if (from.kind !== "reaper") return;
    const lost = this.#facts.sessions.get(session);
    if (lost === undefined || hasStopped(lost)) return;
    const { lostWith } = lost;
    this.marks.set(session, { lostWith, job: lostWith === 1 ? no : null });
  }
}

function hasStopped({ endedAt, lostAt }: LostSession): boolean {
  return endedAt !== null && lostAt === null;
}

/** Its last renewal was within the gap, or so shortly before that it may have exited during it. Does not excuse a
 *  process that ran the engine itself: a job may have killed it. */
function isAway({ startedAt }: StoredJob, session: LostSession, gap: EngineGap | null): boolean {
  if (gap === null) return false;
  const { renewedAt, leaseMs, host, process, pid } = session;
  const lastRenewal = Math.max(renewedAt, startedAt ?? 0);
  // Every session renews at least every third of its lease.
  if (lastRenewal + leaseMs / 2 < gap.from || lastRenewal >= gap.to) return false;
  const { by } = gap;
  return by === null || by.host !== host || by.pid !== pid || by.process !== process;
}

function isSame(a: EngineProcess, b: EngineProcess | undefined): boolean {
  return a.host === b?.host && a.pid === b.pid && a.process === b.process;
}

/** The gap that a beat finds, or null. Of engines on one machine whose boot differs, the machine went down in between. */
export function gapFound(
  before: { readonly at: number | null; readonly by: EngineProcess | null },
  beat: Pick<Beat, "self" | "isOver"> & { readonly now: number },
  isSilent: boolean,
): EngineGap | null {
  const { at, by } = before;
  if (at === null) return null;
  // An engine that lives was only late, as on a busy machine: nothing has ended it.
  const isOver = by === null ? null : isSame(by, beat.self) ? false : (beat.isOver?.(by) ?? null);
  if (isOver === false || (isOver === null && !isSilent)) return null;
  const bootOf = ({ process }: EngineProcess) => process?.split(" ")[0];
  const isOtherBoot = by !== null && beat.self?.host === by.host && bootOf(beat.self) !== bootOf(by);
  return { from: at, to: beat.now, by: isOtherBoot ? null : by };
}
