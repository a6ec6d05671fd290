/** Every method of the client, on a real server: it returns what an engine in this process returns for the same jobs. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { JobFailedError, NonRetryableError, type PerdureEvent, task } from "../../src/client/index.ts";
import { type ClientKit, openKit } from "./kit.ts";

const double = task("double", { retry: 1, queue: "sums" }, ({ n }: { n: number }, ctx) => {
  ctx.log(`doubling ${n}`);
  ctx.progress({ half: n });
  return { twice: n * 2 };
});
const nothing = task("nothing", () => undefined);
const fails = task("fails", { retry: false }, (words: string) => {
  throw new NonRetryableError(words);
});
const long = task(
  "long",
  (_: unknown, ctx) =>
    new Promise<void>((_resolve, reject) => {
      ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason));
    }),
);

let kit: ClientKit;
beforeAll(async () => {
  kit = await openKit();
  await kit.embedded.work([double, nothing, fails, long], { concurrency: 20, queues: ["default", "sums"] });
});
afterAll(() => kit.close());

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

describe("a submit", () => {
  it("returns a handle with the job's result, and the same job as an engine", async () => {
    const { client, embedded } = kit;
    const job = await client.submit(double, { n: 21 }, { tags: ["a"], key: "k-21" });
    expect(job).toMatchObject({ chapter: 1, created: true });
    expect((await job.result()).twice).toBe(42);
    const info = await job.get();
    expect(info).toEqual(await (await embedded.job(job.id)).get());
    expect(info).toMatchObject({ queue: "sums", payload: { n: 21 }, result: { twice: 42 }, progress: { half: 21 } });
    const again = await client.submit(double, { n: 21 }, { key: "k-21" });
    expect(again).toMatchObject({ id: job.id, created: false });
    await expect(client.submit(double, { n: 22 }, { key: "k-21" })).rejects.toMatchObject({ code: "key_conflict" });
    const later = await client.job<{ twice: number }>(job.id);
    expect((await later.result({ timeout: 0 })).twice).toBe(42);
  });

  it("without an input has none, and a result of undefined is undefined", async () => {
    const job = await kit.client.submit(nothing);
    expect(await job.result()).toBeUndefined();
    const info = await job.get();
    expect(info).toEqual(await (await kit.embedded.job(job.id)).get());
    expect(Object.keys(info)).toEqual(expect.arrayContaining(["payload", "result", "progress"]));
  });

  it("is refused by the server for what the library cannot see", async () => {
    const retry = { maxAttempts: 0 };
    await expect(kit.client.submit("x", 1, { retry })).rejects.toMatchObject({
      code: "invalid_config",
      path: "retry.maxAttempts",
    });
    await expect(kit.client.submit("exec", { argv: 7 })).rejects.toMatchObject({ code: "invalid_config" });
    await expect(kit.client.submit("x", "a".repeat(2_000_000))).rejects.toMatchObject({ code: "invalid_payload" });
  });

  it("of many answers each for itself, in order, also over several requests", async () => {
    const { client } = kit;
    const few = await client.submitMany([
      { task: double, input: { n: 1 } },
      { task: double, input: 1n },
      { task: "none", options: { priority: 77 } },
      { task: "x", options: { retry: { maxAttemps: 1 } as never } },
      { task: "waits", input: 5, options: { delay: "1h", tags: ["many"] } },
    ]);
    expect(few.map(({ ok }) => ok)).toEqual([true, false, false, false, true]);
    expect(few.slice(1, 4)).toMatchObject([
      { error: { code: "invalid_payload" } },
      { error: { code: "invalid_config", path: "submit.priority" } },
      { error: { code: "invalid_config" } },
    ]);
    const before = kit.calls("/jobs/batch");
    const big = "x".repeat(400_000);
    const many = await client.submitMany(
      Array.from({ length: 20 }, (_, n) => ({ task: "waits", input: { n, big }, options: { delay: "1h" } })),
    );
    expect(kit.calls("/jobs/batch") - before).toBe(3);
    const jobs = await Promise.all(many.map((answer) => (answer.ok ? answer.job.get() : null)));
    expect(jobs.map((job) => (job as { payload: { n: number } }).payload.n)).toEqual(
      Array.from({ length: 20 }, (_, n) => n),
    );
    expect(await client.submitMany([])).toEqual([]);
  });
});

describe("a result", () => {
  it("of a failed job is a JobFailedError with its reason and last failure", async () => {
    const job = await kit.client.submit(fails, "no such card");
    const error = await job.result().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(JobFailedError);
    const local = await (await kit.embedded.job(job.id)).result().catch((thrown: unknown) => thrown);
    expect({ ...(error as object), message: (error as Error).message }).toEqual({
      ...{ ...(local as object), message: (local as Error).message },
    });
    expect(error).toMatchObject({ reason: "rejected", attempt: 1, failure: { message: "no such card" } });
  });

  it("of a cancelled job is job_cancelled, and belongs to the chapter of its handle", async () => {
    const { client } = kit;
    const job = await client.submit(fails, "first chapter");
    await expect(job.result()).rejects.toMatchObject({ code: "job_failed" });
    expect(await client.redrive(job.id)).toMatchObject({ chapter: 2 });
    await expect(job.result()).rejects.toMatchObject({ code: "job_failed", message: /first chapter/ });
    const second = await client.job(job.id);
    expect(second.chapter).toBe(2);
    await expect(second.result()).rejects.toMatchObject({ code: "job_failed" });
    const waiting = await client.submit("nobody", 1);
    const message = `${waiting.id} was cancelled`;
    const ended = expect(waiting.result()).rejects.toMatchObject({ code: "job_cancelled", message });
    expect(await waiting.cancel()).toMatchObject({ state: "cancelled" });
    await ended;
  });

  it("can be cancelled by a timeout or a signal; the job continues", async () => {
    const { client } = kit;
    const job = await client.submit("nobody", 1);
    await expect(job.result({ timeout: "30ms" })).rejects.toMatchObject({
      code: "result_timeout",
      message: `${job.id} did not end within 30 ms; it continues`,
    });
    const controller = new AbortController();
    const aborted = job.result({ signal: controller.signal });
    controller.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    expect((await job.get()).state).toBe("queued");
    await job.cancel();
  });

  it("of a job that is not there is job_not_found", async () => {
    const { client } = kit;
    const nobody = `job_${"0".repeat(26)}`;
    await expect(client.job(nobody)).rejects.toMatchObject({ code: "job_not_found" });
    await expect(client.job("7")).rejects.toThrow('"7" is not a job id');
  });

  it("of many jobs needs few calls", async () => {
    const { client } = kit;
    const answers = await client.submitMany(Array.from({ length: 400 }, (_, n) => ({ task: double, input: { n } })));
    const before = kit.calls("/jobs/wait");
    const results = await Promise.all(answers.map((answer) => (answer.ok ? answer.job.result() : null)));
    expect(results).toEqual(Array.from({ length: 400 }, (_, n) => ({ twice: n * 2 })));
    expect(kit.calls("/jobs/wait") - before).toBeLessThan(60);
  });
});

describe("commands", () => {
  it("cancel, reschedule, retry, redrive and discard a job", async () => {
    const { client } = kit;
    const job = await client.submit("nobody", 1, { delay: "1h" });
    const runAt = new Date(Date.now() + 7_200_000);
    expect(await client.reschedule(job.id, runAt)).toMatchObject({ state: "queued", runAt: runAt.getTime() });
    expect((await client.retry(job.id)).runAt).toBeLessThan(runAt.getTime());
    expect(await client.cancel(job.id)).toMatchObject({ state: "cancelled" });
    expect(await client.cancel(job.id)).toMatchObject({ state: "cancelled" });
    await expect(client.discard(job.id)).rejects.toMatchObject({ code: "wrong_state" });
    const failed = await client.submit(fails, "for the bin");
    await failed.result().catch(() => {});
    expect((await client.discard(failed.id)).discardedAt).toEqual(expect.any(Number));
  });

  it("cancel a running job by its signal", async () => {
    const job = await kit.client.submit(long, null);
    for await (const { name } of job.events({ follow: true })) if (name === "attempt.started") break;
    await job.cancel();
    await expect(job.result()).rejects.toMatchObject({ code: "job_cancelled" });
  });

  it("redrive many dead letters, or only name them", async () => {
    const { client } = kit;
    const jobs = await Promise.all([1, 2, 3].map((n) => client.submit(fails, `dead ${n}`, { tags: ["dead"] })));
    await Promise.allSettled(jobs.map((job) => job.result()));
    const ids = jobs.map(({ id }) => id).sort();
    const named = await client.redriveMany({ tag: "dead" }, { dryRun: true });
    expect({ ...named, jobs: [...named.jobs].sort() }).toEqual({ jobs: ids, skipped: [], more: false });
    const some = await client.redriveMany({ tag: "dead", kind: "fails" }, { limit: 2 });
    expect(some).toMatchObject({ jobs: { length: 2 }, more: true });
    expect(await client.redriveMany({ tag: "dead", state: [] })).toEqual({ jobs: [], skipped: [], more: false });
    const wrong = client.redriveMany({ deadLetter: false });
    await expect(wrong).rejects.toMatchObject({ path: "redriveMany.deadLetter" });
    for (const id of some.jobs) await expect((await client.job(id)).result()).rejects.toThrow();
  });
});

describe("looking", () => {
  it("finds jobs by every condition, a page at a time", async () => {
    const { client, embedded } = kit;
    const since = new Date();
    const jobs = await Promise.all(
      Array.from({ length: 5 }, (_, n) => client.submit("find me", n, { queue: "q & a=1", tags: ["ü"], delay: "1h" })),
    );
    const filter = {
      kind: ["find me", "other"],
      queue: "q & a=1",
      tag: "ü",
      state: "queued",
      submittedAfter: since,
    } as const;
    expect(await client.jobs(filter)).toEqual(await embedded.jobs(filter));
    const first = await client.jobs({ ...filter, limit: 3, order: "oldest" });
    const second = await client.jobs({ ...filter, limit: 3, order: "oldest", cursor: first.next as string });
    expect([...first.jobs, ...second.jobs].map(({ id }) => id).sort()).toEqual(jobs.map(({ id }) => id).sort());
    expect(second.next).toBeNull();
    expect((await client.jobs({ ...filter, state: ["failed", "running"] })).jobs).toEqual([]);
    expect((await client.jobs({ key: "k-21" })).jobs).toHaveLength(1);
    expect((await client.jobs({ deadLetter: true })).jobs.every(({ state }) => state === "failed")).toBe(true);
    await expect(client.jobs({ cursor: "made up" })).rejects.toMatchObject({ code: "invalid_cursor" });
  });

  it("returns a job's events, attempts and explanation as an engine does", async () => {
    const { client, embedded } = kit;
    const job = await client.submit(double, { n: 4 });
    await job.result();
    const local = await embedded.job(job.id);
    expect(await all(job.events())).toEqual(await all(local.events()));
    expect(await job.attempts()).toEqual(await local.attempts());
    expect((await job.attempts())[0]).toMatchObject({ log: expect.stringContaining("doubling 4") });
    expect(await job.explain()).toEqual(await local.explain());
    expect((await client.explain(job.id)).text).toContain("Succeeded");
    const [, second] = await all(job.events());
    expect((await all(job.events({ after: second?.seq as number }))).length).toBe(1);
  });

  it("reads all events, and follows those to come", async () => {
    const { client, embedded } = kit;
    const past = await all(client.events());
    expect(past.length).toBeGreaterThan(1_000); // more than a page
    expect(past).toEqual(await all(embedded.events()));
    const controller = new AbortController();
    const after = (past.at(-1) as PerdureEvent).seq;
    const feed = client.events({ after, follow: true, signal: controller.signal });
    const first = feed.next();
    const job = await client.submit(double, { n: 9 });
    const seen = [(await first).value as PerdureEvent];
    for await (const event of feed) {
      seen.push(event);
      if (event.name === "attempt.succeeded") controller.abort();
    }
    expect(seen.map(({ jobId, name }) => [jobId, name])).toEqual(
      ["job.submitted", "attempt.started", "attempt.succeeded"].map((name) => [job.id, name]),
    );
  });

  it("counts, pauses and resumes queues, and lists workers", async () => {
    const { client, embedded } = kit;
    await client.pause("a/b");
    const paused = (await client.queues()).find(({ queue }) => queue === "a/b");
    expect(paused).toMatchObject({ paused: true });
    await client.resume("a/b");
    const local = await embedded.queues();
    expect(await client.queues()).toEqual(local);
    const [worker] = await client.workers();
    expect(worker).toMatchObject({ kinds: expect.arrayContaining(["double", "fails"]), slots: 20, endedAt: null });
    expect(Object.keys(worker ?? {}).sort()).toEqual(Object.keys((await embedded.workers())[0] ?? {}).sort());
    await expect(client.drain("ses_none")).rejects.toMatchObject({ code: "not_found" });
    expect(await client.prune()).toBe(0);
  });
});

describe("administration", () => {
  it("creates, lists and revokes tokens, and returns the identity of the server and the token", async () => {
    const { client } = kit;
    const { token, info } = await client.admin.createToken({ name: "reader", scopes: ["read"], namespace: "team" });
    expect(info).toMatchObject({ name: "reader", scopes: ["read"], namespace: "team", revokedAt: null });
    const reader = await kit.connect({ token });
    expect(await reader.admin.identity()).toMatchObject({ name: "reader", scopes: ["read"], namespace: "team" });
    expect((await reader.jobs()).jobs).toEqual([]);
    await expect(reader.submit(double, { n: 1 })).rejects.toMatchObject({ code: "forbidden" });
    expect((await client.admin.listTokens()).map(({ name }) => name)).toContain("reader");
    await client.admin.revokeToken(info.id);
    await expect(reader.jobs()).rejects.toMatchObject({ code: "unauthorized" });
    expect(await client.admin.version()).toMatchObject({ name: "perdure", api: 1 });
    expect(await client.admin.status()).toMatchObject({ store: "sqlite" });
  });

  it("keeps namespaces apart", async () => {
    const other = await kit.connect({ namespace: "other" });
    const job = await other.submit("nobody", 1, { delay: "1h" });
    expect((await other.jobs()).jobs.map(({ id }) => id)).toEqual([job.id]);
    await expect(kit.client.job(job.id)).rejects.toMatchObject({ code: "job_not_found" });
  });
});
