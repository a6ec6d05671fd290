import { describe, expect, it } from "vitest";
import { aborted, gate, openBench } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { task } from "../core/task/task.ts";
import type { EngineLink } from "./engine-link.ts";

describe("the context of a run", () => {
  it("has the job, the attempt and the previous failure", async () => {
    const bench = await openBench();
    const seen: unknown[] = [];
    const look = task("look", (input: unknown, ctx) => {
      const { jobId, attempt, kind, queue, tags, previous } = ctx;
      seen.push({ input, jobId, attempt, kind, queue, tags, previous: previous?.message ?? null });
      if (attempt === 1) throw new Error("first");
    });
    await bench.work([look]);
    const policy = resolvePolicy({ maxAttempts: 2, backoff: { type: "none" } });
    const jobId = await bench.submit("look", { payload: '{"a":1}', queue: "q", tags: ["x"], policy });
    await bench.settled();
    const same = { input: { a: 1 }, jobId, kind: "look", queue: "q", tags: ["x"] };
    expect(seen).toEqual([
      { ...same, attempt: 1, previous: null },
      { ...same, attempt: 2, previous: "first" },
    ]);
  });

  it("works when the handler takes it apart", async () => {
    const bench = await openBench();
    const apart = task("apart", async (_: unknown, { log, progress, usage, signal }) => {
      log("hello", { a: 1 });
      progress({ done: 1 });
      usage({ tokensIn: 5 });
      return signal.aborted;
    });
    await bench.work([apart]);
    const id = await bench.submit("apart");
    await bench.settled();
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", result: "false", usage: { tokensIn: 5 } });
    expect((await bench.attempts(id))[0]?.log).toContain('hello {"a":1}');
  });

  it("keeps log lines in order with their times, each on one line, those of a failed run too", async () => {
    const bench = await openBench();
    const talk = task("talk", async (_: unknown, ctx) => {
      ctx.log("one");
      ctx.log("two\nlines \u0000 \ud800");
      ctx.log("three", { n: 3, nested: { ok: true } });
      throw new Error("after all that");
    });
    await bench.work([talk]);
    const id = await bench.submit("talk");
    await bench.settled();
    const at = new Date(bench.clock.now()).toISOString();
    expect((await bench.attempts(id))[0]?.log).toBe(
      `${at} one\n${at} two\\nlines \ufffd \ufffd\n${at} three {"n":3,"nested":{"ok":true}}\n`,
    );
  });

  it("never lets a log line fail the run, whatever is logged", async () => {
    const bench = await openBench();
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    const talk = task("talk", (_: unknown, ctx) => {
      ctx.log("cycle", cycle);
      ctx.log("big", { n: 1n });
      ctx.log(Object.create(null) as string);
      ctx.log(Symbol("s") as never);
      return "fine";
    });
    await bench.work([talk]);
    const id = await bench.submit("talk");
    await bench.settled();
    expect(await bench.job(id)).toMatchObject({ state: "succeeded" });
    expect((await bench.attempts(id))[0]?.log?.split("\n")).toHaveLength(5);
  });

  it("drops log text beyond the limit and logs how much", async () => {
    const bench = await openBench();
    const flood = task("flood", (_: unknown, ctx) => {
      for (let i = 0; i < 1_000; i++) ctx.log("x".repeat(100));
    });
    await bench.work([flood]);
    const id = await bench.submit("flood");
    await bench.settled();
    const log = (await bench.attempts(id))[0]?.log ?? "";
    expect(log.length).toBeLessThan(65_536);
    expect(log).toMatch(/\[\d+ characters of log dropped\]\n$/);
  });

  it("stores progress, usage and log soon, while the attempt is running", async () => {
    const bench = await openBench();
    const end = gate();
    const long = task("long", async (_: unknown, ctx) => {
      ctx.progress({ percent: 40 });
      ctx.usage({ tokensIn: 10, costUsd: 0.5 });
      ctx.usage({ tokensIn: 1, tokensOut: 2 });
      ctx.log("half way");
      await end.passed;
      ctx.usage({ tokensOut: 100 });
      ctx.log("done");
    });
    await bench.work([long]);
    const id = await bench.submit("long");
    await bench.advance(1_000);
    expect(await bench.job(id)).toMatchObject({ state: "running", progress: '{"percent":40}', usage: null });
    end.open();
    await bench.settled();
    const usage = { tokensIn: 11, tokensOut: 102, costUsd: 0.5 };
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", usage });
    expect((await bench.attempts(id))[0]).toMatchObject({ usage, log: expect.stringMatching(/half way\n.*done\n$/) });
  });

  it("counts the usage of a lost attempt, as far as it was sent", async () => {
    let silent = false;
    const wrapLink = (link: EngineLink): EngineLink => ({
      ...link,
      renew: (...args) => (silent ? Promise.reject(new Error("cut")) : link.renew(...args)),
      report: (...args) => (silent ? Promise.reject(new Error("cut")) : link.report(...args)),
      claim: (...args) => (silent ? Promise.reject(new Error("cut")) : link.claim(...args)),
    });
    const bench = await openBench({ wrapLink });
    const spend = task("spend", async (_: unknown, ctx) => {
      ctx.usage({ tokensIn: 7 });
      await aborted(ctx.signal);
    });
    await bench.work([spend]);
    const id = await bench.submit("spend");
    await bench.advance(1_000);
    silent = true;
    await bench.advance(20_000);
    expect(await bench.job(id)).toMatchObject({ state: "queued", losses: 1, usage: { tokensIn: 7 } });
  });

  it("refuses progress and usage that cannot be kept, in words", async () => {
    const bench = await openBench();
    const wrong: (() => unknown)[] = [];
    const messages: string[] = [];
    const check = task("check", (_: unknown, ctx) => {
      wrong.push(
        () => ctx.progress(undefined),
        () => ctx.progress("x".repeat(5_000)),
        () => ctx.progress(1n),
        () => ctx.usage({ tokensIn: -1 }),
        () => ctx.usage({ costUsd: Number.NaN }),
        () => ctx.usage({ tokensOut: "3" } as never),
      );
      for (const call of wrong) {
        try {
          call();
        } catch (error) {
          messages.push((error as Error).message);
        }
      }
    });
    await bench.work([check]);
    await bench.submit("check");
    await bench.settled();
    expect(messages).toHaveLength(6);
    for (const message of messages) expect(message).toMatch(/progress|usage|BigInt/);
  });

  it("never claims the same attempt of a job twice", async () => {
    const bench = await openBench();
    const pairs: string[] = [];
    const flaky = task("flaky", (_: unknown, ctx) => {
      pairs.push(`${ctx.jobId}.${ctx.attempt}`);
      throw new Error("again");
    });
    await bench.work([flaky]);
    const policy = resolvePolicy({ maxAttempts: 3, backoff: { type: "none" } });
    const id = await bench.submit("flaky", { policy });
    await bench.settled();
    await bench.engine.command(id, { kind: "redrive" });
    await bench.settled();
    expect(pairs).toEqual([1, 2, 3, 4, 5, 6].map((attempt) => `${id}.${attempt}`));
  });

  it("keeps the last progress value, even if no renewal has sent it", async () => {
    const bench = await openBench();
    const quick = task("quick", (_: unknown, ctx) => ctx.progress({ step: 3 }));
    await bench.work([quick]);
    const id = await bench.submit("quick");
    await bench.settled();
    expect(await bench.job(id)).toMatchObject({ state: "succeeded", progress: '{"step":3}' });
  });
});
