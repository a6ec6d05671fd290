import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { aborted, all, gate } from "../../test/kit.ts";
import { NonRetryableError, Perdure, task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

const failing = task("failing", () => {
  throw new NonRetryableError("never");
});

describe("cancel", () => {
  it("ends a waiting job at once; it never runs", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit(failing, undefined, { delay: "1m" });
    expect(await job.cancel()).toMatchObject({ state: "cancelled", attempt: 0, finishedAt: kit.clock.now() });
    await kit.perdure.work([failing]);
    await kit.advance("2m");
    expect(await job.get()).toMatchObject({ state: "cancelled", attempt: 0 });
    await expect(job.result()).rejects.toMatchObject({ code: "job_cancelled" });
  });

  it("aborts the signal of a running handler at once", async () => {
    await using kit = await openTestEngine();
    const started = gate();
    const long = task("long", async (_: undefined, ctx) => {
      started.open();
      throw await aborted(ctx.signal);
    });
    await kit.perdure.work([long]);
    const job = await kit.perdure.submit(long);
    await started.passed;
    expect(await kit.perdure.cancel(job.id)).toMatchObject({ state: "running", cancelRequestedAt: kit.clock.now() });
    await expect(job.result()).rejects.toMatchObject({ code: "job_cancelled" });
    expect(await job.get()).toMatchObject({ state: "cancelled", failures: 0 });
    expect((await job.attempts())[0]).toMatchObject({ outcome: "failed", failure: { name: "AbortError" } });
  });

  it("comes too late for a handler that completes anyway: the job succeeds", async () => {
    await using kit = await openTestEngine();
    const [started, finish] = [gate(), gate<string>()];
    const long = task("long", () => {
      started.open();
      return finish.passed;
    });
    await kit.perdure.work([long]);
    const job = await kit.perdure.submit(long);
    await started.passed;
    await job.cancel();
    finish.open("done");
    expect(await job.result()).toBe("done");
  });

  it("has one winner when it races the completion, and both report the same outcome", async () => {
    await using kit = await openTestEngine();
    const quick = task("quick", () => "done");
    await kit.perdure.work([quick], { concurrency: 50 });
    const states = new Map<string, number>();
    for (let round = 0; round < 10; round++) {
      const answers = await kit.perdure.submitMany(Array.from({ length: 20 }, () => ({ task: quick })));
      const jobs = answers.flatMap((answer) => (answer.ok ? [answer.job] : []));
      const results = jobs.map((job) => job.result().catch((error: { code: string }) => error.code));
      // Let the race reach different points: before the claim, while running, after the report.
      for (let turn = 0; turn < round % 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      await Promise.all(jobs.map((job) => job.cancel()));
      for (const [i, outcome] of (await Promise.all(results)).entries()) {
        const { state, revision } = await (jobs[i] as (typeof jobs)[0]).get();
        expect(outcome).toBe(state === "succeeded" ? "done" : "job_cancelled");
        expect(revision).toBeLessThanOrEqual(4);
        states.set(state, (states.get(state) ?? 0) + 1);
      }
    }
    expect([...states.keys()].sort()).toEqual(["cancelled", "succeeded"]);
  });

  it("is a no-op on a job that has ended, and when repeated", async () => {
    await using kit = await openTestEngine();
    const quick = task("quick", () => 1);
    await kit.perdure.work([quick, failing]);
    const done = await kit.perdure.submit(quick);
    await done.result();
    const failed = await kit.perdure.submit(failing);
    await kit.runToEnd(failed);
    const waiting = await kit.perdure.submit("nobody");
    const first = await waiting.cancel();
    expect(await done.cancel()).toMatchObject({ state: "succeeded", revision: 3 });
    expect(await failed.cancel()).toMatchObject({ state: "failed", revision: 3 });
    expect(await waiting.cancel()).toEqual(first);
  });

  it("of an unknown job is an error", async () => {
    await using kit = await openTestEngine();
    await expect(kit.perdure.cancel("job_00000000000000000000000000")).rejects.toMatchObject({ code: "job_not_found" });
  });
});

describe("retry and reschedule", () => {
  it("runs a job in backoff now", async () => {
    await using kit = await openTestEngine();
    const flaky = task("flaky", { retry: { maxAttempts: 2, backoff: { initial: "10m", max: "1h" } } }, (_, ctx) => {
      if (ctx.attempt === 1) throw new Error("down");
      return "up";
    });
    await kit.perdure.work([flaky]);
    const job = await kit.perdure.submit(flaky);
    await kit.settled();
    expect(await job.get()).toMatchObject({ state: "queued", runAt: kit.clock.now() + 600_000 });
    await kit.perdure.retry(job.id);
    expect(await job.result()).toBe("up");
    expect(await job.get()).toMatchObject({ attempt: 2, failures: 1, chapter: 1 });
  });

  it("is a no-op on a job that is due, and refused on one that runs or succeeded", async () => {
    await using kit = await openTestEngine();
    const end = gate();
    const long = task("long", () => end.passed);
    const waiting = await kit.perdure.submit(long);
    expect(await kit.perdure.retry(waiting.id)).toMatchObject({ state: "queued", revision: 1 });
    await kit.perdure.work([long]);
    await kit.settled();
    await expect(kit.perdure.retry(waiting.id)).rejects.toMatchObject({ code: "wrong_state" });
    end.open();
    await waiting.result();
    await expect(kit.perdure.retry(waiting.id)).rejects.toThrow(/cannot retry a job that is succeeded/);
  });

  it("redrives one that failed or was cancelled", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.work([failing]);
    const failed = await kit.perdure.submit(failing);
    await kit.runToEnd(failed);
    expect(await kit.perdure.retry(failed.id)).toMatchObject({ state: "queued", chapter: 2 });
    const cancelled = await kit.perdure.submit("nobody");
    await cancelled.cancel();
    expect(await kit.perdure.retry(cancelled.id)).toMatchObject({ state: "queued", chapter: 2 });
  });

  it("moves a waiting job to another time, earlier or later, and its expiry with it", async () => {
    await using kit = await openTestEngine();
    const ran: number[] = [];
    const note = task("note", () => void ran.push(kit.clock.now()));
    await kit.perdure.work([note]);
    const start = kit.clock.now();
    const job = await kit.perdure.submit(note, undefined, { delay: "1h", expireIn: "1m" });
    expect(await kit.perdure.reschedule(job.id, new Date(start + 7_200_000))).toMatchObject({
      runAt: start + 7_200_000,
      expiresAt: start + 7_260_000,
    });
    await kit.perdure.reschedule(job.id, start + 5_000);
    await kit.advance("10s");
    expect(ran).toEqual([start + 5_000]);
    await expect(kit.perdure.reschedule(job.id, start)).rejects.toMatchObject({ code: "wrong_state" });
  });
});

describe("redrive and discard", () => {
  it("starts with fresh budgets; attempts continue counting", async () => {
    await using kit = await openTestEngine();
    let healthy = false;
    const flaky = task("flaky", { retry: { maxAttempts: 2, backoff: { type: "none" } } }, (_, ctx) => {
      if (!healthy) throw new Error("down");
      return ctx.attempt;
    });
    await kit.perdure.work([flaky]);
    const job = await kit.perdure.submit(flaky);
    expect(await kit.runToEnd(job)).toMatchObject({ state: "failed", reason: "exhausted", failures: 2, attempt: 2 });
    healthy = true;
    expect(await kit.perdure.redrive(job.id)).toMatchObject({ state: "queued", failures: 0, chapter: 2, attempt: 2 });
    expect(await kit.runToEnd(job)).toMatchObject({ state: "succeeded", attempt: 3, chapter: 2, result: 3 });
    const names = (await all(job.events())).map((event) => event.name);
    expect(names).toContain("job.redriven");
    expect((await job.attempts()).map((attempt) => attempt.chapter)).toEqual([1, 1, 2]);
  });

  it("is refused on a job that waits, runs or succeeded", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit("k");
    await expect(kit.perdure.redrive(job.id)).rejects.toMatchObject({ code: "wrong_state" });
    await expect(kit.perdure.discard(job.id)).rejects.toMatchObject({ code: "wrong_state" });
  });

  it("removes a failed job from the dead letters, once, and a redrive makes it run again", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.work([failing]);
    const job = await kit.perdure.submit(failing);
    await kit.runToEnd(job);
    const dead = async () => (await kit.perdure.jobs({ deadLetter: true })).jobs.map(({ id }) => id);
    expect(await dead()).toEqual([job.id]);
    const discarded = await kit.perdure.discard(job.id);
    expect(discarded).toMatchObject({ state: "failed", discardedAt: kit.clock.now(), revision: 4 });
    expect(await kit.perdure.discard(job.id)).toEqual(discarded);
    expect(await dead()).toEqual([]);
    expect(await kit.perdure.redrive(job.id)).toMatchObject({ state: "queued", discardedAt: null });
    await kit.runToEnd(job);
    expect(await dead()).toEqual([job.id]);
  });
});

describe("pause and resume", () => {
  it("starts nothing from a paused queue, lets running jobs continue, and resumes at once", async () => {
    await using kit = await openTestEngine();
    const end = gate();
    const ran: string[] = [];
    const note = task("note", async (name: string) => {
      ran.push(name);
      if (name === "running") await end.passed;
    });
    await kit.perdure.work([note]);
    const running = await kit.perdure.submit(note, "running", { queue: "q" });
    await kit.settled();
    await kit.perdure.pause("q");
    await kit.perdure.pause("q"); // a repeated pause changes nothing
    const held = await kit.perdure.submit(note, "held", { queue: "q" });
    await kit.perdure.submit(note, "free", { queue: "other" });
    end.open();
    await running.result();
    await kit.advance("1m");
    expect(ran).toEqual(["running", "free"]);
    expect((await held.explain()).text).toContain('queue "q" is paused');
    const [, q] = await kit.perdure.queues();
    expect(q).toMatchObject({ queue: "q", paused: true, pausedAt: expect.any(Number), counts: { queued: 1 }, due: 1 });
    await kit.perdure.resume("q");
    await held.result();
    await kit.perdure.resume("q");
    expect((await kit.perdure.queues())[1]).toMatchObject({ paused: false, pausedAt: null });
    const names = (await all(kit.perdure.events())).map((event) => event.name);
    expect(names.filter((name) => name.startsWith("queue."))).toEqual(["queue.paused", "queue.resumed"]);
  });
});

describe("a job that no worker can run", () => {
  it("waits, is never discarded, and explain reports that no live worker takes it", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.work([failing]);
    const job = await kit.perdure.submit("new-kind");
    await kit.advance("9m");
    expect(await job.get()).toMatchObject({ state: "queued", attempt: 0, revision: 1 });
    const explanation = await job.explain();
    expect(explanation.text).toContain('No live worker takes this job (kind "new-kind"');
    expect(explanation.next).toMatchObject({ kind: "run", waitsFor: ["no_worker"] });
    const newKind = task("new-kind", () => "at last");
    await kit.perdure.work([newKind]);
    expect(await job.result()).toBe("at last");
  });

  it("waits for a worker of its queue and with its labels", async () => {
    await using kit = await openTestEngine();
    const k = task("k", () => 1);
    const labelled = await kit.perdure.submit(k, undefined, { labels: { gpu: "yes" } });
    const queued = await kit.perdure.submit(k, undefined, { queue: "q" });
    await kit.perdure.work([k], { queues: ["default"], labels: { gpu: "no", zone: "a" } });
    await kit.advance("10s");
    for (const job of [labelled, queued]) {
      expect((await job.get()).state).toBe("queued");
      expect((await job.explain()).text).toContain('No live worker takes this job (kind "k"');
    }
    await kit.perdure.work([k], { queues: ["q"] });
    await queued.result();
    await kit.perdure.work([k], { labels: { gpu: "yes", more: "is fine" } });
    await labelled.result();
  });

  it("does not reach into another namespace", async () => {
    const dir = mkdtempSync(join(tmpdir(), "perdure-namespace-"));
    const url = join(dir, "jobs.db");
    try {
      await using ours = await Perdure.open({ url, namespace: "ours" });
      await using theirs = await Perdure.open({ url, namespace: "theirs" });
      const { id } = await theirs.submit("secret", { a: 1 });
      for (const call of ["job", "cancel", "retry", "explain"] as const) {
        await expect(ours[call](id), call).rejects.toMatchObject({ code: "job_not_found" });
      }
      expect((await ours.jobs()).jobs).toEqual([]);
      expect((await theirs.jobs()).jobs).toMatchObject([{ id, state: "queued" }]);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});

describe("by", () => {
  it("names the actor in the events: the user of this machine, or the name that the program sets", async () => {
    const acts = async (options: { by?: string }) => {
      await using perdure = await Perdure.open({
        ...{ url: ":memory:", retention: { cancelled: 0 }, ...options },
      });
      // The engine prunes right after it opens; jobs that end later are kept for a minute.
      await new Promise((resolve) => setTimeout(resolve, 5));
      const job = await perdure.submit("k", null, { delay: "1h" });
      await perdure.pause("mail");
      await job.cancel();
      const of = async (name: string) =>
        (await all(perdure.events({ follow: false }))).filter((event) => event.name === name).map(({ data }) => data);
      const events = [...(await of("queue.paused")), ...(await of("job.cancelled"))];
      await new Promise((resolve) => setTimeout(resolve, 5)); // so that it ended before the prune
      expect(await perdure.prune()).toBe(1);
      events.push(...(await of("jobs.pruned")));
      return events.map((data) => (data as { by?: string }).by);
    };
    expect(await acts({ by: "nightly-script" })).toEqual(Array(3).fill("nightly-script"));
    expect(await acts({})).toEqual(Array(3).fill(`user:${userInfo().username}`));
    await expect(Perdure.open({ url: ":memory:", by: "a\nb" })).rejects.toMatchObject({ path: "open.by" });
    await expect(Perdure.open({ url: "http://localhost:1", token: "t", by: "me" })).rejects.toMatchObject({
      ...{ code: "invalid_config", path: "open.by" },
    });
  });
});
