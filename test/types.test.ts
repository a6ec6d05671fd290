/** What the compiler guarantees to users. `tsc --noEmit` is the test: a line marked as an error must be one, and no
 *  other may be. The functions below are compiled and never called. */
import { describe, expect, expectTypeOf, it } from "vitest";
import { Entrypoint, type FlusterStatus, fluster, type Resubmitted, resubmit } from "../src/dialects/index.ts";
import {
  type AnyTask,
  type Child,
  type ChildEnd,
  type ChildState,
  type Failure,
  type JobFailedError,
  type JobHandle,
  type JobInfo,
  type Perdure,
  type PerdureEvent,
  type Task,
  type TaskContext,
  task,
} from "../src/index.ts";

const resize = task("resize-image", { retry: 3, timeout: "2m" }, async (input: { url: string; width?: number }) => {
  return { width: input.width ?? 640, ok: true as const };
});
const tick = task("tick", () => 7);
const log = task("log", (_input: undefined, ctx) => ctx.log("hello"));
const maybe = task("maybe", (input: { n: number } | undefined) => input?.n ?? null);
const lines = task("lines", (input: string[], ctx: TaskContext) => `${ctx.attempt}: ${input.join()}`);

describe("a task", () => {
  it("has the types of its handler", () => {
    expectTypeOf(resize).toEqualTypeOf<Task<{ url: string; width?: number }, { width: number; ok: true }>>();
    expectTypeOf(tick).toEqualTypeOf<Task<unknown, number>>();
    expectTypeOf(log).toEqualTypeOf<Task<undefined, void>>();
    expectTypeOf(maybe).toEqualTypeOf<Task<{ n: number } | undefined, number | null>>();
    expectTypeOf(lines).toEqualTypeOf<Task<string[], string>>();
  });

  it("of any types can be part of a list of tasks", () => {
    const all: AnyTask[] = [resize, tick, log, maybe, lines];
    expect(all).toHaveLength(5);
  });

  it("gives its handler a context", () => {
    task("context", (_: unknown, ctx) => {
      expectTypeOf(ctx).toEqualTypeOf<TaskContext>();
      expectTypeOf(ctx.signal).toEqualTypeOf<AbortSignal>();
      expectTypeOf(ctx.previous).toEqualTypeOf<Failure | null>();
    });
  });

  it("submits children, and gets their results by the types of their tasks", () => {
    task("parent", async (_: unknown, ctx) => {
      const a = await ctx.submit(resize, { url: "a" }, { key: "first", priority: 0 });
      const b = await ctx.submit(tick);
      const c = await ctx.submit("by-name", { what: ["ever"] });
      expectTypeOf(a).toEqualTypeOf<Child<{ width: number; ok: true }>>();
      const [first, second, third] = await ctx.waitFor([a, b, c]);
      expectTypeOf(first).toEqualTypeOf<ChildEnd<{ width: number; ok: true }>>();
      expectTypeOf(second.result).toEqualTypeOf<number | undefined>();
      expectTypeOf(third.result).toBeUnknown();
      const list: Child<number>[] = [b, b];
      const many = await ctx.waitFor(list);
      expectTypeOf(many[0]?.result).toEqualTypeOf<number | undefined>();
      expectTypeOf(await ctx.children()).toEqualTypeOf<ChildState[]>();
      // @ts-expect-error: the input is missing
      await ctx.submit(resize);
      // @ts-expect-error: a field has the wrong type
      await ctx.submit(resize, { url: 7 });
      // @ts-expect-error: it is a child of this job
      await ctx.submit(tick, undefined, { parent: "job_1" });
      // @ts-expect-error: a job that is not a child
      await ctx.waitFor(["job_1"]);
    });
  });

  it("refuses options that do not exist", () => {
    // @ts-expect-error: no such option
    task("k", { retries: 3 }, () => 1);
    // @ts-expect-error: not a number
    task("k", { priority: "high" }, () => 1);
  });
});

describe("what is submitted", () => {
  it("must be the handler's input, and may be left out only if it takes none", () => {
    async function compiled(perdure: Perdure) {
      await perdure.submit(resize, { url: "a" });
      await perdure.submit(resize, { url: "a", width: 3 }, { key: "k", delay: "1s", priority: 0, tags: ["t"] });
      await perdure.submit(tick);
      await perdure.submit(tick, undefined, { delay: 5 });
      await perdure.submit(log);
      await perdure.submit(maybe);
      await perdure.submit(maybe, { n: 1 });
      // @ts-expect-error: the input is missing
      await perdure.submit(resize);
      // @ts-expect-error: a field is missing
      await perdure.submit(resize, {});
      // @ts-expect-error: a field has the wrong type
      await perdure.submit(resize, { url: 7 });
      // @ts-expect-error: a field too many
      await perdure.submit(resize, { url: "a", height: 3 });
      // @ts-expect-error: not a list
      await perdure.submit(lines, "a");
      // @ts-expect-error: it takes no input
      await perdure.submit(log, { url: "a" });
      // @ts-expect-error: the wrong type, though it may be left out
      await perdure.submit(maybe, { n: "1" });
      // @ts-expect-error: no such option
      await perdure.submit(resize, { url: "a" }, { dealy: "1s" });
      // @ts-expect-error: options are not accepted in place of the input
      await perdure.submit(lines, { delay: "1s" });
    }
    expectTypeOf(compiled).returns.resolves.toBeVoid();
  });

  it("by name may be anything", () => {
    async function compiled(perdure: Perdure) {
      await perdure.submit("resize-image");
      const job = await perdure.submit("resize-image", { what: ["ever"] }, { retry: { maxAttempts: 3 } });
      expectTypeOf(job).toEqualTypeOf<JobHandle<unknown>>();
      expectTypeOf(await job.result()).toBeUnknown();
    }
    expectTypeOf(compiled).returns.resolves.toBeVoid();
  });
});

describe("what is returned", () => {
  it("is the handler's result, without its promise", () => {
    async function compiled(perdure: Perdure) {
      const job = await perdure.submit(resize, { url: "a" });
      expectTypeOf(job).toEqualTypeOf<JobHandle<{ width: number; ok: true }>>();
      const result = await job.result({ timeout: "1m", signal: AbortSignal.timeout(5) });
      expectTypeOf(result).toEqualTypeOf<{ width: number; ok: true }>();
      // @ts-expect-error: the result has no such field
      void result.height;
      expectTypeOf(await (await perdure.submit(tick)).result()).toEqualTypeOf<number>();
      expectTypeOf(await (await perdure.submit(log)).result()).toEqualTypeOf<void>();
      expectTypeOf(await (await perdure.submit(maybe)).result()).toEqualTypeOf<number | null>();
      expectTypeOf(await (await perdure.job("job_1")).result()).toBeUnknown();
      expectTypeOf(await (await perdure.job<string>("job_1")).result()).toBeString();
    }
    expectTypeOf(compiled).returns.resolves.toBeVoid();
  });

  it("from many is one answer each, with an error only if it is refused", () => {
    async function compiled(perdure: Perdure) {
      const answers = await perdure.submitMany([{ task: resize, input: { url: "a" } }, { task: "by-name" }]);
      for (const answer of answers) {
        if (answer.ok) expectTypeOf(answer.job).toEqualTypeOf<JobHandle<unknown>>();
        else expectTypeOf(answer.error.code).toExtend<string>();
        // @ts-expect-error: not before `ok` was checked
        void answer.job;
      }
    }
    expectTypeOf(compiled).returns.resolves.toBeVoid();
  });

  it("from the other calls has its types too", () => {
    async function compiled(perdure: Perdure, error: JobFailedError) {
      expectTypeOf(await perdure.jobs({ state: ["queued", "failed"], limit: 5 })).toEqualTypeOf<{
        jobs: JobInfo[];
        next: string | null;
      }>();
      // @ts-expect-error: no such state
      await perdure.jobs({ state: "waiting" });
      for await (const event of perdure.events({ follow: true })) {
        expectTypeOf(event).toEqualTypeOf<PerdureEvent>();
        if (event.name === "attempt.started" && event.jobId !== null) expectTypeOf(event.data.attempt).toBeNumber();
      }
      expectTypeOf(error.failure).toEqualTypeOf<Failure | null>();
    }
    expectTypeOf(compiled).returns.resolves.toBeVoid();
  });
});

describe("work", () => {
  it("takes tasks of different types in one list, and nothing else", () => {
    async function compiled(perdure: Perdure) {
      await using worker = await perdure.work([resize, tick, log, maybe, lines], { concurrency: 3 });
      expectTypeOf(worker.running).toBeNumber();
      // @ts-expect-error: a function is not a task
      await perdure.work([() => 1]);
      // @ts-expect-error: no such option
      await perdure.work([tick], { slots: 3 });
    }
    expectTypeOf(compiled).returns.resolves.toBeVoid();
  });
});

describe("the entry point of the dialects", () => {
  it("takes an engine or a client, and the tasks of both", () => {
    async function compiled(perdure: Perdure) {
      const client = fluster(perdure);
      const id = await client.submit({ name: "x", entrypoint: Entrypoint.fromCallable(resize, { url: "a" }) });
      // @ts-expect-error: not what the handler takes
      Entrypoint.fromCallable(resize, { address: "a" });
      // @ts-expect-error: no such field
      await client.submit({ name: "x", entrypoint: { command: ["a"] }, retries: 3 });
      expectTypeOf(await client.wait(id, { timeout: 5 })).toEqualTypeOf<FlusterStatus>();
      expectTypeOf(await resubmit(perdure, id, { prompt: "another" })).toEqualTypeOf<Resubmitted>();
    }
    expect(compiled).toBeTypeOf("function");
  });
});
