/** Concurrent calls share a commit. An invalid item in one of them is refused by itself, and every call is answered in
 *  its own order. */
import { expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { Bench } from "./bench.ts";
import { broke, done, type JobParts, LEASE, newJob, newSession, placeOf, reportOf, T0 } from "./kit.ts";

/** Items that no store accepts, though the types allow the first of them. */
const POISON: Readonly<Record<string, JobParts>> = {
  "a priority out of range": { priority: 11 },
  "a payload that is not text": { payload: { not: "text" } as never },
  "a tag that is not text": { tags: [Symbol("tag") as never] },
};

export function groupTests(bench: Bench): void {
  for (const [what, poison] of Object.entries(POISON)) {
    test(`${what}, in the middle of a list, is the only one refused`, async () => {
      const jobs = Array.from({ length: 21 }, (_, i) => newJob(i === 10 ? { key: "k", ...poison } : {}));
      const answers = await bench.store.insert(jobs, T0);
      expect(answers.map((answer) => answer.status)).toEqual(jobs.map((_, i) => (i === 10 ? "refused" : "inserted")));
      expect(answers[10]).toMatchObject({ code: "store_refused", message: expect.any(String) });
      expect((await bench.store.find({ order: "oldest" })).jobs.map((job) => job.id)).toEqual(
        jobs.filter((_, i) => i !== 10).map((job) => job.id),
      );
    });
  }

  test("many concurrent calls with some invalid items: all others are stored", async () => {
    const bad = new Set([0, 7, 8, 31, 49]);
    const calls = Array.from({ length: 50 }, (_, i) => {
      const jobs = [newJob(), newJob(bad.has(i) ? { priority: -1 } : {}), newJob({ queue: `q${i}`, retry: 1 + i })];
      return { jobs, answer: bench.store.insert(jobs, T0) };
    });
    const expected: string[] = [];
    for (const [i, { jobs, answer }] of calls.entries()) {
      const answers = await answer;
      expect(answers.map(({ status }) => status)).toEqual([
        "inserted",
        bad.has(i) ? "refused" : "inserted",
        "inserted",
      ]);
      for (const [k, job] of jobs.entries()) {
        if (answers[k]?.status !== "inserted") continue;
        expect(answers[k]).toEqual({ status: "inserted", id: job.id });
        expected.push(job.id);
      }
    }
    const { jobs } = await bench.store.find({ limit: 1_000 });
    expect(jobs.map((job) => job.id).sort()).toEqual(expected.sort());
    // Lanes and policies created beside a refused item are unchanged.
    const last = calls.at(-1)?.jobs[2] as ReturnType<typeof newJob>;
    expect(await bench.row(last.id)).toMatchObject({ queue: "q49", policy: { maxAttempts: 50 } });
  });

  test("all verbs at once, one of them invalid: each gets its own answer", async () => {
    const session = await bench.open({ kinds: ["work", "other"] });
    await bench.insert([{}, {}, {}, {}]);
    const [a, b, c] = (await bench.claim(session, 3)) as [ClaimedJob, ClaimedJob, ClaimedJob];
    const used = newSession();
    await bench.store.sessions.open(used, T0);
    const results = await Promise.allSettled([
      bench.store.insert([newJob({ priority: 99 })], T0),
      bench.report(a, done()),
      bench.store.sessions.open(used, T0),
      bench.report(b, broke()),
      bench.amend(c.id, { kind: "cancel" }),
      bench.renew(session, [placeOf(c)], T0 + 1),
      bench.store.insert([newJob({ kind: "other", runAt: T0 + 5 })], T0),
      bench.claim(session, 5),
      bench.beat(T0 + 1),
      bench.store.queues.setPaused("default", "mail", true, T0),
    ]);
    expect(results.map((result) => result.status)).toEqual(results.map((_, i) => (i === 2 ? "rejected" : "fulfilled")));
    expect(results[2]).toMatchObject({ reason: { code: "store_refused" } });
    const value = (i: number) => (results[i] as PromiseFulfilledResult<unknown>).value;
    expect(value(0)).toMatchObject([{ status: "refused" }]);
    expect(value(1)).toMatchObject({ status: "accepted", state: "succeeded" });
    expect(value(3)).toMatchObject({ status: "accepted", state: "failed" });
    expect(value(4)).toMatchObject({ status: "applied" });
    expect(value(5)).toMatchObject({ alive: true, leaseMs: LEASE, lost: [] });
    expect(value(6)).toMatchObject([{ status: "inserted" }]);
    expect(value(7)).toHaveLength(1);
  });

  test("a call sees what the calls before it stored, once they were answered", async () => {
    const id = await bench.submit();
    expect((await bench.store.jobs([id]))[0]?.state).toBe("queued");
    const job = await bench.take(await bench.open());
    expect((await bench.store.jobs([id]))[0]?.state).toBe("running");
    await bench.report(job);
    expect((await bench.store.jobs([id]))[0]?.state).toBe("succeeded");
  });

  test("thousands of calls at once are all answered", async () => {
    const count = IS_FULL ? 3_000 : 1_200;
    const ids = await Promise.all(Array.from({ length: count }, () => bench.submit()));
    expect(new Set(ids).size).toBe(count);
    const session = await bench.open({ slots: count });
    const claims = await Promise.all(Array.from({ length: 40 }, () => bench.claim(session, 100)));
    const jobs = claims.flat();
    expect(new Set(jobs.map((job) => job.id))).toEqual(new Set(ids));
    const answers = await Promise.all(jobs.map((job) => bench.settleOne(reportOf(job), T0 + 1)));
    expect(answers.filter((answer) => answer.status === "accepted")).toHaveLength(count);
    await bench.store.prune({
      ...{ now: T0 + 2, endedBefore: { succeeded: T0 + 2 }, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 5_000 },
    });
  });

  test("a closed store accepts nothing, and closing it again does nothing", async () => {
    const store = await bench.another();
    const last = store.insert([newJob()], T0);
    const closing = store.close();
    expect(await last).toMatchObject([{ status: "inserted" }]);
    await closing;
    await store.close();
    await expect(store.insert([newJob()], T0)).rejects.toMatchObject({ code: "closed" });
    await expect(store.find({})).rejects.toMatchObject({ code: "closed" });
    const beat = { time: () => ({ now: T0 }), maxGapMs: 1, holdMs: 1, clockJumpMs: 0, engine: "e" };
    await expect(store.beat(beat)).rejects.toMatchObject({ code: "closed" });
  });
}
