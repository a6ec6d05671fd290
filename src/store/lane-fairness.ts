/** How the lanes of a claim are shared out. Jobs that take cpu or memory ("heavy") are claimed apart from all others, and
 *  apart from those of other needs: only so many of them at a time as fit into what the session and its host have left.
 *  A claim is answered from the first share that has due jobs, and that share then goes behind all others, so that neither
 *  light nor heavy jobs starve, nor one need beside another. One that does not fit waits for room: nobody is held back
 *  for its sake. */
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

/** The lanes of a session. */
export interface SessionLanes {
  readonly light: ReadonlySet<number>;
  /** With what each job of theirs takes. */
  readonly heavy: ReadonlyMap<number, Resources>;
  /** What the session may take in all. */
  readonly capacity: Resources;
  /** What its host has for all sessions there. */
  readonly host: Resources;
}

/** What running jobs take now. */
export interface TakenResources {
  readonly bySession: Resources;
  /** By all sessions of the same host, this one included. */
  readonly byHost: Resources;
}

/** Names the host of a session within a store. Per namespace: tenants must not be able to fill each other's hosts. A session
 *  that does not say where it is shares with nobody. */
export function hostName({ id, namespace, host }: { id: string; namespace: string; host: string }): string {
  return JSON.stringify(host === "" ? [namespace, host, id] : [namespace, host]);
}

/** What a claim may still take: of its session, of its host, and of what the request says itself. */
export function roomFor({ capacity, host }: SessionLanes, taken: TakenResources, { room }: ClaimRequest): Resources {
  const left = lesser(without(capacity, taken.bySession), without(host, taken.byHost));
  return room === undefined ? left : lesser(left, room);
}

/** Lanes that a claim looks through together. */
export interface LaneShare {
  /** Orders the shares. */
  readonly name: string;
  readonly lanes: readonly number[];
  readonly limit: number;
  /** What each of its jobs takes; null if nothing. */
  readonly needs: Resources | null;
}

const MAX_SESSIONS = 1_000;
/** Of the shares of a session, far more than one claim looks at: those that do not fit keep their places among so many. */
const MAX_NAMES = 1_000;
const LIGHT = "";

/** The lanes that a session with these labels serves. */
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

/** The heavy lanes whose jobs fit into the room. */
export function fitting({ heavy }: SessionLanes, room: Resources): ReadonlySet<number> {
  return new Set([...heavy].filter(([, needs]) => fits(needs, room)).map(([no]) => no));
}

/** All light lanes are one share. */
export function lightShare(chosen: readonly number[], { limit }: ClaimRequest): LaneShare {
  return { name: LIGHT, lanes: chosen, limit, needs: null };
}

/** The shares of these heavy lanes: one for all of the same needs. */
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

/** Whose turn it is, for each session: its shares stand in a queue, and one that is taken from goes to the end of it. One that
 *  cannot be taken from now, for want of room or of due jobs, keeps its place, whatever others are taken meanwhile. What
 *  is taken while nothing else fits counts too: the room that is free after that is for those who waited for it. */
export class LaneTurns {
  readonly #queues = new Map<number, Set<string>>();

  /** In the order in which they are to be tried: by their places in the queue. New ones come last. */
  order(session: number, shares: readonly LaneShare[]): readonly LaneShare[] {
    if (shares.length < 2) return shares;
    const byName = new Map(shares.map((share) => [share.name, share]));
    const queue = this.#queueOf(session);
    for (const name of queue) {
      if (queue.size <= MAX_NAMES) break;
      if (!byName.has(name)) queue.delete(name); // At the front, unheard of for long: mostly, such jobs come no more.
    }
    for (const name of [...byName.keys()].sort()) if (name !== LIGHT) queue.add(name);
    queue.add(LIGHT); // Last in a new queue: until now it had nothing but light jobs to take.
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
