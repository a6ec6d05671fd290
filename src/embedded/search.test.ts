import { describe, expect, it } from "vitest";
import { gate } from "../../test/kit.ts";
import type { SubmitEntry } from "../core/task/task.ts";
import { type JobsFilter, NonRetryableError, type Perdure, task } from "../index.ts";
import { openTestEngine, type TestEngine } from "../testing/index.ts";

const ok = task("ok", () => 1);
const bad = task("bad", () => {
  throw new NonRetryableError("never");
});

/** Jobs in every state that a filter can select, named by their payloads, a second apart. */
async function stocked(kit: TestEngine): Promise<{ start: number; finish: () => void }> {
  const { perdure } = kit;
  const start = kit.clock.now();
  const end = gate();
  const slow = task("slow", () => end.passed);
  await perdure.work([ok, bad, slow]);
  const entries: SubmitEntry[] = [
    { task: ok, input: "ok-1", options: { tags: ["red"] } },
    { task: ok, input: "ok-2", options: { queue: "q", key: "key-2", tags: ["red", "blue"] } },
    { task: bad, input: "bad-1" },
    { task: bad, input: "bad-2", options: { queue: "q" } },
    { task: slow, input: "slow-1", options: { tags: ["blue"] } },
    { task: "nobody", input: "waiting-1" },
    { task: "nobody", input: "waiting-2", options: { delay: "1h", queue: "q" } },
    { task: "nobody", input: "cancelled-1", options: { tags: ["red"] } },
  ];
  for (const entry of entries) {
    const [answer] = await perdure.submitMany([entry]);
    if (entry.input === "cancelled-1" && answer?.ok) await answer.job.cancel();
    await kit.advance("1s");
  }
  const [discarded] = (await perdure.jobs({ kind: "bad", queue: "q" })).jobs;
  await perdure.discard(discarded?.id as string);
  return { start, finish: () => end.open() };
}

async function names(perdure: Perdure, filter: JobsFilter): Promise<unknown[]> {
  return (await perdure.jobs({ order: "oldest", ...filter })).jobs.map((job) => job.payload);
}

describe("jobs", () => {
  it("finds the jobs of each filter, and of several combined", async () => {
    await using kit = await openTestEngine();
    const { start, finish } = await stocked(kit);
    const found = (filter: JobsFilter) => names(kit.perdure, filter);
    expect(await found({ state: "succeeded" })).toEqual(["ok-1", "ok-2"]);
    expect(await found({ state: ["failed", "running"] })).toEqual(["bad-1", "bad-2", "slow-1"]);
    expect(await found({ state: [] })).toEqual([]);
    expect(await found({ kind: "slow" })).toEqual(["slow-1"]);
    expect(await found({ kind: ["ok", "slow", "unknown"] })).toEqual(["ok-1", "ok-2", "slow-1"]);
    expect(await found({ queue: "q" })).toEqual(["ok-2", "bad-2", "waiting-2"]);
    expect(await found({ queue: ["q", "default"], kind: "nobody" })).toEqual(["waiting-1", "waiting-2", "cancelled-1"]);
    expect(await found({ tag: "red" })).toEqual(["ok-1", "ok-2", "cancelled-1"]);
    expect(await found({ tag: "red", state: "succeeded", queue: "q" })).toEqual(["ok-2"]);
    expect(await found({ key: "key-2" })).toEqual(["ok-2"]);
    expect(await found({ key: "key-3" })).toEqual([]);
    expect(await found({ deadLetter: true })).toEqual(["bad-1"]);
    expect(await found({ deadLetter: false, kind: "bad" })).toEqual(["bad-1", "bad-2"]);
    expect(await found({ submittedAfter: start + 6_000 })).toEqual(["waiting-2", "cancelled-1"]);
    expect(await found({ submittedBefore: new Date(start + 1_000) })).toEqual(["ok-1"]);
    expect(await found({ submittedAfter: start + 1_000, submittedBefore: start + 3_000 })).toEqual(["ok-2", "bad-1"]);
    finish();
  });

  it("returns the newest first by default", async () => {
    await using kit = await openTestEngine();
    for (const input of [1, 2, 3]) await kit.perdure.submit("k", input);
    expect((await kit.perdure.jobs()).jobs.map((job) => job.payload)).toEqual([3, 2, 1]);
    expect((await kit.perdure.jobs({ order: "oldest" })).jobs.map((job) => job.payload)).toEqual([1, 2, 3]);
  });

  it.each(["newest", "oldest"] as const)("returns each job once over all pages, %s first", async (order) => {
    await using kit = await openTestEngine();
    await kit.perdure.submitMany(
      Array.from({ length: 25 }, (_, i) => ({ task: i % 5 === 0 ? "other" : "k", input: i })),
    );
    const seen: unknown[] = [];
    const sizes: number[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Awaited<ReturnType<Perdure["jobs"]>> = await kit.perdure.jobs({
        ...{ kind: "k", order, limit: sizes.length === 0 ? 7 : 6 },
        ...(cursor === "" ? {} : { cursor }),
      });
      sizes.push(page.jobs.length);
      seen.push(...page.jobs.map((job) => job.payload));
      cursor = page.next;
      // A job submitted in between is at one end of the list, so no page repeats a job.
      if (sizes.length === 1) await kit.perdure.submit("k", "late");
    }
    const expected: unknown[] = Array.from({ length: 25 }, (_, i) => i).filter((i) => i % 5 !== 0);
    expect(seen).toEqual(order === "oldest" ? [...expected, "late"] : expected.reverse());
    expect(sizes.reduce((a, b) => a + b)).toBe(seen.length);
  });

  it("has no next page when the last is exactly full", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.submitMany([1, 2, 3].map((input) => ({ task: "k", input })));
    expect((await kit.perdure.jobs({ limit: 3 })).next).toBeNull();
    expect((await kit.perdure.jobs({ limit: 2 })).next).not.toBeNull();
  });

  it("refuses a cursor of another query, of another store, or made by hand", async () => {
    await using kit = await openTestEngine();
    await using other = await openTestEngine();
    for (const { perdure } of [kit, other]) {
      await perdure.submitMany([1, 2, 3].map((input) => ({ task: "k", input })));
    }
    const { next } = await kit.perdure.jobs({ limit: 1 });
    const cursor = next as string;
    expect((await kit.perdure.jobs({ cursor, limit: 5 })).jobs).toHaveLength(2);
    const wrong: [Perdure, JobsFilter][] = [
      [kit.perdure, { cursor, kind: "k" }],
      [kit.perdure, { cursor, order: "oldest" }],
      [other.perdure, { cursor }],
      [kit.perdure, { cursor: `${cursor}A` }],
      [kit.perdure, { cursor: cursor.slice(0, -2) }],
      [kit.perdure, { cursor: Buffer.from("1.x.y").toString("base64url") }],
      [kit.perdure, { cursor: "1 or 1=1" }],
    ];
    for (const [perdure, filter] of wrong) {
      await expect(perdure.jobs({ limit: 1, ...filter })).rejects.toMatchObject({ code: "invalid_cursor" });
    }
  });

  it("treats every text as a value, never as part of an SQL statement", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.submit("k", 1, { tags: ["plain"] });
    for (const text of ["' or 1=1 --", '"; drop table job; --', "%", "_", "*"]) {
      for (const filter of [{ kind: text }, { queue: text }, { tag: text }, { key: text }]) {
        expect(await names(kit.perdure, filter)).toEqual([]);
      }
    }
    expect(await names(kit.perdure, {})).toEqual([1]);
  });
});

describe("queues and workers", () => {
  it("counts the jobs of each queue by state; the sum is the number of submitted jobs", async () => {
    await using kit = await openTestEngine();
    const { finish } = await stocked(kit);
    const queues = await kit.perdure.queues();
    const none = { queued: 0, running: 0, blocked: 0, succeeded: 0, failed: 0, cancelled: 0 };
    expect(queues).toEqual([
      {
        ...{ namespace: "default", queue: "default", paused: false, pausedAt: null, due: 1 },
        counts: { ...none, queued: 1, running: 1, succeeded: 1, failed: 1, cancelled: 1 },
      },
      {
        ...{ namespace: "default", queue: "q", paused: false, pausedAt: null, due: 0 },
        counts: { ...none, queued: 1, succeeded: 1, failed: 1 },
      },
    ]);
    finish();
  });

  it("shows a paused queue that has no job yet", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.pause("empty");
    expect(await kit.perdure.queues()).toMatchObject([{ queue: "empty", paused: true, due: 0 }]);
  });

  it("lists workers with their kinds and the number of running jobs, also after they stopped", async () => {
    await using kit = await openTestEngine();
    const end = gate();
    const slow = task("slow", () => end.passed);
    const worker = await kit.perdure.work([slow], { name: "w1", concurrency: 3, queues: ["q"], labels: { a: "b" } });
    await kit.perdure.submit(slow, undefined, { queue: "q", labels: { a: "b" } });
    await kit.settled();
    expect(worker.running).toBe(1);
    const row = {
      ...{ id: worker.session, name: "w1", kinds: ["slow"], queues: ["q"], labels: { a: "b" }, slots: 3 },
      ...{ namespace: "default", pid: process.pid, startedAt: kit.clock.now() },
    };
    expect(await kit.perdure.workers()).toMatchObject([{ ...row, running: 1, endedAt: null }]);
    end.open();
    await worker.stop();
    expect(await kit.perdure.workers()).toMatchObject([{ ...row, running: 0, endedAt: kit.clock.now() }]);
  });
});

describe("prune", () => {
  it("deletes each state after its retention, and no unfinished job", async () => {
    await using kit = await openTestEngine({ retention: { succeeded: "1m", failed: "2m", cancelled: false } });
    await kit.perdure.work([ok, bad]);
    const done = await kit.perdure.submit(ok, undefined, { tags: ["t"] });
    const failed = await kit.perdure.submit(bad, undefined, { tags: ["t"] });
    const cancelled = await kit.perdure.submit("nobody", undefined, { tags: ["t"] });
    await kit.perdure.submit("nobody", undefined, { tags: ["t"] });
    await cancelled.cancel();
    await kit.settled();
    const left = async () => (await kit.perdure.jobs({ tag: "t" })).jobs.map((job) => job.state).sort();
    expect(await kit.perdure.prune()).toBe(0);
    await kit.advance("59s");
    expect(await left()).toEqual(["cancelled", "failed", "queued", "succeeded"]);
    await kit.advance("1001ms");
    expect(await left()).toEqual(["cancelled", "failed", "queued"]);
    await kit.advance("1h");
    expect(await left()).toEqual(["cancelled", "queued"]);
    await expect(done.get()).rejects.toMatchObject({ code: "job_not_found" });
    expect(await failed.attempts()).toEqual([]);
  });

  it("deletes more than one batch in one call", async () => {
    await using kit = await openTestEngine({ retention: { succeeded: 0 } });
    await kit.perdure.work([ok], { concurrency: 500 });
    await kit.perdure.submitMany(Array.from({ length: 1_100 }, () => ({ task: ok })));
    await kit.advance(0); // the pruner's first round; the next is due in a minute
    kit.clock.moveTo(kit.clock.now() + 1);
    expect(await kit.perdure.prune()).toBe(1_100);
    expect(await kit.perdure.queues()).toEqual([]);
  });

  it("keeps a key for its window after the job is deleted, then frees it", async () => {
    await using kit = await openTestEngine({ retention: { succeeded: "1m" }, keyWindow: "10m" });
    await kit.perdure.work([ok]);
    const submit = (input: number) => kit.perdure.submit(ok, input as never, { key: "k" });
    const first = await submit(1);
    await first.result();
    await kit.advance("2m");
    await kit.perdure.prune();
    const found = await submit(1);
    expect(found).toMatchObject({ id: first.id, created: false });
    await expect(found.result()).rejects.toMatchObject({ code: "job_not_found" });
    await expect(submit(2)).rejects.toMatchObject({ code: "key_conflict" });
    await kit.advance("8m");
    const next = await submit(2);
    expect(next.created).toBe(true);
    expect(next.id).not.toBe(first.id);
  });

  it("keeps a key while its job exists, however long ago its window ended", async () => {
    await using kit = await openTestEngine({ retention: { succeeded: false }, keyWindow: "1s" });
    await kit.perdure.work([ok]);
    const first = await kit.perdure.submit(ok, undefined, { key: "k" });
    await first.result();
    await kit.advance("30d");
    expect(await kit.perdure.submit(ok, undefined, { key: "k" })).toMatchObject({ id: first.id, created: false });
  });
});
