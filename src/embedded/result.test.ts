import { describe, expect, it } from "vitest";
import { gate } from "../../test/kit.ts";
import { JobFailedError, NonRetryableError, PerdureError, task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

const failing = task("failing", (message: string) => {
  throw new NonRetryableError(message);
});

describe("result", () => {
  it.each<[unknown, unknown]>([
    [undefined, undefined],
    [null, null],
    [0, 0],
    ["", ""],
    [{ at: new Date(0) }, { at: "1970-01-01T00:00:00.000Z" }],
    [
      [undefined, Number.NaN],
      [null, null],
    ],
  ])("returns the result of the handler, as JSON: %o", async (returned, given) => {
    await using kit = await openTestEngine();
    const give = task("give", () => returned);
    await kit.perdure.work([give]);
    const job = await kit.perdure.submit(give);
    expect(await job.result()).toEqual(given);
    expect((await job.get()).result).toEqual(given);
    expect(await (await kit.perdure.job(job.id)).result()).toEqual(given);
  });

  it("throws an error with the reason, the last failure and the number of attempts", async () => {
    await using kit = await openTestEngine();
    const flaky = task("flaky", { retry: { maxAttempts: 2, backoff: { type: "none" } } }, (_, ctx) => {
      throw Object.assign(new TypeError(`run ${ctx.attempt}`), { code: "E_DOWN" });
    });
    await kit.perdure.work([flaky]);
    const job = await kit.perdure.submit(flaky);
    const error = await job.result().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(JobFailedError);
    expect(error).toBeInstanceOf(PerdureError);
    expect(error).toMatchObject({
      ...{ code: "job_failed", name: "JobFailedError", jobId: job.id, reason: "exhausted", attempt: 2 },
      message: `${job.id} failed (exhausted) after 2 attempts: run 2`,
      failure: { kind: "error", class: "transient", name: "TypeError", code: "E_DOWN", message: "run 2" },
    });
    expect((error as JobFailedError).failure?.stack).toContain("result.test.ts");
  });

  it("does not report an earlier failure when the last attempt was lost", async () => {
    await using kit = await openTestEngine();
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
    const again = { if: { message: "down" }, then: "retry", maxRetries: 1, backoff: { type: "none" } } as const;
    const once = task("once", { retry: { workerLost: { maxRetries: 0 }, rules: [again] } }, (_, ctx) => {
      if (ctx.attempt === 1) throw new Error("down");
      return new Promise(() => {});
    });
    const worker = await kit.perdure.work([once]);
    const job = await kit.perdure.submit(once);
    await kit.settled();
    const stopped = worker.stop({ grace: 0 }); // interrupted in an attempt that must not be repeated: lost
    await kit.advance("10s");
    await stopped;
    await expect(job.result()).rejects.toMatchObject({ reason: "lost", failure: null, attempt: 2 });
  });

  it("stops waiting after its timeout; the job keeps running", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit("nobody");
    const waiting = job.result({ timeout: "5s" }).catch((error: unknown) => error);
    await kit.advance("4999ms");
    const settled = gate<boolean>();
    void waiting.then(() => settled.open(true));
    await kit.settled();
    expect(settled.isOpen).toBe(false);
    await kit.advance("1ms");
    expect(await waiting).toMatchObject({ code: "result_timeout", message: expect.stringContaining("5000 ms") });
    expect((await job.get()).state).toBe("queued");
  });

  it("with a timeout of zero does not wait", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit("nobody");
    await expect(job.result({ timeout: 0 })).rejects.toMatchObject({ code: "result_timeout" });
    const quick = task("quick", () => 1);
    await kit.perdure.work([quick]);
    const done = await kit.perdure.submit(quick);
    await done.result();
    expect(await done.result({ timeout: 0 })).toBe(1);
  });

  it("stops waiting when its signal aborts, with the signal's reason, before or during", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit("nobody");
    const controller = new AbortController();
    const waiting = job.result({ signal: controller.signal, timeout: "1h" }).catch((error: unknown) => error);
    await kit.settled();
    const reason = new Error("changed my mind");
    controller.abort(reason);
    expect(await waiting).toBe(reason);
    await expect(job.result({ signal: controller.signal })).rejects.toBe(reason);
    expect(kit.clock.now()).toBe((await job.get()).submittedAt);
  });

  it("resolves for every caller when the job ends", async () => {
    await using kit = await openTestEngine();
    const end = gate<number>();
    const long = task("long", () => end.passed);
    await kit.perdure.work([long]);
    const job = await kit.perdure.submit(long);
    const waiting = Array.from({ length: 50 }, () => job.result());
    await kit.settled();
    end.open(7);
    expect(await Promise.all(waiting)).toEqual(Array(50).fill(7));
  });

  it("rejects with job_not_found when the job was pruned", async () => {
    await using kit = await openTestEngine({ retention: { cancelled: "1h" } });
    const job = await kit.perdure.submit("nobody");
    await job.cancel();
    await kit.advance("61m");
    await kit.perdure.prune();
    await expect(job.result()).rejects.toMatchObject({ code: "job_not_found" });
    await expect(job.get()).rejects.toMatchObject({ code: "job_not_found" });
    await expect(job.explain()).rejects.toMatchObject({ code: "job_not_found" });
  });
});

describe("result of a job before a redrive", () => {
  it("still throws the earlier failure after the redriven job succeeded", async () => {
    await using kit = await openTestEngine();
    let healthy = false;
    const flaky = task("flaky", { retry: { maxAttempts: 2, backoff: { type: "none" } } }, (_, ctx) => {
      if (!healthy) throw new Error(`run ${ctx.attempt}`);
      return "fine";
    });
    await kit.perdure.work([flaky]);
    const old = await kit.perdure.submit(flaky);
    await kit.runToEnd(old);
    healthy = true;
    await kit.perdure.redrive(old.id);
    const fresh = await kit.perdure.job(old.id);
    expect(fresh.chapter).toBe(2);
    expect(await fresh.result()).toBe("fine");
    const earlier = { code: "job_failed", reason: "exhausted", attempt: 2, failure: { message: "run 2" } };
    await expect(old.result()).rejects.toMatchObject(earlier);
  });

  it("rejects a call that waited across the redrive with the end it waited for", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.work([failing]);
    const job = await kit.perdure.submit(failing, "bad day", { delay: "1s" });
    const waiting = job.result().catch((error: unknown) => error);
    await kit.advance("1s");
    await kit.perdure.redrive(job.id);
    expect(await waiting).toMatchObject({ code: "job_failed", reason: "rejected", attempt: 1 });
  });

  it("rejects with job_cancelled if it was cancelled, waiting or running, also after failures", async () => {
    await using kit = await openTestEngine();
    const started = gate();
    const flaky = task("flaky", { retry: { maxAttempts: 5, backoff: { type: "none" } } }, async (_, ctx) => {
      if (ctx.attempt === 1) throw new Error("first");
      started.open();
      await new Promise((_resolve, reject) => ctx.signal.addEventListener("abort", reject));
    });
    const waiting = await kit.perdure.submit("nobody");
    await waiting.cancel();
    await kit.perdure.work([flaky]);
    const running = await kit.perdure.submit(flaky);
    await started.passed;
    await running.cancel();
    await kit.runToEnd(running);
    for (const job of [waiting, running]) {
      await kit.perdure.redrive(job.id);
      await expect(job.result()).rejects.toMatchObject({ code: "job_cancelled" });
    }
  });

  it("rejects with unschedulable if it ended before it ever ran", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit("nobody", undefined, { expireIn: "5s" });
    await kit.advance("10s");
    await expect(job.result()).rejects.toMatchObject({ code: "job_failed", reason: "unschedulable" });
    await kit.perdure.redrive(job.id);
    await expect(job.result()).rejects.toMatchObject({ code: "job_failed", reason: "unschedulable", failure: null });
  });

  it("rejects with the failure if it ended while it waited for its next attempt", async () => {
    await using kit = await openTestEngine();
    const flaky = task("flaky", { retry: { maxAttempts: 5, backoff: { type: "fixed", delay: "1m" } } }, () => {
      throw new Error("down");
    });
    await kit.perdure.work([flaky]);
    const job = await kit.perdure.submit(flaky, undefined, { deadline: kit.clock.now() + 30_000 });
    await kit.advance("40s");
    const expired = { code: "job_failed", reason: "unschedulable", attempt: 1, failure: { message: "down" } };
    await expect(job.result()).rejects.toMatchObject(expired);
    await kit.perdure.redrive(job.id);
    await expect(job.result()).rejects.toMatchObject(expired);
  });

  it("is that of the same redrive for each of three handles", async () => {
    await using kit = await openTestEngine();
    let next = "one";
    const flaky = task("flaky", () => {
      throw next === "two" ? new NonRetryableError(next) : new Error(next);
    });
    await kit.perdure.work([flaky]);
    const first = await kit.perdure.submit(flaky);
    await kit.runToEnd(first);
    next = "two";
    await kit.perdure.redrive(first.id);
    const second = await kit.perdure.job(first.id);
    await kit.runToEnd(second);
    next = "three";
    await kit.perdure.redrive(first.id);
    const third = await kit.perdure.job(first.id);
    await kit.runToEnd(third);
    const ends = await Promise.all([first, second, third].map((job) => job.result().catch((error: unknown) => error)));
    expect(ends).toMatchObject([
      { reason: "exhausted", attempt: 1, failure: { message: "one" } },
      { reason: "rejected", attempt: 2, failure: { message: "two" } },
      { reason: "exhausted", attempt: 3, failure: { message: "three" } },
    ]);
  });
});
