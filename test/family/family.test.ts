/** Parents and children through the library, with every kind of worker. */
import { describe, expect, it } from "vitest";
import {
  type AnyTask,
  type JobHandle,
  type JobInfo,
  NonRetryableError,
  type Perdure,
  type TaskContext,
  task,
} from "../../src/index.ts";
import { gate } from "../kit.ts";
import { openWay, WAYS } from "./kit.ts";

const double = task("double", (n: number) => n * 2);

async function ended(perdure: Perdure, id: string): Promise<JobInfo> {
  const job = await perdure.job(id);
  await job.result().catch(() => {});
  return job.get();
}

async function seen(job: JobHandle<unknown>, event: string): Promise<void> {
  for await (const { name } of job.events({ follow: true })) if (name === event) return;
}

async function childrenOf(perdure: Perdure, parent: string): Promise<JobInfo[]> {
  return (await perdure.jobs({ parent, order: "oldest" })).jobs;
}

describe.each(WAYS)("a family (%s)", { timeout: 60_000 }, (way) => {
  const begin = async (tasks: readonly AnyTask[], concurrency = 5) => {
    const perdure = await openWay(way);
    await perdure.work(tasks, { concurrency });
    return perdure;
  };

  it("waits for its children without a slot and without counting an attempt, and gets their results", async () => {
    const sum = task("sum", async (numbers: number[], ctx) => {
      const children = [];
      for (const n of numbers) children.push(await ctx.submit(double, n));
      const ends = await ctx.waitFor(children);
      return ends.reduce((total, { result = 0 }) => total + result, 0);
    });
    // One slot: a parent that kept it would wait forever.
    const perdure = await begin([sum, double], 1);
    const job = await perdure.submit(sum, [1, 2, 3]);
    expect(await job.result()).toBe(12);
    const parent = await job.get();
    expect(parent).toMatchObject({ state: "succeeded", failures: 0, losses: 0, depth: 0, parentId: null });
    expect(parent.attempt).toBeGreaterThan(1);
    const children = await childrenOf(perdure, job.id);
    expect(children.map(({ parentId, depth, payload, state }) => [parentId, depth, payload, state])).toEqual(
      [1, 2, 3].map((n) => [job.id, 1, n, "succeeded"]),
    );
    const { text } = await job.explain();
    expect(text).toMatch(/ended after .* to wait for 3 children/);
    expect(text).toContain("All jobs it waited for had ended");
  });

  it("gets a child's failure with its reason, and may try another way", async () => {
    const hopeless = task("hopeless", () => {
      throw new NonRetryableError("I cannot do this");
    });
    const seen = gate<unknown>();
    const lead = task("lead", async (_: null, ctx) => {
      const [first] = await ctx.waitFor([await ctx.submit(hopeless, null, { key: "first" })]);
      if (first.state !== "failed") return "?";
      seen.open({ reason: first.reason, message: first.failure?.message, key: first.key });
      const [second] = await ctx.waitFor([await ctx.submit(double, 21, { key: "second" })]);
      return second.result;
    });
    const perdure = await begin([lead, hopeless, double]);
    const job = await perdure.submit(lead, null);
    expect(await job.result()).toBe(42);
    expect(await seen.passed).toEqual({ reason: "rejected", message: "I cannot do this", key: "first" });
    expect(await childrenOf(perdure, job.id)).toHaveLength(2);
  });

  it("finds its children again when it is retried", async () => {
    const flaky = task("flaky", { retry: { maxAttempts: 3, backoff: { type: "none" } } }, async (_: null, ctx) => {
      const children = [await ctx.submit(double, 1), await ctx.submit(double, 2)];
      if (ctx.attempt < 3) throw new Error("the parent broke");
      await ctx.waitFor(children);
      return (await ctx.children()).map(({ id, key, state, payload }) => ({ id, key, state, payload }));
    });
    const perdure = await begin([flaky, double]);
    const job = await perdure.submit(flaky, null);
    const found = await job.result();
    const children = await childrenOf(perdure, job.id);
    expect(found).toEqual([
      { id: children[0]?.id, key: "#1", state: "succeeded", payload: 1 },
      { id: children[1]?.id, key: "#2", state: "succeeded", payload: 2 },
    ]);
    expect((await job.get()).failures).toBe(2);
  });

  it("refuses another child under the same key", async () => {
    const parent = task("parent", async (_: null, ctx) => {
      await ctx.submit(double, 1, { key: "a" });
      return ctx.submit(double, 2, { key: "a" }).then(
        () => "?",
        ({ code }: { code: string }) => code,
      );
    });
    const perdure = await begin([parent, double]);
    expect(await (await perdure.submit(parent, null)).result()).toBe("key_conflict");
    // The same key of another parent is independent.
    await perdure.submit(double, 3, { key: "a" });
  });

  it("waits whatever its handler does with the error", async () => {
    const stubborn = task("stubborn", async (_: null, ctx) => {
      const child = await ctx.submit(double, 4);
      try {
        const [end] = await ctx.waitFor([child]);
        return end.result ?? -1;
      } catch {
        return -2;
      }
    });
    const perdure = await begin([stubborn, double]);
    expect(await (await perdure.submit(stubborn, null)).result()).toBe(8);
  });

  it("is cancelled with the live jobs below an ended child", async () => {
    const started = gate<string>();
    const stopped = gate<string>();
    const sleeper = task("sleeper", async (_: null, ctx) => {
      started.open(ctx.jobId);
      await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
      stopped.open(ctx.jobId);
      throw ctx.signal.reason;
    });
    const starter = task("starter", async (_: null, ctx) => (await ctx.submit(sleeper, null)).id);
    const top = task("top", async (_: null, ctx) => {
      const [end] = await ctx.waitFor([await ctx.submit(starter, null)]);
      await ctx.waitFor([await ctx.submit("nobody-runs-this", end.result)]);
    });
    const perdure = await begin([top, starter, sleeper]);
    const job = await perdure.submit(top, null);
    const sleeping = await started.passed;
    const [child] = await childrenOf(perdure, job.id);
    expect((await ended(perdure, child?.id ?? "")).state).toBe("succeeded");
    await perdure.cancel(job.id);
    expect(await stopped.passed).toBe(sleeping);
    expect((await ended(perdure, sleeping)).state).toBe("cancelled");
    expect((await ended(perdure, child?.id ?? "")).state).toBe("succeeded");
  });

  it("is cancelled with all below it", async () => {
    const started = gate<string>();
    const stopped = gate<string>();
    const sleeper = task("sleeper", async (_: null, ctx) => {
      started.open(ctx.jobId);
      await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
      stopped.open(ctx.jobId);
      throw ctx.signal.reason;
    });
    const middle = task("middle", async (_: null, ctx) => {
      await ctx.waitFor([await ctx.submit(sleeper, null)]);
    });
    const top = task("top", async (_: null, ctx) => {
      const later = await ctx.submit("nobody-runs-this", null);
      await ctx.waitFor([await ctx.submit(middle, null), later]);
    });
    const perdure = await begin([top, middle, sleeper]);
    const job = await perdure.submit(top, null);
    const sleeping = await started.passed;
    await perdure.cancel(job.id);
    expect(await stopped.passed).toBe(sleeping);
    expect((await ended(perdure, sleeping)).state).toBe("cancelled");
    expect((await ended(perdure, job.id)).state).toBe("cancelled");
    for (const child of await childrenOf(perdure, job.id)) {
      expect(await ended(perdure, child.id)).toMatchObject({ state: "cancelled", depth: 1 });
    }
    await expect(perdure.submit(double, 1, { parent: job.id })).rejects.toMatchObject({ code: "parent_ended" });
  });

  it("keeps the succeeded children of a redriven parent, and redrives the others", async () => {
    let isBroken = true;
    const runs = { good: 0, bad: 0 };
    const good = task("good", () => {
      runs.good += 1;
      return "good";
    });
    const bad = task("bad", () => {
      runs.bad += 1;
      if (isBroken) throw new Error("broken");
      return "mended";
    });
    const lead = task("lead", async (_: null, ctx) => {
      const ends = await ctx.waitFor([await ctx.submit(good), await ctx.submit(bad)]);
      const failed = ends.find(({ state }) => state === "failed");
      if (failed !== undefined) throw new NonRetryableError(`a child failed: ${failed.failure?.message}`);
      return ends.map(({ result }) => result);
    });
    const perdure = await begin([lead, good, bad]);
    const job = await perdure.submit(lead, null);
    await expect(job.result()).rejects.toThrow("a child failed: broken");
    isBroken = false;
    await perdure.redrive(job.id);
    expect(await (await perdure.job(job.id)).result()).toEqual(["good", "mended"]);
    expect(runs).toEqual({ good: 1, bad: 2 });
    expect(await childrenOf(perdure, job.id)).toHaveLength(2);
  });

  describe("a child that was still stopping when its parent was redriven", () => {
    /** A parent that is cancelled, its child requested to stop, and stopping until `mayStop` opens. */
    async function stopping(between: (run: number) => Promise<void>) {
      const begun = gate();
      const mayStop = gate();
      let isFirst = true;
      let runs = 0;
      const slow = task("slow", async (_: null, ctx) => {
        if (!isFirst) return "done";
        isFirst = false;
        begun.open();
        await new Promise<void>((resolve) => ctx.signal.addEventListener("abort", () => resolve()));
        await mayStop.passed;
        throw ctx.signal.reason;
      });
      const lead = task("lead", async (_: null, ctx) => {
        const child = await ctx.submit(slow, null);
        runs += 1;
        await between(runs);
        const [end] = await ctx.waitFor([child]);
        if (end.state !== "succeeded") throw new NonRetryableError(`the child is ${end.state}`);
        return end.result;
      });
      const perdure = await begin([lead, slow]);
      const job = await perdure.submit(lead, null);
      await begun.passed;
      await seen(job, "attempt.waiting");
      await perdure.cancel(job.id);
      const [child] = await childrenOf(perdure, job.id);
      await seen(await perdure.job(child?.id ?? ""), "job.cancel_requested");
      return { perdure, id: job.id, child: child?.id ?? "", mayStop };
    }

    it("is redriven", async () => {
      const { perdure, id, mayStop } = await stopping(async () => {});
      await perdure.redrive(id);
      mayStop.open();
      expect(await (await perdure.job(id)).result()).toBe("done");
    });

    it("is redriven, even if it ends between its submit and the wait for it", async () => {
      const askedAgain = gate();
      const hasEnded = gate();
      const { perdure, id, child, mayStop } = await stopping(async (run) => {
        if (run === 1) return;
        askedAgain.open();
        await hasEnded.passed;
      });
      await perdure.redrive(id);
      await askedAgain.passed;
      mayStop.open();
      expect((await ended(perdure, child)).state).toBe("cancelled");
      hasEnded.open();
      expect(await (await perdure.job(id)).result()).toBe("done");
    });
  });

  it.each(["default", "noetl", "fluster", "agent"] as const)(
    "of another parent cannot be waited for, without retries, with preset %s",
    async (preset) => {
      const stranger = task("stranger", (id: string, ctx) => ctx.waitFor([{ id, created: false }]));
      const perdure = await begin([stranger]);
      const { id } = await perdure.submit("nobody");
      const retry = { preset, maxAttempts: 3, backoff: { initial: 1 } };
      const job = await perdure.submit(stranger, id, { retry });
      await expect(job.result()).rejects.toMatchObject({ reason: "rejected", message: /is not a child of/ });
      expect(await job.get()).toMatchObject({ attempt: 1 });
    },
  );

  it.each<[string, (ctx: TaskContext) => Promise<unknown>]>([
    ["an unknown field", (ctx) => ctx.submit(double, 1, { retry: { maxAttempt: 3 } as object })],
    ["a kind without a name", (ctx) => ctx.submit("", 1)],
    ["too much input", (ctx) => ctx.submit("double", "x".repeat(2_000_000))],
    ["input that is not JSON", (ctx) => ctx.submit("double", { n: 1n })],
    ["another parent", (ctx) => ctx.submit(double, 1, { parent: "x" } as object)],
    ["a wait without a list", (ctx) => ctx.waitFor(7 as never)],
  ])("is not retried after an invalid call: %s", async (_, mistake) => {
    const lead = task("lead", (_: null, ctx) => mistake(ctx));
    const perdure = await begin([lead]);
    const job = await perdure.submit(lead, null, { retry: { maxAttempts: 3, backoff: { initial: 1 } } });
    await expect(job.result()).rejects.toMatchObject({ reason: "rejected" });
    expect(await job.get()).toMatchObject({ attempt: 1 });
  });

  it("may be 16 deep, and no deeper", async () => {
    const deepest = gate<string>();
    const nest = task("nest", async (level: number, ctx) => {
      const child = await ctx.submit("nest", level + 1).catch((error: { message: string }) => {
        deepest.open(`${level}: ${error.message}`);
        return null;
      });
      if (child !== null) await ctx.waitFor([child]);
    });
    const perdure = await begin([nest]);
    const job = await perdure.submit(nest, 0);
    expect(await deepest.passed).toMatch(/^16: .*too deep/);
    await job.result();
  });
});
