/** Detects that a test waits for something that cannot happen while the virtual clock stands still, rejects with what
 *  to do, and wraps the library's calls in this check. It acts only when nothing is in progress. */

import type { JobHandle, SubmitManyAnswer } from "../core/api/jobs.ts";
import { PerdureError } from "../core/errors.ts";
import type { AnyTask, SubmitOptions } from "../core/task/task.ts";
import type { WorkerHandle } from "../core/task/work-options.ts";
import type { Perdure } from "../embedded/perdure.ts";
import { areTimersFaked, realSleep } from "./real-work.ts";

// Notices that a test waits for something that cannot happen while the virtual clock stands still, as `await
// job.result()` of a job whose retry is due in an hour, and rejects with what to do. It is sure of it only when
// nothing is under way: no call to the kit, no call of the store, nothing real that Node knows of, for a while. Where
// something real goes on that may have nothing to do with the job, it only warns.

interface HangGuardParts {
  /** Whether calls to the kit or of the store are under way, or how many there were so far has changed. */
  readonly activity: () => number | "busy";
  readonly realWork: () => readonly string[];
  /** Whether a handler runs that waits for nothing that can be seen. */
  readonly isHandlerAtWork: () => boolean;
  readonly warn: (message: string) => void;
}

const CHECK_MS = 20;
/** Real time without any activity after which a wait is in vain; longer where a handler may be at work unseen. */
const IDLE_MS = 200;
const IDLE_AT_WORK_MS = 2_000;
const WARN_MS = 1_500;

interface GuardedWait {
  readonly what: string;
  readonly explain: () => Promise<string>;
  readonly reject: (error: Error) => void;
}

export class HangGuard {
  readonly #parts: HangGuardParts;
  readonly #waits = new Set<GuardedWait>();
  #isWatching = false;

  constructor(parts: HangGuardParts) {
    this.#parts = parts;
  }

  /** The same promise, or a rejection if it hangs. `what` is the call; `explain` says more of it. */
  guard<T>(promise: Promise<T>, what: string, explain: () => Promise<string> = async () => ""): Promise<T> {
    return new Promise((resolve, reject) => {
      const wait: GuardedWait = { what, explain, reject };
      this.#waits.add(wait);
      promise.then(resolve, reject).finally(() => this.#waits.delete(wait));
      if (!this.#isWatching) void this.#watch();
    });
  }

  async #watch(): Promise<void> {
    this.#isWatching = true;
    let before: number | "busy" = "busy";
    let [idleMs, quietMs] = [0, 0];
    while (this.#waits.size > 0) {
      await realSleep(CHECK_MS);
      const { activity, realWork, isHandlerAtWork, warn } = this.#parts;
      const now = activity();
      const isIdle = now !== "busy" && now === before;
      before = now;
      quietMs = isIdle ? quietMs + CHECK_MS : 0;
      idleMs = isIdle && realWork().length === 0 ? idleMs + CHECK_MS : 0;
      if (idleMs >= (isHandlerAtWork() ? IDLE_AT_WORK_MS : IDLE_MS)) await this.#refuseAll();
      else if (quietMs === WARN_MS) for (const wait of this.#waits) warn(await textOf(wait));
    }
    this.#isWatching = false;
  }

  async #refuseAll(): Promise<void> {
    for (const wait of [...this.#waits]) {
      this.#waits.delete(wait);
      wait.reject(new PerdureError("result_timeout", await textOf(wait)));
    }
  }
}

async function textOf({ what, explain }: GuardedWait): Promise<string> {
  const more = await explain().catch(() => "");
  return (
    `${what} waits, and the virtual clock stands still: move it first, with await kit.runToEnd(job) or ` +
    `await kit.advance("30s").${more === "" ? "" : `\n${more}`}${fakedTimers()}`
  );
}

/** Empty where they are not. */
export function fakedTimers(): string {
  if (!areTimersFaked()) return "";
  return (
    "\nThe global timers are faked (vi.useFakeTimers, jest.useFakeTimers, sinon): a handler that waits by setTimeout waits " +
    "for that clock, which the kit does not move. Wait by kit.clock.sleep(…), or leave setTimeout real."
  );
}

// The library as a test gets it: calls that would wait for ever on a clock that stands still are guarded, and `close`
// moves the clock as far as closing needs.

export function guardedPerdure(perdure: Perdure, guard: HangGuard, close: Perdure["close"]): Perdure {
  const handleOf = <Output>(job: JobHandle<Output>) => guardedHandle(job, guard);
  const calls: Partial<Record<keyof Perdure | symbol, unknown>> = {
    submit: async (task: AnyTask | string, input?: unknown, options?: SubmitOptions) =>
      handleOf(await perdure.submit(task, input, options)),
    submitMany: async (...call: Parameters<Perdure["submitMany"]>) => {
      const answers = await perdure.submitMany(...call);
      return answers.map((answer): SubmitManyAnswer => (answer.ok ? { ok: true, job: handleOf(answer.job) } : answer));
    },
    job: async (id: string) => handleOf(await perdure.job(id)),
    events: (...call: Parameters<Perdure["events"]>) => guardedFeed(perdure.events(...call), guard),
    work: async (...call: Parameters<Perdure["work"]>) => guardedWorker(await perdure.work(...call), guard),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
  return overlaid(perdure, calls);
}

function guardedHandle<Output>(job: JobHandle<Output>, guard: HangGuard): JobHandle<Output> {
  const explain = async () => (await job.explain()).text;
  return overlaid(job, {
    result: (...call: Parameters<JobHandle<Output>["result"]>) =>
      guard.guard(job.result(...call), "await job.result()", explain),
    events: (...call: Parameters<JobHandle<Output>["events"]>) => guardedFeed(job.events(...call), guard),
  });
}

function guardedWorker(worker: WorkerHandle, guard: HangGuard): WorkerHandle {
  const explain = async () =>
    'Start it, move the clock, then wait: const stopping = worker.stop(); await kit.advance("30s"); await stopping.';
  const guarded = (stop: () => PromiseLike<void>) => () => {
    return guard.guard(Promise.resolve(stop()), "await worker.stop()", explain);
  };
  return overlaid(worker, {
    stop: (...call: Parameters<WorkerHandle["stop"]>) => guarded(() => worker.stop(...call))(),
    [Symbol.asyncDispose]: guarded(() => worker[Symbol.asyncDispose]()),
  });
}

function guardedFeed<T>(feed: AsyncGenerator<T, void, void>, guard: HangGuard): AsyncGenerator<T, void, void> {
  const guarded: AsyncGenerator<T, void, void> = overlaid(feed, {
    next: () => guard.guard(feed.next(), "the next event of a feed that follows"),
    [Symbol.asyncIterator]: () => guarded,
  });
  return guarded;
}

/** The same object with some of its methods replaced. */
function overlaid<T extends object>(target: T, calls: Partial<Record<keyof T | symbol, unknown>>): T {
  return new Proxy(target, {
    get(_, property) {
      const own: unknown = Reflect.get(calls, property);
      if (own !== undefined) return own;
      const found: unknown = Reflect.get(target, property, target);
      return typeof found === "function" ? found.bind(target) : found;
    },
  });
}
