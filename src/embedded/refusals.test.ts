import { describe, expect, it } from "vitest";
import { JobFailedError, Perdure, type SubmitEntry, task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

describe("a caller's mistake", () => {
  it("is reported for a misspelt field of an entry, and for entries that are not a list", async () => {
    await using kit = await openTestEngine();
    const entries = [{ task: "a", inptu: 5 }, { task: "a", option: {} }, { task: "a" }] as unknown as SubmitEntry[];
    const answers = await kit.perdure.submitMany(entries);
    expect(answers.map((answer) => answer.ok)).toEqual([false, false, true]);
    expect(answers[0]).toMatchObject({ error: { path: "submitMany.inptu", nearest: "input" } });
    await expect(kit.perdure.submitMany({} as SubmitEntry[])).rejects.toMatchObject({ code: "invalid_config" });
    // biome-ignore lint/suspicious/noSparseArray: the test needs a hole
    expect(await kit.perdure.submitMany([, { task: "a" }] as SubmitEntry[])).toMatchObject([
      { ok: false },
      { ok: true },
    ]);
  });

  it("in the options of a task is reported when a worker starts, with the name of the task", async () => {
    await using kit = await openTestEngine();
    for (const [options, path] of [
      [{ timeout: "2 minutes" }, "task slow: timeout"],
      [{ timeout: 0 }, "task slow: timeout"],
      [{ expireIn: 0 }, "task slow: expireIn"],
      [{ priority: 99 }, "task slow: priority"],
      [{ queue: 5 }, "task slow: queue"],
    ] as const) {
      const slow = task("slow", options as object, () => {});
      await expect(kit.perdure.work([slow])).rejects.toMatchObject({ path });
    }
  });

  it("is reported for an invalid signal, and no other call fails", async () => {
    await using kit = await openTestEngine();
    const signal = {} as AbortSignal;
    expect(() => kit.perdure.events({ follow: true, signal })).toThrow("events.signal");
    const job = await kit.perdure.submit("pay", { n: 1 });
    await expect(job.result({ signal })).rejects.toMatchObject({ path: "result.signal" });
  });

  it("is reported for options beside an address, which must be in one object with it", async () => {
    const open = Perdure.open as (...args: unknown[]) => Promise<unknown>;
    await expect(open("http://127.0.0.1:1", { token: "x" })).rejects.toThrow("{ url, token }");
  });

  it("is reported for an address that would become a file name", async () => {
    for (const url of ["file:/tmp/b.db", "file:///tmp/b.db", "redis://x", "http:x", ":MEMORY:"]) {
      await expect(Perdure.open(url)).rejects.toMatchObject({ path: "open.url" });
    }
  });

  it("is reported with the value, also if JSON cannot express it", async () => {
    await using kit = await openTestEngine();
    await expect(kit.perdure.submit("a", 1, { delay: Number.NaN })).rejects.toThrow("got NaN");
    await expect(kit.perdure.submit("a", 1, { runAt: new Date("never") })).rejects.toThrow("got an invalid Date");
  });
});

describe("a job whose result is polled", () => {
  it("has the failure of its events, in the next attempt and in the awaited result", async () => {
    await using kit = await openTestEngine();
    const seen: (string | undefined)[] = [];
    const retry = { maxAttempts: 2, retryWhen: "{{ result.status == 'pending' }}" };
    const poll = task("poll", { retry }, (_: undefined, ctx) => {
      seen.push(ctx.previous?.message);
      return { status: "pending" };
    });
    await kit.perdure.work([poll]);
    const job = await kit.perdure.submit(poll);
    await kit.runToEnd(job);
    expect(seen).toEqual([undefined, "the result matched retryWhen"]);
    const error = await job.result().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(JobFailedError);
    expect((error as JobFailedError).failure?.kind).toBe("result");
  });
});

describe("a very long list of jobs", () => {
  it("is stored without blocking the event loop for the whole time", async () => {
    await using perdure = await Perdure.open(":memory:");
    let turns = 0;
    let running = true;
    const turn = () => {
      turns += 1;
      if (running) setImmediate(turn);
    };
    const entries = Array.from({ length: 9_000 }, (_, n) => ({ task: "later", input: { n } }));
    const storing = perdure.submitMany(entries);
    setImmediate(turn);
    const answers = await storing;
    running = false;
    expect(answers.filter((answer) => answer.ok)).toHaveLength(9_000);
    expect(turns).toBeGreaterThanOrEqual(4);
  });
});
