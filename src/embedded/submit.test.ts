import { describe, expect, it } from "vitest";
import type { SubmitOptions } from "../core/task/task.ts";
import { task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

describe("submit", () => {
  it("stores a job with its defaults, durable and unstarted when the promise resolves", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit("resize", { url: "a.png" });
    expect(job.id).toMatch(/^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/);
    expect(job).toMatchObject({ chapter: 1, created: true });
    expect(await job.get()).toMatchObject({
      ...{ id: job.id, kind: "resize", queue: "default", namespace: "default", priority: 5, key: null, tags: [] },
      ...{ state: "queued", reason: null, chapter: 1, attempt: 0, revision: 1, failures: 0, losses: 0 },
      ...{ submittedAt: kit.clock.now(), runAt: kit.clock.now(), expiresAt: null, deadlineAt: null, timeoutMs: null },
      payload: { url: "a.png" },
      result: undefined,
      progress: undefined,
    });
  });

  it("stores the options", async () => {
    await using kit = await openTestEngine();
    const deadline = kit.clock.now() + 60_000;
    const options: SubmitOptions = {
      ...{ queue: "images", priority: 0, tags: ["red", "blue", "red"], timeout: 120_000, expireIn: 10_000 },
      ...{ deadline: new Date(deadline), labels: { gpu: "yes", zone: "b" }, delay: 5_000, key: "k", retry: 4 },
    };
    const job = await kit.perdure.submit("resize", null, options);
    const runAt = kit.clock.now() + 5_000;
    expect(await job.get()).toMatchObject({
      ...{ queue: "images", priority: 0, tags: ["red", "blue"], timeoutMs: 120_000, expireInMs: 10_000 },
      ...{ deadlineAt: deadline, labels: { gpu: "yes", zone: "b" }, runAt, expiresAt: runAt + 10_000, key: "k" },
      policy: { maxAttempts: 4 },
    });
  });

  it("passes exactly the submitted value to the handler of the task", async () => {
    await using kit = await openTestEngine();
    const echo = task("echo", (input: unknown) => input);
    await kit.perdure.work([echo]);
    const values = [
      0,
      -1.5,
      "",
      "naïve 🦊 \u0000 \u2028",
      true,
      null,
      [],
      {},
      { a: [1, { b: null }] },
      "x".repeat(10_000),
    ];
    const jobs = await kit.perdure.submitMany(values.map((input) => ({ task: echo, input })));
    const results = await Promise.all(
      jobs.map(async (answer) => (answer.ok ? await answer.job.result() : answer.error)),
    );
    expect(results).toEqual(values);
  });

  it("keeps a key named __proto__ as data", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit("k", JSON.parse('{"__proto__":{"polluted":true}}'));
    expect(JSON.stringify((await job.get()).payload)).toBe('{"__proto__":{"polluted":true}}');
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it("uses the task's options as defaults, and its own options first", async () => {
    await using kit = await openTestEngine();
    const resize = task("resize", { queue: "images", priority: 2, timeout: "1m", expireIn: "1h", retry: 3 }, () => 1);
    const byTask = await (await kit.perdure.submit(resize)).get();
    expect(byTask).toMatchObject({ queue: "images", priority: 2, timeoutMs: 60_000, expireInMs: 3_600_000 });
    expect(byTask.policy.maxAttempts).toBe(3);
    const own = { queue: "rush", priority: 0, timeout: 5, expireIn: 7, retry: { maxAttempts: 9 } };
    const bySubmit = await (await kit.perdure.submit(resize, undefined, own)).get();
    expect(bySubmit).toMatchObject({ queue: "rush", priority: 0, timeoutMs: 5, expireInMs: 7 });
    expect(bySubmit.policy.maxAttempts).toBe(9);
  });

  it("treats an option with the value undefined as not set", async () => {
    await using kit = await openTestEngine();
    const resize = task("resize", { queue: "images", priority: 2, timeout: "1m", retry: 3 }, () => 1);
    const none = { queue: undefined, priority: undefined, timeout: undefined, retry: undefined, delay: undefined };
    const job = await (await kit.perdure.submit(resize, undefined, none as never)).get();
    expect(job).toMatchObject({ queue: "images", priority: 2, timeoutMs: 60_000, policy: { maxAttempts: 3 } });
  });

  it("resolves a policy again for each submit, also when the same object was changed in between", async () => {
    await using kit = await openTestEngine();
    const retry = { maxAttempts: 2 };
    const first = await (await kit.perdure.submit("k", null, { retry })).get();
    retry.maxAttempts = 7;
    const second = await (await kit.perdure.submit("k", null, { retry })).get();
    expect([first.policy.maxAttempts, second.policy.maxAttempts]).toEqual([2, 7]);
  });
});

describe("submitMany", () => {
  it("answers each item separately, in order, and stores the valid ones among invalid ones", async () => {
    await using kit = await openTestEngine();
    const answers = await kit.perdure.submitMany([
      { task: "good", input: 1 },
      { task: "bad", input: 10n },
      { task: "good", input: 2, options: { key: "same" } },
      { task: "bad", options: { priority: 11 } },
      { task: "bad\u0000name" },
      { task: "good", input: 3, options: { key: "same" } },
      { task: "good", input: 2, options: { key: "same" } },
      { task: "bad", options: { delay: "soon" as never } },
      { task: "good", input: 4 },
    ]);
    expect(answers.map((answer) => (answer.ok ? "ok" : answer.error.code))).toEqual([
      ...["ok", "invalid_payload", "ok", "invalid_config", "invalid_config"],
      ...["key_conflict", "ok", "invalid_config", "ok"],
    ]);
    const stored = await kit.perdure.jobs({ order: "oldest" });
    expect(stored.jobs.map((job) => job.payload)).toEqual([1, 2, 4]);
    const made = answers.flatMap((answer) => (answer.ok && answer.job.created ? [answer.job.id] : []));
    expect(stored.jobs.map((job) => job.id)).toEqual(made);
  });

  it("refuses values that are not items, and stores the items beside them", async () => {
    await using kit = await openTestEngine();
    const odd = [null, {}, { task: null }, { task: "k", options: null }, { task: "k", options: "fast" }, { task: 7 }];
    const answers = await kit.perdure.submitMany([{ task: "good" }, ...odd, { task: "good" }] as never);
    expect(answers.map((answer) => answer.ok)).toEqual([true, ...odd.map(() => false), true]);
    for (const answer of answers) if (!answer.ok) expect(answer.error).toMatchObject({ code: "invalid_config" });
  });

  it("answers an empty list with an empty list", async () => {
    await using kit = await openTestEngine();
    expect(await kit.perdure.submitMany([])).toEqual([]);
  });

  it("stores ten thousand jobs of one call, in their order", async () => {
    await using kit = await openTestEngine();
    const answers = await kit.perdure.submitMany(Array.from({ length: 10_000 }, (_, i) => ({ task: "n", input: i })));
    expect(answers.every((answer) => answer.ok)).toBe(true);
    expect((await kit.perdure.queues())[0]).toMatchObject({ counts: { queued: 10_000 }, due: 10_000 });
    const ids = answers.map((answer) => (answer.ok ? answer.job.id : ""));
    expect(ids).toEqual([...ids].sort());
  });
});

describe("a submit key", () => {
  it("identifies one job: the same body finds it in every state, also after a redrive", async () => {
    await using kit = await openTestEngine();
    const send = task("send", () => {
      throw new Error("down");
    });
    const submit = () => kit.perdure.submit(send, { to: "a" }, { key: "mail-1" });
    const first = await submit();
    const again = await submit();
    expect([first.created, again.created]).toEqual([true, false]);
    expect(again.id).toBe(first.id);
    await kit.perdure.work([send]);
    await kit.runToEnd(first);
    const failed = await submit();
    expect(failed).toMatchObject({ id: first.id, created: false, chapter: 1 });
    await expect(failed.result()).rejects.toMatchObject({ code: "job_failed" });
    await kit.perdure.redrive(first.id);
    expect(await submit()).toMatchObject({ id: first.id, created: false, chapter: 2 });
    expect((await kit.perdure.jobs()).jobs).toHaveLength(1);
  });

  it.each([
    ["another payload", "send", { to: "b" }, {}],
    ["the same fields in another order", "send", { cc: 1, to: "a" }, {}],
    ["another kind", "post", { to: "a", cc: 1 }, {}],
    ["another queue", "send", { to: "a", cc: 1 }, { queue: "slow" }],
  ])("refuses %s and names the job that has the key", async (_, kind, input, options) => {
    await using kit = await openTestEngine();
    const first = await kit.perdure.submit("send", { to: "a", cc: 1 }, { key: "mail-1" });
    const second = kit.perdure.submit(kind, input, { ...options, key: "mail-1" });
    await expect(second).rejects.toMatchObject({ code: "key_conflict", message: expect.stringContaining(first.id) });
    expect((await kit.perdure.jobs()).jobs).toHaveLength(1);
  });

  it("compares only kind, queue and payload: other options may differ", async () => {
    await using kit = await openTestEngine();
    const first = await kit.perdure.submit("send", 1, { key: "k", priority: 1 });
    const second = await kit.perdure.submit("send", 1, { key: "k", priority: 9, tags: ["x"], delay: "1h" });
    expect(second).toMatchObject({ id: first.id, created: false });
    expect(await first.get()).toMatchObject({ priority: 1, tags: [] });
  });

  it("returns the same job to a thousand concurrent submits", async () => {
    await using kit = await openTestEngine();
    const submits = Array.from({ length: 1_000 }, () => kit.perdure.submit("hot", 1, { key: "hot" }));
    const jobs = await Promise.all(submits);
    expect(new Set(jobs.map((job) => job.id)).size).toBe(1);
    expect(jobs.filter((job) => job.created)).toHaveLength(1);
    expect((await kit.perdure.jobs()).jobs).toHaveLength(1);
  });

  it("is optional: without it equal jobs are separate jobs", async () => {
    await using kit = await openTestEngine();
    const [a, b] = [await kit.perdure.submit("k", 1), await kit.perdure.submit("k", 1)];
    expect(a.id).not.toBe(b.id);
  });
});
