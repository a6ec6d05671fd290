/** The defaults that workers publish for their tasks. A submit by kind name takes its missing options from them, so that it
 *  means the same as a submit of the task.
 *
 *  Those of the newest session apply, of a live one before one that has ended; sessions that publish nothing are skipped. If no
 *  kept session has any, the preset applies. They are read at most once a second for each kind, so that a list of submits
 *  costs one read. */

import type { Mutable } from "../core/check.ts";
import { ConfigError } from "../core/errors.ts";
import { isName } from "../core/names.ts";
import type { Policy } from "../core/policy/policy.ts";
import { chosenValues, toSources } from "../core/policy/policy-sources.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import type { TaskOptions } from "../core/task/task.ts";
import type { Clock } from "../lib/clock.ts";
import { isOver } from "../lib/text.ts";
import type { Store } from "../store/store.ts";
import { LIMITS } from "./limits.ts";
import { checkTask, putDefaults, type SubmitItem } from "./submit-item.ts";

interface PublishedTaskOptions {
  readonly session: string;
  readonly worker: string;
  readonly options: TaskOptions;
  readonly policy: Policy | null;
}

const FRESH_MS = 1_000;
const MAX_KINDS = 1_000;

export class TaskDefaults {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #known = new Map<string, { readonly until: number; readonly found: Promise<PublishedTaskOptions | null> }>();

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** A session was opened here: what it published applies at once. */
  forget(): void {
    this.#known.clear();
  }

  /** Fills in the missing options of items that name a kind, once. Changes them in place: they belong to this call. */
  async fill(items: readonly Mutable<SubmitItem>[]): Promise<void> {
    for (const item of items) {
      // A kind that is not a valid name is refused later, with the index of its item.
      if (item.open == null || !isName(item.kind)) continue;
      const found = await this.#of(item.namespace ?? "default", item.kind);
      if (found !== null) fillOne(item, found);
      item.open = null;
    }
  }

  #of(namespace: string, kind: string): Promise<PublishedTaskOptions | null> {
    const name = JSON.stringify([namespace, kind]);
    const now = this.#clock.monotonic();
    const known = this.#known.get(name);
    if (known !== undefined && known.until > now) return known.found;
    const found = this.#read(namespace, kind);
    if (this.#known.size >= MAX_KINDS) this.#known.clear();
    this.#known.set(name, { until: now + FRESH_MS, found });
    found.catch(() => this.#known.delete(name));
    return found;
  }

  async #read(namespace: string, kind: string): Promise<PublishedTaskOptions | null> {
    const row = await this.#store.sessions.taskDefaults(namespace, kind);
    if (row === null) return null;
    const { session, worker, options } = row;
    return { session, worker, options, policy: options.retry === undefined ? null : resolvePolicy(options.retry) };
  }
}

function fillOne(item: Mutable<SubmitItem>, { options, policy, ...published }: PublishedTaskOptions): void {
  const { given, named } = item.open as NonNullable<SubmitItem["open"]>;
  if (given.retry === undefined && policy !== null) item.policy = policy;
  if (given.queue === undefined && options.queue !== undefined) item.openQueue = true;
  putDefaults(item, options, given);
  const { from } = chosenValues(given, options, named);
  // A submit of a task to a server passes the task's values itself: then nothing was taken from the published ones.
  const isTaken = Object.keys(from).length > Object.keys(item.sources?.from ?? {}).length;
  item.sources = toSources(from, isTaken ? published : null);
}

/** Checks what a worker publishes, as the options of a submit. Only kinds that it serves are allowed. */
export function checkDefaults(
  defaults: Readonly<Record<string, TaskOptions>>,
  kinds: readonly string[],
): Readonly<Record<string, TaskOptions>> {
  for (const [kind, options] of Object.entries(defaults)) {
    if (!kinds.includes(kind)) {
      throw new ConfigError({ path: "defaults", given: kind, allowed: "kinds that the session serves" });
    }
    checkTask(kind, options);
    resolvePolicy(options.retry, `task ${kind}: retry`);
  }
  if (isOver(JSON.stringify(defaults), LIMITS.defaultsBytes)) {
    const allowed = `at most ${LIMITS.defaultsBytes} bytes as JSON`;
    throw new ConfigError({
      path: "defaults",
      given: null,
      problem: "too long",
      allowed,
    });
  }
  return defaults;
}
