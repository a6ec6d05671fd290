/** How the lanes of a claim are shared out. Jobs that take cpu or memory ("heavy") are claimed apart from all others, and
 *  apart from those of other needs: only so many of them at a time as fit into the room that the session has left.
 *  A claim is answered from the first share that has due jobs, and the next claim begins with the share after it, so that
 *  neither light nor heavy jobs starve. One that does not fit waits for room: nobody is held back for its sake. */
import { fits, NO_RESOURCES, type Resources, resourcesIn } from "../core/resources.ts";
import type { Lane } from "./lane.ts";
import type { ClaimRequest } from "./store.ts";

/** The lanes of a session. */
export interface Lanes {
  readonly light: ReadonlySet<number>;
  /** With what each job of theirs takes. */
  readonly heavy: ReadonlyMap<number, Resources>;
  /** What the session has in all. */
  readonly capacity: Resources;
}

/** Lanes that a claim looks through together. */
export interface Share {
  /** Orders the shares. */
  readonly name: string;
  readonly lanes: readonly number[];
  readonly limit: number;
}

const MAX_SESSIONS = 1_000;
const LIGHT = "";

/** The lanes that a session with these labels serves. */
export function sortLanes(lanes: Iterable<Lane>, labels: Readonly<Record<string, string>>): Lanes {
  const light = new Set<number>();
  const heavy = new Map<number, Resources>();
  for (const { no, labels } of lanes) {
    const needs = resourcesIn(labels);
    if (needs === null) light.add(no);
    else heavy.set(no, needs);
  }
  return { light, heavy, capacity: resourcesIn(labels) ?? NO_RESOURCES };
}

/** The heavy lanes whose jobs fit into the room: what is said of it, or all that the session has. */
export function fitting({ heavy, capacity }: Lanes, { room = capacity }: ClaimRequest): ReadonlySet<number> {
  return new Set([...heavy].filter(([, needs]) => fits(needs, room)).map(([no]) => no));
}

/** All light lanes are one share. */
export function lightShare(chosen: readonly number[], { limit }: ClaimRequest): Share {
  return { name: LIGHT, lanes: chosen, limit };
}

/** The shares of these heavy lanes: one for all of the same needs. */
export function heavyShares(
  { heavy, capacity }: Lanes,
  chosen: readonly number[],
  { limit, room = capacity }: ClaimRequest,
): Share[] {
  const shares = new Map<string, { lanes: number[]; limit: number }>();
  for (const no of chosen) {
    const needs = heavy.get(no) as Resources;
    const name = `${needs.cpu}/${needs.memory}`;
    const share = shares.get(name);
    if (share === undefined) shares.set(name, { lanes: [no], limit: Math.min(limit, howMany(needs, room)) });
    else share.lanes.push(no);
  }
  return [...shares].map(([name, share]) => ({ name, ...share }));
}

function howMany({ cpu, memory }: Resources, room: Resources): number {
  const of = (need: number, left: number) => (need === 0 ? Number.POSITIVE_INFINITY : Math.floor(left / need));
  return Math.min(of(cpu, room.cpu), of(memory, room.memory));
}

/** Whose turn it is, for each session. */
export class Turns {
  readonly #last = new Map<number, string>();

  /** In the order in which they are to be tried: those after the share that was last taken from, then round to it. */
  order(session: number, shares: readonly Share[]): readonly Share[] {
    if (shares.length < 2) return shares;
    const sorted = shares.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    // Until it took from another, it had nothing but light jobs to take.
    const last = this.#last.get(session) ?? LIGHT;
    return [...sorted.filter(({ name }) => name > last), ...sorted.filter(({ name }) => name <= last)];
  }

  taken(session: number, share: Share): void {
    if (share.name === LIGHT && !this.#last.has(session)) return;
    if (this.#last.size >= MAX_SESSIONS) this.#last.clear();
    this.#last.set(session, share.name);
  }
}
