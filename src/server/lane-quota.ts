/** How many lanes (queue, kind and labels together) a token may make in a namespace, and how many may exist in all;
 *  lanes that calls in progress are about to make count too. Claims scan lanes and every process knows them. */

import type { Mutable } from "../core/check.ts";
import { PerdureError } from "../core/errors.ts";
import { isName, isRunQueue } from "../core/names.ts";
import { LIMITS } from "../engine/limits.ts";
import type { SubmitAnswer, SubmitItem } from "../engine/submit-item.ts";
import type { Clock } from "../lib/clock.ts";
import type { EventStore, NewLane, QueueStore, Store } from "../store/store.ts";
import type { ServerLimits } from "./context.ts";

/** Lanes that calls of this server are about to make: they are not in the store yet, and count for a quota all the same.
 *
 *  A lane that has been stored stays here until every decision that was begun before has been made: what such a decision read
 *  from the store may be older than the lane. So a lane may count twice for a moment, and none is missed. */
class PendingLanes {
  /** By the share that they count for: how many calls are about to make each lane. */
  readonly #shares = new Map<string, Map<string, number>>();
  readonly #deciding = new Set<Promise<unknown>>();

  size(share: string): number {
    return this.#shares.get(share)?.size ?? 0;
  }

  has(share: string, lane: string): boolean {
    return this.#shares.get(share)?.has(lane) === true;
  }

  add(share: string, lane: string): void {
    const lanes = this.#shares.get(share) ?? new Map<string, number>();
    this.#shares.set(share, lanes);
    lanes.set(lane, (lanes.get(lane) ?? 0) + 1);
  }

  /** Runs a decision: it reads the store, and adds lanes in the same turn in which it counts them. */
  async decide(decision: () => Promise<void>): Promise<void> {
    const deciding = decision();
    this.#deciding.add(deciding);
    try {
      await deciding;
    } finally {
      this.#deciding.delete(deciding);
    }
  }

  /** The call that added them has ended. */
  remove(pairs: readonly (readonly [share: string, lane: string])[]): void {
    const drop = () => {
      for (const [share, lane] of pairs) this.#drop(share, lane);
    };
    if (this.#deciding.size === 0) drop();
    else void Promise.allSettled(this.#deciding).then(drop);
  }

  #drop(share: string, lane: string): void {
    const lanes = this.#shares.get(share);
    const calls = lanes?.get(lane);
    if (lanes === undefined || calls === undefined) return;
    if (calls > 1) lanes.set(lane, calls - 1);
    else lanes.delete(lane);
    if (lanes.size === 0) this.#shares.delete(share);
  }
}

// How many lanes (queue, kind and labels together) a token may make in a namespace, and how many there may be in all.
// Claims look through lanes and every process knows them: whoever may submit must not be able to make millions, nor
// to use up what others need. A lane counts for whoever stored its first job, until it is deleted: that is in the
// store, so a restart changes nothing. Lanes that are there may always be used. Calls at the same time count each
// other's lanes (`pending-lanes.ts`). Servers beside each other do not: each may pass a limit by what it is storing
// at that moment. Children count for whoever submitted the job at the top of their family, whichever token stores
// them: a job is no way around the quota of its token.

/** Lanes in which jobs were stored; beyond it they are simply asked for again. */
const MAX_KNOWN = 50_000;
/** A lane in which a job was stored so lately has not been deleted since: that takes an hour without use. */
const KNOWN_MS = 600_000;
const MAX_FAMILIES = 10_000;

/** Whose quota a lane counts for. */
export interface LaneOwner {
  /** As it is stored with the lane. */
  readonly key: string;
  /** As events show it. Lanes of earlier versions are stored under it, and count for every token of that name. */
  readonly name: string;
}

/** Of those whose top was pruned: they share one quota, so that none is gained by it. */
const NO_TOP: LaneOwner = { key: "jobs whose parents are gone", name: "jobs whose parents are gone" };

/** By its id: two tokens may have one name. */
export function tokenOwner(id: string, name: string): LaneOwner {
  return { key: `token-id:${id}`, name };
}

interface QuotaStore extends Pick<Store, "facts"> {
  readonly events: Pick<EventStore, "page">;
  readonly queues: Pick<QueueStore, "laneUse">;
}

interface LaneQuotaParts {
  readonly store: QuotaStore;
  readonly clock: Pick<Clock, "monotonic">;
  readonly limits: Pick<ServerLimits, "lanesPerToken" | "lanesPerNamespace">;
}

/** An item whose lane may be new. */
interface NewLaneItem {
  readonly place: number;
  readonly item: Mutable<SubmitItem>;
  readonly name: string;
}

/** Those of one owner in one namespace. */
interface LaneOwnerItems {
  readonly namespace: string;
  readonly owner: LaneOwner;
  readonly list: NewLaneItem[];
}

/** What one call was refused, and what it is about to make. */
interface LaneQuotaDecision {
  readonly refusals: Map<number, PerdureError>;
  readonly pending: [share: string, lane: string][];
}

export class LaneQuota {
  readonly #parts: LaneQuotaParts;
  readonly #known = new Map<string, number>();
  readonly #owners = new Map<string, LaneOwner>();
  readonly #pending = new PendingLanes();

  constructor(parts: LaneQuotaParts) {
    this.#parts = parts;
  }

  /** Calls `store` with the items that the quota admits; the others are refused. Items of known lanes cost nothing. New lanes
   *  count for `owner`, or for whoever the parent of an item belongs to: `item.owner` is set. */
  async submit(
    items: readonly SubmitItem[],
    owner: LaneOwner,
    store: (admitted: readonly SubmitItem[]) => Promise<SubmitAnswer[]>,
  ): Promise<SubmitAnswer[]> {
    const fresh = this.#freshOf(items, owner);
    if (fresh.length === 0) return store(items);
    const verdict: LaneQuotaDecision = { refusals: new Map(), pending: [] };
    const { refusals, pending } = verdict;
    try {
      for (const group of await this.#grouped(fresh, owner)) {
        await this.#pending.decide(() => this.#decide(group, verdict));
      }
      const admitted = refusals.size === 0 ? items : items.filter((_, place) => !refusals.has(place));
      const stored = admitted.length === 0 ? [] : await store(admitted);
      let next = 0;
      const answers = items.map((_, place): SubmitAnswer => {
        const error = refusals.get(place);
        return error === undefined ? (stored[next++] as SubmitAnswer) : { status: "refused", error };
      });
      for (const { place, item, name } of fresh) this.#remember(item, name, answers[place] as SubmitAnswer);
      return answers;
    } finally {
      this.#pending.remove(pending);
    }
  }

  #freshOf(items: readonly Mutable<SubmitItem>[], owner: LaneOwner): NewLaneItem[] {
    const now = this.#parts.clock.monotonic();
    const fresh: NewLaneItem[] = [];
    for (const [place, item] of items.entries()) {
      if (!isLane(item)) continue; // it makes none: it is refused with the place of its mistake
      const whose = item.parent == null ? owner : this.#owners.get(item.parent.id);
      if (whose !== undefined) item.owner = whose.key;
      const name = laneName(item);
      const seenAt = this.#known.get(name);
      if (seenAt === undefined || now - seenAt > KNOWN_MS) fresh.push({ place, item, name });
    }
    return fresh;
  }

  async #grouped(fresh: readonly NewLaneItem[], owner: LaneOwner): Promise<Iterable<LaneOwnerItems>> {
    const groups = new Map<string, LaneOwnerItems>();
    for (const each of fresh) {
      const { parent, namespace = "default" } = each.item;
      const whose = parent == null ? owner : await this.#ownerOf(parent.id, namespace);
      each.item.owner = whose.key;
      const share = shareOf(namespace, whose);
      const group = groups.get(share) ?? { namespace, owner: whose, list: [] };
      group.list.push(each);
      groups.set(share, group);
    }
    return groups.values();
  }

  async #decide({ namespace, owner, list }: LaneOwnerItems, { refusals, pending }: LaneQuotaDecision): Promise<void> {
    const { store, limits } = this.#parts;
    const lanes = new Map(list.map(({ name, item }) => [name, laneOf(item)]));
    const owners = [...new Set([owner.key, owner.name])];
    const use = await store.queues.laneUse({ namespace, owners, lanes: [...lanes.values()] });
    // No await from here on: what is counted is added in the same turn.
    const existing = new Set([...lanes.keys()].filter((_, i) => use.exists[i] === true));
    const shares = { own: shareOf(namespace, owner), all: JSON.stringify([namespace]) };
    const added = new Set<string>();
    const isOver = (share: string, name: string, used: number, limit: number) =>
      !this.#pending.has(share, name) && used + this.#pending.size(share) >= limit;
    for (const { place, name } of list) {
      if (existing.has(name) || added.has(name)) continue;
      if (isOver(shares.own, name, use.owned, limits.lanesPerToken)) {
        refusals.set(place, overOwn(owner.name, namespace, limits.lanesPerToken));
      } else if (isOver(shares.all, name, use.total, limits.lanesPerNamespace)) {
        refusals.set(place, overAll(namespace, limits.lanesPerNamespace));
      } else {
        added.add(name);
        for (const share of [shares.own, shares.all]) {
          this.#pending.add(share, name);
          pending.push([share, name]);
        }
      }
    }
  }

  /** Only where a job was stored in it: a lane that was merely seen, or asked for, may be deleted at any time, or never be made. */
  #remember({ queue = "default" }: SubmitItem, name: string, answer: SubmitAnswer): void {
    // That of a single run goes with its last job, whenever that is.
    if (answer.status !== "ok" || !answer.created || isRunQueue(queue)) return;
    if (this.#known.size > MAX_KNOWN) this.#known.clear();
    this.#known.set(name, this.#parts.clock.monotonic());
  }

  /** Who submitted the job at the top of this one's family. */
  async #ownerOf(jobId: string, namespace: string): Promise<LaneOwner> {
    const known = this.#owners.get(jobId);
    if (known !== undefined) return known;
    const owner = await this.#readOwner(jobId, namespace);
    // One that does not exist yet may be submitted later, under an id that was given out for its input.
    if (owner === NO_TOP) return owner;
    if (this.#owners.size >= MAX_FAMILIES) this.#owners.clear();
    this.#owners.set(jobId, owner);
    return owner;
  }

  async #readOwner(jobId: string, namespace: string): Promise<LaneOwner> {
    const { store } = this.#parts;
    let id = jobId;
    for (let level = 0; level <= LIMITS.depth; level++) {
      const [job] = await store.facts([id]);
      if (job?.namespace !== namespace) return NO_TOP;
      if (job.parentId !== null) id = job.parentId;
      else {
        const [first] = (await store.events.page({ after: 0, limit: 1, jobId: id })).events;
        return submitterOf(first?.data);
      }
    }
    return NO_TOP;
  }
}

function submitterOf(data: unknown): LaneOwner {
  const { by, token } = (data ?? {}) as { readonly by?: string; readonly token?: string };
  if (by === undefined) return NO_TOP;
  return token === undefined ? { key: by, name: by } : tokenOwner(token, by);
}

function shareOf(namespace: string, { key }: LaneOwner): string {
  return JSON.stringify([namespace, key]);
}

function isLane({ namespace = "default", queue = "default", kind, labels = {} }: SubmitItem): boolean {
  return [namespace, queue, kind, ...Object.entries(labels).flat()].every((text) => isName(text));
}

function laneOf({ namespace = "default", queue = "default", kind, labels = {} }: SubmitItem): NewLane {
  return { namespace, queue, kind, labels };
}

function laneName({ namespace, queue, kind, labels }: SubmitItem): string {
  const wanted = labels === undefined ? "" : JSON.stringify(Object.entries(labels).sort());
  return [namespace ?? "default", queue ?? "default", kind, wanted].join("\0");
}

const ADVICE =
  "use those that exist, and put what differs into the input or a tag; those without jobs are deleted an hour after their last use";

function overOwn(owner: string, namespace: string, limit: number): PerdureError {
  const message =
    `${owner} has made ${limit} different combinations of queue, kind and labels in the namespace ${namespace}, which is the ` +
    `quota of a token and its jobs (server.laneQuota); ${ADVICE}`;
  return new PerdureError("too_many_requests", message);
}

function overAll(namespace: string, limit: number): PerdureError {
  const message =
    `the namespace ${namespace} has ${limit} different combinations of queue, kind and labels, which is the quota of a ` +
    `namespace; ${ADVICE}`;
  return new PerdureError("too_many_requests", message);
}
