/** The children of one attempt, for its handler: submits them, waits for them, lists them. They are matched by key, so a
 *  handler that starts over in the next attempt submits nothing twice.
 *
 *  Waiting ends the attempt: while a child has not ended, `waitFor` records the children and throws. Whether the handler
 *  catches that error makes no difference. */

import { setMaxListeners } from "node:events";
import { isPlain } from "../core/check.ts";
import { NonRetryableError } from "../core/decision/failure.ts";
import { ConfigError, type ErrorCode, PerdureError, show } from "../core/errors.ts";
import { checkInput } from "../core/input/submit-check.ts";
import { isTerminal } from "../core/job/job.ts";
import {
  type Child,
  type ChildEnd,
  type ChildOptions,
  type ChildState,
  type Family,
  type HeldParent,
  MAX_WAITS_FOR,
  type SubmitEntry,
  WaitingError,
} from "../core/task/task.ts";

/** Prefix of the generated keys of children without a key. */
const NUMBERED_KEY = "#";

/** The parent attempt. */
export interface ParentRun {
  readonly parent: HeldParent;
  /** Undefined if the link does not support child jobs. */
  readonly family: Family | undefined;
  /** Aborted when the attempt must stop: calls reject at once. */
  readonly signal: AbortSignal;
}

export class RunChildren {
  readonly #run: ParentRun;
  /** Submits without a key so far. */
  #keyless = 0;
  #waitsFor: Set<string> | null = null;

  constructor(run: ParentRun) {
    this.#run = run;
  }

  /** Ids of the children that the attempt waits for; null if it does not wait. */
  get waitsFor(): readonly string[] | null {
    return this.#waitsFor === null ? null : [...this.#waitsFor];
  }

  submit(task: SubmitEntry["task"], input?: unknown, options: ChildOptions = {}): Promise<Child<unknown>> {
    // The key is assigned before the first await: keys follow the order of the calls, which a later attempt repeats.
    return this.#call(async (family, parent) => {
      const keyed = this.#withKey(options);
      await checkInput(task, input);
      return family.submit(parent, { task, input, options: keyed });
    }).catch(asNonRetryable);
  }

  waitFor(children: readonly Pick<Child<unknown>, "id">[]): Promise<ChildEnd<unknown>[]> {
    return this.#endsOf(children).catch(asNonRetryable);
  }

  async #endsOf(children: readonly Pick<Child<unknown>, "id">[]): Promise<ChildEnd<unknown>[]> {
    const ids = idsOf(children);
    const unique = [...new Set(ids)];
    if (unique.length === 0) return [];
    const found = await this.#call((family, parent) => family.look(parent, unique));
    const states = new Map(found.map((state) => [state.id, state]));
    const ends = ids.map((id) => states.get(id)).filter(hasEnded);
    if (ends.length === ids.length) return ends;
    this.#waitsFor ??= new Set();
    // Children beyond the limit are waited for by a later attempt.
    for (const id of unique) if (this.#waitsFor.size < MAX_WAITS_FOR) this.#waitsFor.add(id);
    throw new WaitingError();
  }

  children(): Promise<ChildState[]> {
    return this.#call((family, parent) => family.list(parent));
  }

  #withKey(options: ChildOptions): ChildOptions {
    if (!isPlain(options)) throw new ConfigError({ path: "submit", given: options, allowed: "an object of options" });
    const { key, parent } = options as ChildOptions & { parent?: unknown };
    if (parent !== undefined) {
      throw new ConfigError({ path: "submit.parent", given: parent, allowed: "left out: this job is the parent" });
    }
    if (key === undefined) {
      this.#keyless += 1;
      return { ...options, key: `${NUMBERED_KEY}${this.#keyless}` };
    }
    if (typeof key !== "string" || !key.startsWith(NUMBERED_KEY)) return options;
    const allowed = `a key that does not start with ${NUMBERED_KEY}, which is reserved for children without a key`;
    throw new ConfigError({ path: "submit.key", given: key, allowed });
  }

  async #call<T>(call: (family: Family, parent: HeldParent) => Promise<T>): Promise<T> {
    const { family, parent, signal } = this.#run;
    if (family === undefined) {
      throw new PerdureError("wrong_state", "the engine of this worker does not support child jobs");
    }
    signal.throwIfAborted();
    setMaxListeners(0, signal); // hundreds may be submitted at a time
    return unlessAborted(call(family, parent), signal);
  }
}

/** Mistakes in the call itself: a different child under the same key, a job that is not a child, an invalid job. Another attempt
 *  would fail in the same way, so they are not retried. */
const CALLER_ERRORS: readonly ErrorCode[] = ["key_conflict", "job_not_found", "invalid_config", "invalid_payload"];
const SAME_CHILDREN =
  "children are matched by key, or by the order of the calls: submit the same children in each attempt";

function asNonRetryable(error: unknown): never {
  if (!(error instanceof PerdureError) || !CALLER_ERRORS.includes(error.code)) throw error;
  const { code, path, message } = error;
  const text = code === "key_conflict" ? `${message}; ${SAME_CHILDREN}` : message;
  throw Object.assign(new NonRetryableError(text, { cause: error }), { code, path });
}

/** A link repeats its calls until they are answered; a handler that must stop does not wait for that. */
function unlessAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    answer.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

function hasEnded(state: ChildState | undefined): state is ChildEnd<unknown> {
  return state !== undefined && isTerminal(state.state);
}

function idsOf(children: unknown): string[] {
  if (!Array.isArray(children) || children.length > MAX_WAITS_FOR) {
    const shown = Array.isArray(children) ? `${children.length} children` : show(children);
    const allowed = `a list of at most ${MAX_WAITS_FOR} children as submit() returns them`;
    throw new ConfigError({ path: "waitFor", given: children, allowed, shown });
  }
  return children.map((child: unknown, i) => {
    const { id } = (child ?? {}) as { id?: unknown };
    if (typeof id === "string" && id !== "") return id;
    throw new ConfigError({
      path: `waitFor[${i}]`,
      given: child,
      allowed: "a child as submit() returns it, or { id }",
    });
  });
}
