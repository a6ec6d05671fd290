/** How many lanes (queue, kind and labels together) a namespace may have by way of the server. A lane is kept for ever, and
 *  claims look through them: whoever may submit must not be able to make millions. Servers beside each other count for
 *  themselves between two looks at the store, so the limit may be passed by a few. */
import { PerdureError } from "../core/errors.ts";
import type { SubmitItem } from "../engine/submit.ts";
import type { Store } from "../store/store.ts";

export const MAX_LANES = 10_000;
/** Lanes that were seen; beyond it they are simply asked for again. */
const MAX_KNOWN = 50_000;

export class LaneQuota {
  readonly #store: Pick<Store, "laneCount">;
  readonly #limit: number;
  readonly #known = new Set<string>();

  constructor(store: Pick<Store, "laneCount">, limit: number = MAX_LANES) {
    this.#store = store;
    this.#limit = limit;
  }

  /** For each item: null, or why it is refused. Items of known lanes cost nothing. */
  async check(items: readonly SubmitItem[]): Promise<(PerdureError | null)[] | null> {
    const fresh = items.map((item) => {
      const lane = laneName(item);
      return this.#known.has(lane) ? null : lane;
    });
    if (fresh.every((lane) => lane === null)) return null;
    const namespace = items[0]?.namespace ?? "default";
    let count = await this.#store.laneCount(namespace);
    if (this.#known.size > MAX_KNOWN) this.#known.clear();
    const added = new Set<string>();
    return fresh.map((lane) => {
      if (lane === null || added.has(lane)) return null;
      if (count >= this.#limit) return overQuota(namespace, this.#limit);
      count += 1;
      added.add(lane);
      this.#known.add(lane);
      return null;
    });
  }
}

function laneName({ namespace, queue, kind, labels }: SubmitItem): string {
  const wanted = labels === undefined ? "" : JSON.stringify(Object.entries(labels).sort());
  return [namespace ?? "default", queue ?? "default", kind, wanted].join("\0");
}

function overQuota(namespace: string, limit: number): PerdureError {
  const message =
    `the namespace ${namespace} has ${limit} different queues, kinds and labels together, which is the quota; ` +
    "use those that are there, and put what differs into the input or a tag";
  return new PerdureError("too_many_requests", message);
}
