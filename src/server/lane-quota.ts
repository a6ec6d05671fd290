/** Limits the lanes (combinations of queue, kind and labels) that a token may create in a namespace, and the total. Claims scan
 *  lanes, and every process keeps them in memory: a submitter must not be able to create millions, nor to use up the quota of
 *  others.
 *
 *  A lane counts for the token that stored its first job, until the lane is deleted; the store has that, so it survives restarts.
 *  Existing lanes can always be used. Concurrent calls of one server count each other's new lanes; several servers do not, so each
 *  may exceed a limit by what it is storing at that moment. Children count for the token that submitted the top of their family:
 *  a job cannot be used to get around the quota. */

import type { Mutable } from "../core/check.ts";
import { PerdureError } from "../core/errors.ts";
import { isName, isRunQueue } from "../core/names.ts";
import { LIMITS } from "../engine/limits.ts";
import type { SubmitAnswer, SubmitItem } from "../engine/submit-item.ts";
import type { Clock } from "../lib/clock.ts";
import type { EventStore, NewLane, QueueStore, Store } from "../store/store.ts";
import type { ServerLimits } from "./context.ts";

/** Lanes that calls of this server are about to create. They are not in the store yet, but count for the quota.
 *
 *  A stored lane stays here until all decisions that were started before have been made, since those may have read the store before.
 *  So a lane may count twice for a moment, but is never missed. */
class PendingLanes {
  /** By share: the number of calls that are about to create each lane. */
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

  /** Runs a decision, which reads the store, and counts and adds lanes in one turn of the event loop. */
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

/** Lanes that are remembered; others are read again. */
const MAX_KNOWN = 50_000;
/** A lane in which a job was stored this recently still exists: a lane is deleted after an hour without use. */
const KNOWN_MS = 600_000;
const MAX_FAMILIES = 10_000;

/** The owner in whose quota a lane counts. */
export interface LaneOwner {
  /** Stored with the lane. */
  readonly key: string;
  /** As shown in events. Lanes of earlier versions are stored under it, and count for every token of that name. */
  readonly name: string;
}

/** The common owner of jobs whose top parent was pruned. */
const NO_TOP: LaneOwner = { key: "jobs whose parents are gone", name: "jobs whose parents are gone" };

/** By id, since two tokens may have the same name. */
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
  readonly index: number;
  readonly item: Mutable<SubmitItem>;
  readonly name: string;
}

/** The items of one owner in one namespace. */
interface LaneOwnerItems {
  readonly namespace: string;
  readonly owner: LaneOwner;
  readonly list: NewLaneItem[];
}

/** The items of one call that were refused, and the lanes that it is about to create. */
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

  /** Calls `store` with the items that the quota admits; the others are refused. Items of known lanes need no reads. New lanes
   *  count for `owner`, or for the owner of the item's parent; sets `item.owner`. */
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
      const admitted = refusals.size === 0 ? items : items.filter((_, index) => !refusals.has(index));
      const stored = admitted.length === 0 ? [] : await store(admitted);
      let next = 0;
      const answers = items.map((_, index): SubmitAnswer => {
        const error = refusals.get(index);
        return error === undefined ? (stored[next++] as SubmitAnswer) : { status: "refused", error };
      });
      for (const { index, item, name } of fresh) this.#remember(item, name, answers[index] as SubmitAnswer);
      return answers;
    } finally {
      this.#pending.remove(pending);
    }
  }

  #freshOf(items: readonly Mutable<SubmitItem>[], owner: LaneOwner): NewLaneItem[] {
    const now = this.#parts.clock.monotonic();
    const fresh: NewLaneItem[] = [];
    for (const [index, item] of items.entries()) {
      if (!isLane(item)) continue; // an invalid item is refused by `store`
      const whose = item.parent == null ? owner : this.#owners.get(item.parent.id);
      if (whose !== undefined) item.owner = whose.key;
      const name = laneName(item);
      const seenAt = this.#known.get(name);
      if (seenAt === undefined || now - seenAt > KNOWN_MS) fresh.push({ index, item, name });
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
    // No await from here on: lanes are counted and added in the same turn.
    const existing = new Set([...lanes.keys()].filter((_, i) => use.exists[i] === true));
    const shares = { own: shareOf(namespace, owner), all: JSON.stringify([namespace]) };
    const added = new Set<string>();
    const isOver = (share: string, name: string, used: number, limit: number) =>
      !this.#pending.has(share, name) && used + this.#pending.size(share) >= limit;
    for (const { index, name } of list) {
      if (existing.has(name) || added.has(name)) continue;
      if (isOver(shares.own, name, use.owned, limits.lanesPerToken)) {
        refusals.set(index, overOwn(owner.name, namespace, limits.lanesPerToken));
      } else if (isOver(shares.all, name, use.total, limits.lanesPerNamespace)) {
        refusals.set(index, overAll(namespace, limits.lanesPerNamespace));
      } else {
        added.add(name);
        for (const share of [shares.own, shares.all]) {
          this.#pending.add(share, name);
          pending.push([share, name]);
        }
      }
    }
  }

  /** Remembers a lane in which a job was stored. One that was only read may be deleted at any time, or never be created. */
  #remember({ queue = "default" }: SubmitItem, name: string, answer: SubmitAnswer): void {
    // The lane of a single `perdure run` is deleted with its last job.
    if (answer.status !== "ok" || !answer.created || isRunQueue(queue)) return;
    if (this.#known.size > MAX_KNOWN) this.#known.clear();
    this.#known.set(name, this.#parts.clock.monotonic());
  }

  /** The token that submitted the job at the top of this job's family. */
  async #ownerOf(jobId: string, namespace: string): Promise<LaneOwner> {
    const known = this.#owners.get(jobId);
    if (known !== undefined) return known;
    const owner = await this.#readOwner(jobId, namespace);
    // A job that does not exist yet may be submitted later, with an id that was created for its upload.
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
  "use existing combinations, and put varying values into the input or a tag; unused combinations are deleted after an hour";

function overOwn(owner: string, namespace: string, limit: number): PerdureError {
  const message =
    `${owner} has created ${limit} different combinations of queue, kind and labels in the namespace ${namespace}, the quota ` +
    `of a token and its jobs (server.laneQuota); ${ADVICE}`;
  return new PerdureError("too_many_requests", message);
}

function overAll(namespace: string, limit: number): PerdureError {
  const message =
    `the namespace ${namespace} has ${limit} different combinations of queue, kind and labels, the quota of a namespace; ` +
    ADVICE;
  return new PerdureError("too_many_requests", message);
}
