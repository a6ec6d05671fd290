/** Detects a test that waits for something that cannot happen while the virtual clock stands still, and rejects with
 *  advice. */

import type { JobHandle, SubmitManyAnswer } from "../core/api/jobs.ts";
import type { RunHandle } from "../core/api/runs.ts";
import { PerdureError } from "../core/errors.ts";
import type { AnyTask, SubmitOptions } from "../core/task/task.ts";
import type { WorkerHandle } from "../core/task/work-options.ts";
import type { Perdure } from "../embedded/perdure.ts";
import { areTimersFaked, realSleep } from "./real-work.ts";

// For example `await job.result()` of a job whose retry is due in an hour. It is certain only if nothing is in progress
// for a while: no call to the kit or the store, and no real work known to Node. If there is real work that may be
// unrelated to the job, it only warns.

interface HangGuardParts {
  /** "busy" while calls to the kit or the store are in progress; otherwise a number that changes with each call. */
  readonly activity: () => number | "busy";
  readonly realWork: () => readonly string[];
  /** Whether a handler runs that waits for nothing observable. */
  readonly isHandlerAtWork: () => boolean;
  readonly warn: (message: string) => void;
}

const CHECK_MS = 20;
/** Real time without activity after which a wait counts as hung; longer if a handler may be running unobserved. */
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

  /** The same promise, or a rejection if it hangs. `what` is the call; `explain` adds details. */
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
    `${what} is waiting, but the virtual clock does not move: move it first, with await kit.runToEnd(job) or ` +
    `await kit.advance("30s").${more === "" ? "" : `\n${more}`}${fakedTimers()}`
  );
}

/** Empty if they are not faked. */
export function fakedTimers(): string {
  if (!areTimersFaked()) return "";
  return (
    "\nThe global timers are faked (vi.useFakeTimers, jest.useFakeTimers, sinon): a handler that uses setTimeout waits " +
    "for that clock, which the kit does not move. Use kit.clock.sleep(…), or do not fake setTimeout."
  );
}

// Wraps the library for a test: calls that would wait forever while the clock stands still are guarded, and `close`
// moves the clock as far as closing needs.

export function guardedPerdure(perdure: Perdure, guard: HangGuard, close: Perdure["close"]): Perdure {
  const runOf = <Output>(run: RunHandle<Output>) => guardedRun(run, guard);
  const handleOf = <Output>(job: JobHandle<Output>) => guardedHandle(job, guard);
  const calls: Partial<Record<keyof Perdure | symbol, unknown>> = {
    run: async (...call: Parameters<Perdure["run"]>) => runOf(await perdure.run(...call)),
    runHandle: async (id: string) => runOf(await perdure.runHandle(id)),
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

function guardedRun<Output>(run: RunHandle<Output>, guard: HangGuard): RunHandle<Output> {
  const explain = async () => (await run.explain()).text;
  return overlaid(run, {
    result: (...call: Parameters<RunHandle<Output>["result"]>) =>
      guard.guard(run.result(...call), "await run.result()", explain),
    events: (...call: Parameters<RunHandle<Output>["events"]>) => guardedFeed(run.events(...call), guard),
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
    next: () => guard.guard(feed.next(), "the next event of a live feed"),
    [Symbol.asyncIterator]: () => guarded,
  });
  return guarded;
}

/** The same object with some methods replaced. */
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
