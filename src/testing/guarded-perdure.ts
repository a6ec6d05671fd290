/** The library as a test gets it: calls that would wait for ever on a clock that stands still are guarded, and `close` moves
 *  the clock as far as closing needs. */
import type { JobHandle, SubmitManyAnswer } from "../core/face.ts";
import type { SubmitOptions } from "../core/submit-options.ts";
import type { AnyTask } from "../core/task.ts";
import type { WorkerHandle } from "../core/work-options.ts";
import type { Perdure } from "../embedded/perdure.ts";
import type { HangGuard } from "./hang-guard.ts";

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
