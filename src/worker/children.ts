/** The children of one attempt, for its handler: submits them, waits for them, lists them. They are found again by their
 *  keys, so a handler that is called again from the top submits nothing twice.
 *
 *  To wait ends the run: `waitFor` throws while a child has not ended, and remembers for whom it is. What the handler
 *  makes of that error changes nothing. */

import { setMaxListeners } from "node:events";
import { isPlain } from "../core/check.ts";
import { NonRetryableError } from "../core/decision/failure.ts";
import { ConfigError, type ErrorCode, PerdureError } from "../core/errors.ts";
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

/** Begins the keys of children that were given none. */
const NUMBERED = "#";

/** The attempt whose children they are. */
export interface ParentRun {
  readonly parent: HeldParent;
  /** Of the link; undefined where it has none. */
  readonly family: Family | undefined;
  /** Aborted when the run is to stop: then nobody waits for an answer any more. */
  readonly signal: AbortSignal;
}

export class RunChildren {
  readonly #run: ParentRun;
  /** Submits without a key so far. */
  #unnamed = 0;
  #waitsFor: Set<string> | null = null;

  constructor(run: ParentRun) {
    this.#run = run;
  }

  /** Whom the run has begun to wait for; null while it does not. */
  get waitsFor(): readonly string[] | null {
    return this.#waitsFor === null ? null : [...this.#waitsFor];
  }

  submit(task: SubmitEntry["task"], input?: unknown, options: ChildOptions = {}): Promise<Child<unknown>> {
    // Counted before anything is waited for: the order of the calls is what a later run repeats.
    return this.#ask(async (family, parent) => {
      const named = this.#named(options);
      await checkInput(task, input);
      return family.submit(parent, { task, input, options: named });
    }).catch(forGood);
  }

  waitFor(children: readonly Pick<Child<unknown>, "id">[]): Promise<ChildEnd<unknown>[]> {
    return this.#endsOf(children).catch(forGood);
  }

  async #endsOf(children: readonly Pick<Child<unknown>, "id">[]): Promise<ChildEnd<unknown>[]> {
    const ids = idsOf(children);
    const wanted = [...new Set(ids)];
    if (wanted.length === 0) return [];
    const found = await this.#ask((family, parent) => family.look(parent, wanted));
    const states = new Map(found.map((state) => [state.id, state]));
    const ends = ids.map((id) => states.get(id)).filter(hasEnded);
    if (ends.length === ids.length) return ends;
    this.#waitsFor ??= new Set();
    // Who has no room is waited for by a later run.
    for (const id of wanted) if (this.#waitsFor.size < MAX_WAITS_FOR) this.#waitsFor.add(id);
    throw new WaitingError();
  }

  children(): Promise<ChildState[]> {
    return this.#ask((family, parent) => family.list(parent));
  }

  #named(options: ChildOptions): ChildOptions {
    if (!isPlain(options)) throw new ConfigError({ path: "submit", given: options, allowed: "an object of options" });
    const { key, parent } = options as ChildOptions & { parent?: unknown };
    if (parent !== undefined) {
      throw new ConfigError({ path: "submit.parent", given: parent, allowed: "nothing: it is a child of this job" });
    }
    if (key === undefined) {
      this.#unnamed += 1;
      return { ...options, key: `${NUMBERED}${this.#unnamed}` };
    }
    if (typeof key !== "string" || !key.startsWith(NUMBERED)) return options;
    const allowed = `keys that do not begin with ${NUMBERED}: those are of children without a key`;
    throw new ConfigError({ path: "submit.key", given: key, allowed });
  }

  async #ask<T>(call: (family: Family, parent: HeldParent) => Promise<T>): Promise<T> {
    const { family, parent, signal } = this.#run;
    if (family === undefined) {
      throw new PerdureError(
        "wrong_state",
        "a job has children only where its worker's engine keeps them: this one cannot",
      );
    }
    signal.throwIfAborted();
    setMaxListeners(0, signal); // hundreds may be submitted at a time
    return orStopped(call(family, parent), signal);
  }
}

/** What is wrong with the call itself: another child than before, whoever is no child, what is no job. No later run can make it
 *  right, so the job need not try, whoever tells it: a server, an engine in this process, or we. */
const MISTAKES: readonly ErrorCode[] = ["key_conflict", "job_not_found", "invalid_config", "invalid_payload"];
const SAME_AGAIN =
  "children are found again by their keys, or by the number of the call: submit the same ones in each run";

function forGood(error: unknown): never {
  if (!(error instanceof PerdureError) || !MISTAKES.includes(error.code)) throw error;
  const { code, path, message } = error;
  const text = code === "key_conflict" ? `${message}; ${SAME_AGAIN}` : message;
  throw Object.assign(new NonRetryableError(text, { cause: error }), { code, path });
}

/** A link repeats its calls until they are answered. A handler that is to stop does not wait so long. */
function orStopped<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
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
    const problem = Array.isArray(children) ? `got ${children.length} children` : "got no list";
    const allowed = `a list of at most ${MAX_WAITS_FOR} children, as submit answers them`;
    throw new ConfigError({ path: "waitFor", given: children, allowed, problem });
  }
  return children.map((child: unknown, i) => {
    const { id } = (child ?? {}) as { id?: unknown };
    if (typeof id === "string" && id !== "") return id;
    throw new ConfigError({ path: `waitFor[${i}]`, given: child, allowed: "a child, as submit answers it, or { id }" });
  });
}
