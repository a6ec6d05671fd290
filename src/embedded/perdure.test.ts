import { existsSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { aborted, all, gate, tempFile } from "../../test/kit.ts";
import { type OpenOptions, Perdure, task } from "../index.ts";
import type { Store } from "../store/store.ts";
import { VirtualClock } from "../testing/index.ts";

const quick = task("quick", (input: number) => input * 2);

async function open(options: OpenOptions): Promise<Perdure> {
  const perdure = await Perdure.open(options);
  onTestFinished(() => perdure.close({ grace: 0 }));
  return perdure;
}

describe("open", () => {
  it("without an address uses .perdure/perdure.db in the working directory", async () => {
    const directory = dirname(tempFile());
    const cwd = vi.spyOn(process, "cwd").mockReturnValue(directory);
    onTestFinished(() => cwd.mockRestore());
    await open({});
    expect(existsSync(join(directory, ".perdure", "perdure.db"))).toBe(true);
  });

  it("creates the file and its folder for the owner only", async () => {
    const file = join(dirname(tempFile()), "a", "b", "jobs.db");
    await open({ url: file });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(file)).mode & 0o777).toBe(0o700);
  });

  it("accepts a path, sqlite: and sqlite:// alike", async () => {
    const file = tempFile();
    const jobs: string[] = [];
    for (const url of [file, `sqlite:${file}`, `sqlite://${file}`]) {
      await using perdure = await Perdure.open(url);
      jobs.push((await perdure.submit(quick, 1, { key: "same" })).id);
    }
    expect(new Set(jobs).size).toBe(1);
  });

  it("refuses a file that is not a Perdure database, and does not change it", async () => {
    const file = tempFile("notes.txt");
    writeFileSync(file, "these are my notes, and they are longer than a header would be. ".repeat(20));
    const before = statSync(file).size;
    await expect(Perdure.open(file)).rejects.toMatchObject({ code: "store_not_a_database" });
    expect(statSync(file).size).toBe(before);
    expect(existsSync(`${file}-wal`)).toBe(false);
  });

  it("finds the jobs, results, keys and budgets of an earlier process", async () => {
    const url = tempFile();
    const first = await Perdure.open({ url });
    const worker = await first.work([quick]);
    const done = await first.submit(quick, 21);
    expect(await done.result()).toBe(42);
    await worker.stop();
    const waiting = await first.submit(quick, 4, { key: "k" });
    await first.close();
    const second = await open({ url });
    expect(await (await second.job(done.id)).result()).toBe(42);
    expect(await second.submit(quick, 4, { key: "k" })).toMatchObject({ id: waiting.id, created: false });
    await second.work([quick]);
    expect(await (await second.job(waiting.id)).result()).toBe(8);
  });
});

describe("the logger", () => {
  it("gets errors, and may throw without harm", async () => {
    const clock = new VirtualClock();
    let beats = 0;
    const wrapStore = (store: Store): Store => ({
      ...store,
      beat: (beat) => (++beats < 3 ? Promise.reject(new Error("locked")) : store.beat(beat)),
    });
    const logged: string[] = [];
    const logger = (level: string, message: string) => {
      logged.push(`${level}: ${message}`);
      throw new Error("the log is full");
    };
    await using perdure = await Perdure.open({ url: ":memory:", logger }, { clock, random: () => 0.5, wrapStore });
    for (let second = 0; second < 6; second++) {
      clock.moveTo(clock.now() + 1_000);
      await perdure.queues();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(logged).toEqual(Array(2).fill("error: reaper failed: Error: locked"));
    expect(beats).toBeGreaterThan(3);
  });
});

describe("close", () => {
  it("may be repeated, also before the first has ended", async () => {
    const perdure = await Perdure.open(":memory:");
    await perdure.work([quick]);
    await Promise.all([perdure.close(), perdure.close(), perdure.close({ grace: 0 })]);
    await perdure.close();
  });

  it("makes every later call fail with the code closed", async () => {
    const perdure = await Perdure.open(":memory:");
    const job = await perdure.submit(quick, 1);
    await perdure.close();
    const calls: (() => Promise<unknown>)[] = [
      () => perdure.submit(quick, 1),
      () => perdure.submitMany([{ task: quick, input: 1 }]),
      () => perdure.submitMany([]),
      () => perdure.job(job.id),
      () => perdure.jobs(),
      () => perdure.cancel(job.id),
      () => perdure.retry(job.id),
      () => perdure.explain(job.id),
      () => perdure.queues(),
      () => perdure.workers(),
      () => perdure.pause("q"),
      () => perdure.resume("q"),
      () => perdure.prune(),
      () => perdure.work([quick]),
      () => all(perdure.events()),
      () => job.get(),
      () => job.result(),
      () => job.cancel(),
      () => job.attempts(),
      () => job.explain(),
      () => all(job.events()),
    ];
    for (const call of calls) await expect(call(), String(call)).rejects.toMatchObject({ code: "closed" });
  });

  it("rejects calls that wait or follow with the code closed, at once", async () => {
    const clock = new VirtualClock();
    const perdure = await Perdure.open({ url: ":memory:" }, { clock, random: () => 0.5 });
    const job = await perdure.submit(quick, 1);
    const waiting = job.result().catch((error: unknown) => error);
    const following = all(perdure.events({ follow: true })).catch((error: unknown) => error);
    await perdure.close();
    expect(await waiting).toMatchObject({ code: "closed" });
    expect(await following).toMatchObject({ code: "closed" });
  });

  it("stores jobs submitted before it, awaited or not", async () => {
    const url = tempFile();
    const perdure = await Perdure.open({ url });
    const submits = Array.from({ length: 50 }, (_, i) => perdure.submit(quick, i));
    const [jobs] = await Promise.all([Promise.all(submits), perdure.close()]);
    const later = await open({ url });
    expect((await later.jobs({ order: "oldest" })).jobs.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
  });

  it("lets running handlers end first, within the grace time, and stores their results", async () => {
    const url = tempFile();
    const [started, end] = [gate(), gate()];
    const long = task("long", async () => {
      started.open();
      await end.passed;
      return "in time";
    });
    const perdure = await Perdure.open({ url });
    await perdure.work([long]);
    const job = await perdure.submit(long);
    await started.passed;
    const closing = perdure.close({ grace: "1m" });
    end.open();
    await closing;
    const later = await open({ url });
    expect(await (await later.job(job.id)).result()).toBe("in time");
  });

  it("stops a worker whose start was still under way", async () => {
    const warnings: string[] = [];
    const perdure = await Perdure.open({ url: ":memory:", logger: (_, message) => warnings.push(message) });
    const working = perdure.work([quick]).catch((error: unknown) => error);
    await perdure.close();
    const worker = await working;
    if (!(worker instanceof Error)) await (worker as { stop(): Promise<void> }).stop();
    else expect(worker).toMatchObject({ code: "closed" });
    expect(warnings).toEqual([]);
  });

  it("lets no new worker start while results are still awaited", async () => {
    const [started, end] = [gate(), gate()];
    const long = task("long", async () => {
      started.open();
      await end.passed;
      return "ended";
    });
    const perdure = await Perdure.open(":memory:");
    await perdure.work([long]);
    const job = await perdure.submit(long);
    await started.passed;
    const closing = perdure.close();
    const result = job.result();
    await expect(perdure.work([quick])).rejects.toMatchObject({ code: "closed" });
    end.open();
    expect(await result).toBe("ended");
    await closing;
  });

  it("closes the store also when a worker cannot end its session", async () => {
    const clock = new VirtualClock();
    let closed = false;
    const wrapStore = (store: Store): Store => ({
      ...store,
      sessions: { ...store.sessions, close: () => Promise.reject(new Error("the disk is gone")) },
      close: async () => {
        closed = true;
        await store.close();
      },
    });
    const perdure = await Perdure.open({ url: ":memory:" }, { clock, random: () => 0.5, wrapStore });
    await perdure.work([quick]);
    await expect(perdure.close()).rejects.toThrow("the disk is gone");
    expect(closed).toBe(true);
    await expect(perdure.jobs()).rejects.toMatchObject({ code: "closed" });
  });

  it("is called at the end of an await using block, for engines and workers", async () => {
    let outside: Perdure;
    {
      await using perdure = await Perdure.open(":memory:");
      outside = perdure;
      {
        await using worker = await perdure.work([quick]);
        expect(worker.session).toMatch(/^ses_/);
        expect(await (await perdure.submit(quick, 1)).result()).toBe(2);
      }
      const [session] = await perdure.workers();
      expect(session?.endedAt).not.toBeNull();
    }
    await expect(outside.jobs()).rejects.toMatchObject({ code: "closed" });
  });
});

describe("two engines on one file", () => {
  it("work together: one submits and waits, the other runs", async () => {
    const url = tempFile();
    const [here, there] = [await open({ url }), await open({ url })];
    await there.work([quick]);
    const jobs = await Promise.all(Array.from({ length: 20 }, (_, i) => here.submit(quick, i)));
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual(jobs.map((_, i) => i * 2));
    expect((await there.jobs()).jobs).toHaveLength(20);
  });

  it("cancel each other's running jobs, promptly", async () => {
    const url = tempFile();
    const [here, there] = [await open({ url }), await open({ url, lease: "90s" })];
    const [started, stopped] = [gate(), gate<Error>()];
    const long = task("long", async (_: undefined, ctx) => {
      started.open();
      const reason = await aborted(ctx.signal);
      stopped.open(reason);
      throw reason;
    });
    await there.work([long]);
    const job = await here.submit(long);
    await started.passed;
    const asked = performance.now();
    await here.cancel(job.id);
    expect((await stopped.passed).message).toBe("the job was cancelled");
    expect(performance.now() - asked).toBeLessThan(20_000); // long before the next renewal, at 30 s
    await expect(job.result()).rejects.toMatchObject({ code: "job_cancelled" });
  });

  it("follow each other's events", async () => {
    const url = tempFile();
    const [here, there] = [await open({ url }), await open({ url })];
    const controller = new AbortController();
    const names: string[] = [];
    const following = (async () => {
      for await (const event of here.events({ follow: true, signal: controller.signal })) {
        names.push(event.name);
        if (event.name === "attempt.succeeded") controller.abort();
      }
    })();
    await there.work([quick]);
    await there.submit(quick, 1);
    await following;
    expect(names).toEqual(["worker.started", "job.submitted", "attempt.started", "attempt.succeeded"]);
  });

  it("pause and redrive for each other", async () => {
    const url = tempFile();
    const [here, there] = [await open({ url }), await open({ url })];
    let healthy = false;
    const flaky = task("flaky", () => {
      if (!healthy) throw new Error("down");
      return "up";
    });
    await here.pause("q");
    await there.work([flaky]);
    const job = await there.submit(flaky, undefined, { queue: "q" });
    expect((await job.explain()).text).toContain("paused");
    await here.resume("q");
    await expect(job.result()).rejects.toMatchObject({ code: "job_failed" });
    healthy = true;
    await here.redrive(job.id);
    expect(await (await here.job(job.id)).result()).toBe("up");
  });

  it("agree on one job for one key", async () => {
    const url = tempFile();
    const engines = [await open({ url }), await open({ url })];
    const submits = Array.from({ length: 100 }, (_, i) => engines[i % 2]?.submit(quick, 1, { key: "hot" }));
    const jobs = await Promise.all(submits);
    expect(new Set(jobs.map((job) => job?.id)).size).toBe(1);
    expect(jobs.filter((job) => job?.created)).toHaveLength(1);
  });

  it("in two namespaces do not see or run each other's jobs, and have their own keys and queues", async () => {
    const url = tempFile();
    const [red, blue] = [await open({ url, namespace: "red" }), await open({ url, namespace: "blue" })];
    await blue.work([quick]);
    await blue.pause("held");
    const ofRed = await red.submit(quick, 1, { key: "k", queue: "held" });
    const ofBlue = await blue.submit(quick, 2, { key: "k" });
    expect(ofBlue).toMatchObject({ created: true });
    expect(await ofBlue.result()).toBe(4);
    expect((await red.jobs()).jobs.map((job) => job.id)).toEqual([ofRed.id]);
    expect((await blue.jobs({ key: "k" })).jobs.map((job) => job.id)).toEqual([ofBlue.id]);
    expect(await red.queues()).toMatchObject([{ namespace: "red", queue: "held", paused: false }]);
    expect((await ofRed.explain()).text).toContain("No live worker takes this job");
  });
});
