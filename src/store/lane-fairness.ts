/** How a claim is divided among lanes. Jobs that need cpu or memory ("heavy") are claimed apart from all others and
 *  apart from those with other needs, and only as many as the session and its host have capacity for. A claim is
 *  answered from the first share with due jobs, and that share then moves behind all others, so neither light nor heavy
 *  jobs starve, nor one kind of need because of another. A job that is too large waits for capacity without holding
 *  back others. */
import {
  fits,
  hostResources,
  lesser,
  NO_RESOURCES,
  type Resources,
  resourcesIn,
  without,
} from "../core/input/resources.ts";
import type { Lane } from "./lane.ts";
import type { ClaimRequest } from "./store.ts";

/** The lanes that a session can serve. */
export interface SessionLanes {
  readonly light: ReadonlySet<number>;
  /** Lane to the needs of each of its jobs. */
  readonly heavy: ReadonlyMap<number, Resources>;
  /** The session's total capacity. */
  readonly capacity: Resources;
  /** The host's capacity for all its sessions. */
  readonly host: Resources;
}

/** What running jobs use now. */
export interface TakenResources {
  readonly bySession: Resources;
  /** By all sessions of the host, including this one. */
  readonly byHost: Resources;
}

/** Identifies the host of a session within a store. Per namespace: tenants must not be able to fill each other's hosts.
 *  A session that does not report its host shares with nobody. */
export function hostName({ id, namespace, host }: { id: string; namespace: string; host: string }): string {
  return JSON.stringify(host === "" ? [namespace, host, id] : [namespace, host]);
}

/** Capacity left for a claim: the minimum of its session's, its host's and what the request allows. */
export function freeCapacity(
  { capacity, host }: SessionLanes,
  taken: TakenResources,
  { room }: ClaimRequest,
): Resources {
  const left = lesser(without(capacity, taken.bySession), without(host, taken.byHost));
  return room === undefined ? left : lesser(left, room);
}

/** Lanes that a claim scans together. */
export interface LaneShare {
  /** Sort key of the shares. */
  readonly name: string;
  readonly lanes: readonly number[];
  readonly limit: number;
  /** Needs of each of its jobs; null if none. */
  readonly needs: Resources | null;
}

const MAX_SESSIONS = 1_000;
/** Shares remembered per session, far more than one claim scans, so that shares without capacity keep their place. */
const MAX_NAMES = 1_000;
const LIGHT = "";

/** The lanes that a session with these labels can serve. */
export function sortLanes(lanes: Iterable<Lane>, labels: Readonly<Record<string, string>>): SessionLanes {
  const light = new Set<number>();
  const heavy = new Map<number, Resources>();
  for (const { no, labels } of lanes) {
    const needs = resourcesIn(labels);
    if (needs === null) light.add(no);
    else heavy.set(no, needs);
  }
  return { light, heavy, capacity: resourcesIn(labels) ?? NO_RESOURCES, host: hostResources(labels) };
}

/** The heavy lanes whose jobs fit into this capacity. */
export function fitting({ heavy }: SessionLanes, room: Resources): ReadonlySet<number> {
  return new Set([...heavy].filter(([, needs]) => fits(needs, room)).map(([no]) => no));
}

/** All light lanes are one share. */
export function lightShare(chosen: readonly number[], { limit }: ClaimRequest): LaneShare {
  return { name: LIGHT, lanes: chosen, limit, needs: null };
}

/** The shares of these heavy lanes: one per distinct needs. */
export function heavyShares(
  { heavy }: SessionLanes,
  chosen: readonly number[],
  limit: number,
  room: Resources,
): LaneShare[] {
  const shares = new Map<string, { lanes: number[]; limit: number; needs: Resources }>();
  for (const no of chosen) {
    const needs = heavy.get(no) as Resources;
    const name = `${needs.cpu}/${needs.memory}`;
    const share = shares.get(name);
    if (share !== undefined) share.lanes.push(no);
    else shares.set(name, { lanes: [no], limit: Math.min(limit, howMany(needs, room)), needs });
  }
  return [...shares].map(([name, share]) => ({ name, ...share }));
}

export function howMany({ cpu, memory }: Resources, room: Resources): number {
  const of = (need: number, left: number) => (need === 0 ? Number.POSITIVE_INFINITY : Math.floor(left / need));
  return Math.min(of(cpu, room.cpu), of(memory, room.memory));
}

/** Whose turn it is, per session: its shares form a queue, and one that jobs were taken from moves to the end. A share
 *  that cannot be used now, for lack of capacity or due jobs, keeps its place, even while jobs of the only usable share
 *  are taken: capacity freed later goes to those that waited. */
export class LaneTurns {
  readonly #queues = new Map<number, Set<string>>();

  /** The shares in the order to try them. New ones come last. */
  order(session: number, shares: readonly LaneShare[]): readonly LaneShare[] {
    if (shares.length < 2) return shares;
    const byName = new Map(shares.map((share) => [share.name, share]));
    const queue = this.#queueOf(session);
    for (const name of queue) {
      if (queue.size <= MAX_NAMES) break;
      if (!byName.has(name)) queue.delete(name); // At the front and unused for long: such jobs rarely return.
    }
    for (const name of [...byName.keys()].sort()) if (name !== LIGHT) queue.add(name);
    queue.add(LIGHT); // Last in a new queue: until now there were only light jobs.
    return [...queue].flatMap((name) => byName.get(name) ?? []);
  }

  taken(session: number, { name }: LaneShare): void {
    const queue = this.#queues.get(session);
    queue?.delete(name);
    queue?.add(name);
  }

  #queueOf(session: number): Set<string> {
    const queue = this.#queues.get(session) ?? new Set();
    if (this.#queues.size >= MAX_SESSIONS && !this.#queues.has(session)) this.#queues.clear();
    this.#queues.set(session, queue);
    return queue;
  }
}
