/** Group commit: calls of one verb that arrive while others of it are in progress share the next statement. A group
 *  that fails because of its data is split in halves and repeated until only the invalid item is refused. */
import { PerdureError } from "../../core/errors.ts";
import type { RefusedItem } from "../../core/worker-protocol.ts";
import type { EventLoop } from "../../lib/clock.ts";
import { errorClassOf, explained, messageOf } from "./error-classes.ts";

export interface GroupVerb<Item, Answer> {
  /** All items in one transaction, or an error and none. */
  run(items: readonly Item[]): Promise<Answer[]>;
  /** The answer for an item that the store rejects; without it the call is rejected. */
  refuse?(item: Item, error: unknown): Answer;
  /** Concurrent transactions. */
  readonly inFlight: number;
  /** What happens if parts of a list have different outcomes in an outage. True: the failed parts are refused.
   *  Otherwise the call is rejected, for callers that repeat it and then get the outcome of what was done. */
  readonly isPartly?: boolean;
  /** The size of an item in characters, if it may be large: a transaction takes a few megabytes. */
  weigh?(item: Item): number;
  /** Items per transaction; a longer list is split, so that several server processes work on it at once. */
  readonly together: number;
}

interface GroupCall<Item, Answer> {
  readonly items: readonly Item[];
  resolve(answers: Answer[]): void;
  reject(error: unknown): void;
}

/** Keeps a statement to seconds at most, and its text small enough to be in memory several times. */
const MAX_WEIGHT = 8_000_000;

export class GroupCommit<Item, Answer> {
  readonly #verb: GroupVerb<Item, Answer>;
  readonly #loop: Pick<EventLoop, "turn">;
  #queue: GroupCall<Item, Answer>[] = [];
  #running = 0;
  #scheduled = false;
  #idle: (() => void)[] = [];

  constructor(verb: GroupVerb<Item, Answer>, loop: Pick<EventLoop, "turn">) {
    this.#verb = verb;
    this.#loop = loop;
  }

  submit(items: readonly Item[]): Promise<Answer[]> {
    if (items.length === 0) return Promise.resolve([]);
    const parts = this.#parts(items);
    return parts.length === 1 ? this.#enqueue(items) : this.#inParts(parts);
  }

  #parts(items: readonly Item[]): (readonly Item[])[] {
    const { together, weigh } = this.#verb;
    if (weigh === undefined && items.length <= together) return [items];
    const parts: Item[][] = [[]];
    let weight = 0;
    for (const item of items) {
      const last = parts.at(-1) as Item[];
      const more = weigh?.(item) ?? 0;
      if (last.length === together || (last.length > 0 && weight + more > MAX_WEIGHT)) {
        parts.push([item]);
        weight = more;
      } else {
        last.push(item);
        weight += more;
      }
    }
    return parts;
  }

  async #inParts(parts: readonly (readonly Item[])[]): Promise<Answer[]> {
    return this.#joined(parts, await Promise.allSettled(parts.map((part) => this.#enqueue(part))));
  }

  /** The answers of all parts: an error in one must not hide the outcome of the others. */
  #joined<A>(parts: readonly (readonly Item[])[], results: readonly PromiseSettledResult<A[]>[]): (A | Answer)[] {
    const { refuse, isPartly = false } = this.#verb;
    const failed = results.find((result) => result.status === "rejected");
    const isMixed = failed !== undefined && results.some((result) => result.status === "fulfilled");
    if (failed !== undefined && !(isMixed && isPartly && refuse !== undefined)) throw failed.reason;
    return results.flatMap((result, i): (A | Answer)[] => {
      if (result.status === "fulfilled") return result.value;
      return (parts[i] as readonly Item[]).map((item) => (refuse as NonNullable<typeof refuse>)(item, result.reason));
    });
  }

  #enqueue(items: readonly Item[]): Promise<Answer[]> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ items, resolve, reject });
      if (items.length === this.#verb.together)
        this.#flush(); // no call can join it any more
      else this.#schedule();
    });
  }

  /** Resolves when nothing is waiting or in progress. */
  async drained(): Promise<void> {
    if (this.#queue.length === 0 && this.#running === 0) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** After this turn of the event loop, so that its calls are grouped. */
  #schedule(): void {
    if (this.#scheduled || this.#running >= this.#verb.inFlight) return;
    this.#scheduled = true;
    this.#loop.turn(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (this.#queue.length > 0 && this.#running < this.#verb.inFlight) {
      this.#running += 1;
      void this.#commit(this.#take()).finally(() => {
        this.#running -= 1;
        if (this.#queue.length > 0) this.#flush();
        else if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
      });
    }
  }

  #take(): GroupCall<Item, Answer>[] {
    const { together, weigh } = this.#verb;
    let items = 0;
    let weight = 0;
    let count = 0;
    for (const call of this.#queue) {
      const more = weigh === undefined ? 0 : call.items.reduce((sum, item) => sum + weigh(item), 0);
      if (count > 0 && (items + call.items.length > together || weight + more > MAX_WEIGHT)) break;
      items += call.items.length;
      weight += more;
      count += 1;
    }
    return this.#queue.splice(0, count);
  }

  async #commit(calls: readonly GroupCall<Item, Answer>[]): Promise<void> {
    const items =
      calls.length === 1 ? (calls[0] as GroupCall<Item, Answer>).items : calls.flatMap((call) => call.items);
    let outcome: (Answer | FailedItem)[];
    try {
      outcome = await this.#attempt(items);
    } catch (error) {
      for (const call of calls) call.reject(error);
      return;
    }
    let at = 0;
    for (const call of calls) {
      const mine = outcome.slice(at, at + call.items.length);
      at += call.items.length;
      const failed = mine.find((answer) => answer instanceof FailedItem);
      if (failed instanceof FailedItem) call.reject(failed.error);
      else call.resolve(mine as Answer[]);
    }
  }

  async #attempt(items: readonly Item[]): Promise<(Answer | FailedItem)[]> {
    try {
      return await this.#verb.run(items);
    } catch (error) {
      if (!isAboutData(error)) throw error;
      if (items.length > 1) {
        const middle = items.length >> 1;
        const halves = [items.slice(0, middle), items.slice(middle)];
        const results: PromiseSettledResult<(Answer | FailedItem)[]>[] = [];
        for (const half of halves) results.push(...(await Promise.allSettled([this.#attempt(half)])));
        return this.#joined(halves, results);
      }
      const [item] = items as [Item];
      return [this.#verb.refuse === undefined ? new FailedItem(explained(error)) : this.#verb.refuse(item, error)];
    }
  }
}

/** The answer of an item whose verb cannot express a refusal. */
class FailedItem {
  readonly error: unknown;
  constructor(error: unknown) {
    this.error = error;
  }
}

/** Includes errors that a decision threw: they concern one item. */
function isAboutData(error: unknown): boolean {
  if (error instanceof PerdureError) return error.code === "store_refused";
  const { code } = (error ?? {}) as { code?: unknown };
  return (
    errorClassOf(error) === "data" || (error instanceof Error && code === undefined && errorClassOf(error) === "bug")
  );
}

/** The answer for an item that the database rejects. */
export function refusal(error: unknown): RefusedItem {
  if (error instanceof PerdureError) return { status: "refused", code: error.code, message: error.message };
  return { status: "refused", code: "store_refused", message: `the store refused this item: ${messageOf(error)}` };
}
