/** How many lanes (queue, kind and labels together) a token may make in a namespace, and how many there may be in all. Claims
 *  look through lanes and every process knows them: whoever may submit must not be able to make millions, nor to use up what
 *  others need. A lane counts for whoever stored its first job, until it is deleted: that is in the store, so a restart changes
 *  nothing. Lanes that are there may always be used.
 *
 *  Children count for whoever submitted the job at the top of their family, whichever token stores them: a job is no way around
 *  the quota of its token. Servers beside each other, and calls at the same time, may pass a limit by a few. */
import { PerdureError } from "../core/errors.ts";
import type { Mutable } from "../core/mutable.ts";
import { isName } from "../core/name.ts";
import { LIMITS } from "../engine/limits.ts";
import type { SubmitItem } from "../engine/submit.ts";
import type { Clock } from "../lib/clock.ts";
import type { NewLane, Store } from "../store/store.ts";
import type { ServerLimits } from "./limits.ts";

/** Lanes that were seen; beyond it they are simply asked for again. */
const MAX_KNOWN = 50_000;
/** A lane that was seen so lately has not been deleted since: that takes an hour without use. */
const KNOWN_MS = 600_000;
const MAX_FAMILIES = 10_000;
/** Of those whose top was pruned: they share one quota, so that none is gained by it. */
const NO_TOP = "jobs whose parents are gone";

type QuotaStore = Pick<Store, "laneUse" | "facts" | "events">;

export interface LaneQuotaParts {
  readonly store: QuotaStore;
  readonly clock: Pick<Clock, "monotonic">;
  readonly limits: Pick<ServerLimits, "lanesPerToken" | "lanesPerNamespace">;
}

interface Fresh {
  readonly place: number;
  readonly item: Mutable<SubmitItem>;
  readonly name: string;
}

export class LaneQuota {
  readonly #parts: LaneQuotaParts;
  readonly #known = new Map<string, number>();
  readonly #owners = new Map<string, string>();

  constructor(parts: LaneQuotaParts) {
    this.#parts = parts;
  }

  /** For each item: null, or why it is refused; null where none is. Items of known lanes cost nothing. New lanes count for
   *  `owner`, or for whoever the parent of an item belongs to: `item.owner` is set. */
  async check(items: readonly SubmitItem[], owner: string): Promise<(PerdureError | null)[] | null> {
    const now = this.#parts.clock.monotonic();
    const fresh: Fresh[] = [];
    for (const [place, item] of items.entries()) {
      if (!isLane(item)) continue; // it makes none: it is refused with the place of its mistake
      const name = laneName(item);
      const seenAt = this.#known.get(name);
      if (seenAt === undefined || now - seenAt > KNOWN_MS) fresh.push({ place, item, name });
    }
    if (fresh.length === 0) return null;
    const byOwner = new Map<string, Fresh[]>();
    for (const each of fresh) {
      const { parent } = each.item;
      const whose = parent == null ? owner : await this.ownerOf(parent.id, each.item.namespace ?? "default");
      each.item.owner = whose;
      byOwner.set(whose, [...(byOwner.get(whose) ?? []), each]);
    }
    const answers = new Array<PerdureError | null>(items.length).fill(null);
    const added = new Set<string>();
    for (const [whose, list] of byOwner) await this.#checkOwner(whose, list, added, answers);
    return answers.every((answer) => answer === null) ? null : answers;
  }

  async #checkOwner(owner: string, list: readonly Fresh[], added: Set<string>, answers: (PerdureError | null)[]) {
    const { store, clock, limits } = this.#parts;
    const namespace = list[0]?.item.namespace ?? "default";
    const lanes = new Map(list.map(({ name, item }) => [name, laneOf(item)]));
    const use = await store.laneUse({ namespace, owner, lanes: [...lanes.values()] });
    const isThere = new Map([...lanes.keys()].map((name, i) => [name, use.exists[i] === true]));
    const now = clock.monotonic();
    let total = use.total + added.size;
    let owned = use.owned;
    if (this.#known.size > MAX_KNOWN) this.#known.clear();
    for (const { place, name } of list) {
      if (isThere.get(name) !== true && !added.has(name)) {
        if (owned >= limits.lanesPerToken) answers[place] = overOwn(owner, namespace, limits.lanesPerToken);
        else if (total >= limits.lanesPerNamespace) answers[place] = overAll(namespace, limits.lanesPerNamespace);
        if (answers[place] !== null) continue;
        total += 1;
        owned += 1;
        added.add(name);
      }
      this.#known.set(name, now);
    }
  }

  /** Who submitted the job at the top of this one's family. */
  async ownerOf(jobId: string, namespace: string): Promise<string> {
    const known = this.#owners.get(jobId);
    if (known !== undefined) return known;
    const owner = await this.#readOwner(jobId, namespace);
    if (this.#owners.size >= MAX_FAMILIES) this.#owners.clear();
    this.#owners.set(jobId, owner);
    return owner;
  }

  async #readOwner(jobId: string, namespace: string): Promise<string> {
    const { store } = this.#parts;
    let id = jobId;
    for (let level = 0; level <= LIMITS.depth; level++) {
      const [job] = await store.facts([id]);
      if (job?.namespace !== namespace) return NO_TOP;
      if (job.parentId !== null) id = job.parentId;
      else {
        const [first] = await store.events({ after: 0, limit: 1, jobId: id });
        return (first?.data as { readonly by?: string | null } | undefined)?.by ?? NO_TOP;
      }
    }
    return NO_TOP;
  }
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
