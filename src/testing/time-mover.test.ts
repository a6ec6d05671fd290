/** Virtual time is exact for any span and any pattern of timers, and hangs are reported. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { task } from "../index.ts";
import { openTestEngine, type TestEngine, type TestEngineOptions } from "./index.ts";

afterEach(() => {
  vi.useRealTimers();
});

/** The times, from the start, at which the attempts of a failing task began. */
async function attemptsWithin(spans: readonly number[]): Promise<number[]> {
  await using kit = await openTestEngine();
  const startedAt: number[] = [];
  const from = kit.clock.now();
  const backoff = { initial: "7s", factor: 1.5, max: "4h" } as const;
  const failing = task("failing", { retry: { maxAttempts: 100, backoff } }, () => {
    startedAt.push(kit.clock.now() - from);
    throw new Error("again");
  });
  await kit.perdure.work([failing]);
  await kit.perdure.submit(failing);
  for (const span of spans) await kit.advance(span);
  return startedAt;
}

function backoffInstants(until: number): number[] {
  const instants: number[] = [];
  for (let [at, ms] = [0, 7_000]; at <= until; ms *= 1.5) {
    instants.push(at);
    at += Math.min(Math.round(ms), 4 * 3_600_000);
  }
  return instants;
}

describe("advance", () => {
  it.each([60_000, 600_000, 660_000, 86_400_000, 3 * 86_400_000])(
    "starts each attempt at its time, in %d ms",
    async (span) => {
      expect(await attemptsWithin([span])).toEqual(backoffInstants(span));
    },
  );

  it("skips needless checks: a quiet year has hardly more steps than a quiet minute", async () => {
    const steps: number[] = [];
    for (const span of ["1m", "365d"] as const) {
      await using kit = await openTestEngine();
      await kit.perdure.work([task("k", () => 1)]);
      const [plain, due] = [vi.spyOn(kit.clock, "stepTo"), vi.spyOn(kit.clock, "stepAndCheck")];
      await kit.advance(span);
      steps.push(plain.mock.calls.length + due.mock.calls.length);
    }
    expect(steps[1]).toBeLessThan((steps[0] as number) + 10);
  });

  it("gives the same result in one step and in pieces, for any pattern of delays, retries, sleeps, timeouts and expiries", async () => {
    const job = fc.record({
      delay: fc.integer({ min: 0, max: 100_000 }),
      failures: fc.integer({ min: 0, max: 3 }),
      initial: fc.integer({ min: 0, max: 40_000 }),
      sleeps: fc.array(fc.integer({ min: 0, max: 20_000 }), { maxLength: 3 }),
      timeout: fc.option(fc.integer({ min: 1, max: 30_000 }), { nil: undefined }),
      expireIn: fc.option(fc.integer({ min: 1, max: 5_000 }), { nil: undefined }),
    });
    const patterns = fc.tuple(
      fc.array(job, { minLength: 1, maxLength: 5 }),
      fc.array(fc.integer({ min: 0, max: 120_000 }), { minLength: 1, maxLength: 5 }),
    );
    type Pattern = typeof job extends fc.Arbitrary<infer T> ? T : never;

    async function lives(jobs: readonly Pattern[], spans: readonly number[]) {
      await using kit = await openTestEngine();
      const kind = task("k", async ({ sleeps, failures }: Pattern, ctx) => {
        for (const ms of sleeps) await kit.clock.sleep(ms, ctx.signal);
        if (ctx.attempt <= failures) throw new Error("again");
      });
      await kit.perdure.work([kind], { concurrency: 2 });
      const handles = [];
      for (const each of jobs) {
        const { delay, timeout, expireIn, initial } = each;
        const options = { delay, ...(timeout && { timeout }), ...(expireIn && { expireIn }) };
        const retry = { maxAttempts: 3, backoff: { initial, factor: 3 } };
        handles.push(await kit.perdure.submit(kind, each, { ...options, retry }));
      }
      for (const span of spans) await kit.advance(span);
      const stories: { name: string; at: number; data: unknown }[][] = [];
      for (const handle of handles) {
        const events = [];
        for await (const { name, at, data } of handle.events()) events.push({ name, at, data: plain(data) });
        stories.push(events);
      }
      return stories;
    }

    await fc.assert(
      fc.asyncProperty(patterns, async ([jobs, spans]) => {
        const whole = spans.reduce((sum, span) => sum + span, 0);
        expect(await lives(jobs, spans)).toEqual(await lives(jobs, [whole]));
      }),
      { numRuns: 12, seed: 8 },
    );
  });

  it("stands still while a handler does real work, and continues at the same time", async () => {
    await using kit = await openTestEngine();
    const from = kit.clock.now();
    const real = task("real", { timeout: "5s" }, async () => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      await readFile(new URL(import.meta.url));
      return kit.clock.now() - from;
    });
    await kit.perdure.work([real]);
    const job = await kit.perdure.submit(real, undefined, { delay: "1h" });
    await kit.advance("1d");
    expect(await job.get()).toMatchObject({ state: "succeeded", result: 3_600_000 });
  });

  it("expires, and passes a deadline, 1 ms after the last valid millisecond", async () => {
    await using kit = await openTestEngine();
    const from = kit.clock.now();
    const late = await kit.perdure.submit("nobody", undefined, { expireIn: "100500ms" });
    const over = await kit.perdure.submit("nobody", undefined, { deadline: from + 7_777_777 });
    await kit.perdure.pause("default");
    await kit.advance("1h");
    await kit.perdure.resume("default");
    await kit.advance("1d");
    expect((await late.get()).finishedAt).toBe(from + 3_600_000 + 100_501);
    expect((await over.get()).finishedAt).toBe(from + 7_777_778);
  });
});

/** Without ids, which differ between runs. */
function plain(data: unknown): unknown {
  return JSON.parse(JSON.stringify(data).replace(/(job|ses)_[0-9a-z]{26}/g, "$1"));
}

describe("a hang", () => {
  const ran = promisify(execFile);

  async function opened(options: TestEngineOptions = {}): Promise<TestEngine> {
    const kit = await openTestEngine(options);
    await kit.perdure.work([
      task("late", () => "done"),
      task("never", () => new Promise<void>(() => {})),
      task("sleeps", () => new Promise((resolve) => setTimeout(resolve, 60_000))),
      // A process, because no one else here has one: a timer of the test runner that ends meanwhile would hide one of a
      // handler.
      task("runs", ({ seconds }: { seconds: number }, { signal }) => ran("sleep", [String(seconds)], { signal })),
    ]);
    return kit;
  }

  it("is job.result() while the clock does not move", async () => {
    await using kit = await opened();
    const job = await kit.perdure.submit("late", undefined, { delay: "1h" });
    await expect(job.result()).rejects.toMatchObject({
      code: "result_timeout",
      message: expect.stringMatching(/^await job\.result\(\) is waiting, .* await kit\.runToEnd\(job\)[\s\S]*in 1 h/),
    });
    const result = job.result();
    await kit.advance("1h");
    expect(await result).toBe("done");
  });

  it("is a live feed, and a worker that waits for its handlers", async () => {
    await using kit = await opened();
    const feed = kit.perdure.events({ follow: true, after: 1_000 });
    await expect(feed.next()).rejects.toThrow("a live feed is waiting, but the virtual clock does not move");
    await kit.perdure.submit("never");
    const worker = await kit.perdure.work([task("other", () => kit.clock.sleep("1h"))]);
    await kit.perdure.submit("other");
    await kit.settled();
    const stopping = worker.stop({ grace: "10s" });
    await kit.advance("1m");
    await stopping;
  });

  it("is a handler that waits for something that never comes", async () => {
    await using kit = await opened();
    const job = await kit.perdure.submit("never");
    await expect(kit.runToEnd(job)).rejects.toThrow(
      /its handler waits for something .* A timeout on the task would end/,
    );
    const bounded = await kit.perdure.submit("never", undefined, { timeout: "1h" });
    expect(await kit.runToEnd(bounded)).toMatchObject({ state: "failed", reason: "timeout" });
  });

  it("is a handler that waits for faked timers; the kit itself works under them", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "setInterval", "setImmediate", "Date", "performance"] });
    await using kit = await opened();
    expect(await kit.runToEnd(await kit.perdure.submit("late", undefined, { delay: "2d" }))).toMatchObject({
      state: "succeeded",
    });
    const job = await kit.perdure.submit("sleeps");
    await expect(kit.runToEnd(job)).rejects.toThrow("The global timers are faked (vi.useFakeTimers");
  });

  it("is given up with a warning when its real work takes longer than the kit's patience", async () => {
    const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
    await using kit = await opened({ patience: 20 });
    const job = await kit.perdure.submit("runs", { seconds: 60 }, { timeout: "1h" });
    expect(await kit.runToEnd(job)).toMatchObject({ state: "failed", reason: "timeout" });
    expect(await warned).toMatchObject({ name: "PerdureTestWarning", message: expect.stringContaining("ProcessWrap") });
  });

  it("is not real work that started before the kit was called: that is awaited", async () => {
    await using kit = await opened();
    const job = await kit.perdure.submit("runs", { seconds: 0.3 }, { timeout: "1h" });
    while (!process.getActiveResourcesInfo().includes("ProcessWrap")) await new Promise((next) => setImmediate(next));
    expect(await kit.runToEnd(job)).toMatchObject({ state: "succeeded" });
  });

  it("options without a meaning here are refused", async () => {
    // @ts-expect-error: no worker is ever lost here
    await expect(openTestEngine({ lease: "15s" })).rejects.toThrow("openTestEngine.lease");
  });
});
