/** Acknowledged data exists after the store was closed and reopened, and at once for another connection. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, decideAt, done, newJob, placeOf, reportOf, SECOND, T0, TWICE } from "./kit.ts";

const IN_MEMORY = "the data of this store ends with it";

export function reopenTests(bench: Bench): void {
  test("keeps jobs, attempts, events, sessions, pauses and keys", async ({ skip }) => {
    if (!bench.canReopen) skip(IN_MEMORY);
    const { job } = await bench.running({ retry: TWICE, key: "k", tags: ["t"] });
    await bench.report(job, broke(), T0 + 1, { log: "log" });
    await bench.store.queues.setPaused("default", "mail", true, T0);
    await bench.beat(T0);
    const read = async () => [
      ...[await bench.row(job.id), await bench.store.history(job.id), await bench.store.attempts(job.id)],
      ...[
        await bench.store.sessions.list(),
        await bench.store.queues.counts(null, T0),
        await bench.store.events.lastSeq(),
      ],
      ...[(await bench.store.events.page({ after: 0, limit: 99 })).events, await bench.store.find({ tag: "t" })],
    ];
    const before = await read();
    await bench.reopen();
    expect(await read()).toEqual(before);
    expect((await bench.insert([{ key: "k" }]))[0]).toMatchObject({ status: "exists", id: job.id });
    expect(await bench.beat(T0 + 10 * SECOND)).toMatchObject({ gapMs: 10 * SECOND });
  });

  test("keeps tokens, claims and cursors valid", async ({ skip }) => {
    if (!bench.canReopen) skip(IN_MEMORY);
    await bench.insert([{}, {}, {}]);
    const session = await bench.open();
    const { jobs } = await bench.claimAnswer(session, 2, T0, "claim-1");
    const { next } = await bench.store.find({ limit: 1 });
    await bench.reopen();
    expect((await bench.claimAnswer(session, 2, T0 + 1, "claim-1")).jobs).toEqual(jobs);
    expect((await bench.store.find({ limit: 5, cursor: next as string })).jobs).toHaveLength(2);
    const [job] = jobs as [(typeof jobs)[0]];
    const report = reportOf(job);
    expect(await bench.settleOne(report, T0 + 1)).toMatchObject({ status: "accepted", repeated: false });
    await bench.reopen();
    expect(await bench.settleOne(report, T0 + 2)).toMatchObject({ status: "accepted", repeated: true });
  });

  test("continues numbering where it was", async ({ skip }) => {
    if (!bench.canReopen) skip(IN_MEMORY);
    await bench.submit();
    const seq = await bench.store.events.lastSeq();
    await bench.reopen();
    await bench.submit({ queue: "other", retry: 4 });
    expect(await bench.store.events.lastSeq()).toBeGreaterThan(seq);
    expect((await bench.store.events.page({ after: seq, limit: 10 })).events).toHaveLength(1);
    expect(await bench.claim(await bench.open(), 9)).toHaveLength(2);
  });

  test("shows acknowledged data to another connection at once, whichever created the lane", async ({ skip }) => {
    if (!bench.hasSecond) skip(IN_MEMORY);
    const other = await bench.second();
    const session = await bench.open();
    for (const [i, queue] of ["a", "b", "c"].entries()) {
      const job = newJob({ queue, retry: 2 + i });
      await (i % 2 === 0 ? other : bench.store).insert([job], T0);
      const store = i % 2 === 0 ? bench.store : other;
      const [answer] = await store.claim([{ session, limit: 9, claimId: null }], T0);
      expect(answer?.jobs).toMatchObject([{ id: job.id, queue, maxAttempts: 2 + i }]);
      const claimed = answer?.jobs[0] as NonNullable<typeof answer>["jobs"][0];
      const [settled] = await other.settle([reportOf(claimed, done())], T0, decideAt(T0));
      expect(settled).toMatchObject({ status: "accepted" });
      expect((await bench.row(job.id)).state).toBe("succeeded");
    }
  });

  test("lets both create a lane, also beside a refused item", async ({ skip }) => {
    if (!bench.hasSecond) skip(IN_MEMORY);
    const other = await bench.second();
    const [refused] = await bench.store.insert([newJob({ queue: "x", priority: 11 })], T0);
    expect(refused).toMatchObject({ status: "refused" });
    await other.insert([newJob({ queue: "y" }), newJob({ queue: "x" })], T0);
    await bench.store.insert([newJob({ queue: "x" }), newJob({ queue: "y" })], T0);
    for (const queue of ["x", "y"]) {
      const session = await bench.open({ queues: [queue] });
      expect((await bench.claim(session, 9)).map((job) => job.queue)).toEqual([queue, queue]);
    }
  });

  test("notifies a watcher that another connection wrote", async ({ skip }) => {
    if (!bench.hasSecond) skip(IN_MEMORY);
    const other = await bench.second();
    let unwatch = () => {};
    const notified = new Promise<void>((resolve) => {
      unwatch = bench.store.watch(resolve);
    });
    await other.insert([newJob()], T0);
    await notified;
    unwatch();
    unwatch();
  });

  test("sees a cancel from another connection", async ({ skip }) => {
    if (!bench.hasSecond) skip(IN_MEMORY);
    const { job, session } = await bench.running();
    const other = await bench.second();
    const first = await bench.amend(job.id, { kind: "cancel" }, T0 + 1);
    expect(first.status).toBe("applied");
    const [answer] = await other.renew([{ session, held: [placeOf(job)], unheardAfterMs: 1 }], T0 + 2);
    expect(answer?.cancel).toEqual([placeOf(job)]);
  });
}
