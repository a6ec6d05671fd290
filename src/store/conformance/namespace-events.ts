/** The events of one namespace: none of others, none left out, and none of the others scanned twice. */
import { expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import type { PerdureEvent } from "../../core/job/event.ts";
import type { Bench } from "./bench.ts";
import { reportOf, T0 } from "./kit.ts";

export function namespaceEventTests(bench: Bench): void {
  const page = (namespace: string, after = 0, limit = 500) => bench.store.events.page({ after, limit, namespace });
  const flood = async (count: number) => {
    for (let left = count; left > 0; left -= 2_000) {
      await bench.insert(Array.from({ length: Math.min(left, 2_000) }, () => ({ namespace: "flood" })));
    }
  };

  test("are those of its jobs, and engine events in the namespace", async () => {
    const { job } = await bench.running({ namespace: "mine" });
    const { session } = await bench.running({ namespace: "other" });
    await bench.store.queues.setPaused("mine", "q", true, T0 + 1);
    await bench.store.queues.setPaused("other", "q", true, T0 + 1);
    await bench.store.sessions.drain(session, T0 + 1);
    await bench.report(job);
    const { events, upTo } = await page("mine");
    expect(events.map(({ name }) => name)).toEqual([
      ...["job.submitted", "worker.started", "attempt.started", "queue.paused", "attempt.succeeded"],
    ]);
    expect(events).toEqual((await bench.store.events.page({ after: 0, limit: 99, namespace: "mine" })).events);
    expect(upTo).toBe(await bench.store.events.lastSeq());
    const all = await bench.store.events.page({ after: 0, limit: 99 });
    expect(all.events).toHaveLength(10);
    expect(all.upTo).toBe(upTo);
    expect(await page("nobody")).toEqual({ events: [], upTo, isEnd: true });
  });

  test("of one job are visible only in its own namespace", async () => {
    const id = await bench.submit({ namespace: "mine" });
    const of = async (namespace: string) =>
      (await bench.store.events.page({ after: 0, limit: 9, jobId: id, namespace })).events;
    expect(await of("mine")).toHaveLength(1);
    expect(await of("other")).toEqual([]);
  });

  test("are returned in pages of any size, complete and in order, among those of others", async () => {
    for (let round = 0; round < 15; round++) {
      await bench.insert([{ namespace: "mine" }, { namespace: "other" }, { namespace: "mine" }]);
      await bench.open({ namespace: round % 2 === 0 ? "mine" : "other" });
    }
    const { events: whole } = await page("mine");
    expect(whole).toHaveLength(38);
    for (const limit of [1, 7, 38]) {
      const read: PerdureEvent[] = [];
      for (let after = 0; ; ) {
        const { events, upTo } = await page("mine", after, limit);
        if (events.length === 0) break;
        expect(events.length).toBeLessThanOrEqual(limit);
        expect(upTo).toBeGreaterThanOrEqual(events.at(-1)?.seq as number);
        read.push(...events);
        after = upTo;
      }
      expect(read).toEqual(whole);
    }
  });

  test("are found behind thousands of others in one page, and the reader never scans those again", async () => {
    const first = await bench.submit({ namespace: "mine" });
    await flood(IS_FULL ? 10_000 : 2_500);
    const second = await bench.submit({ namespace: "mine" });
    const { events, upTo } = await page("mine");
    expect(events.map(({ jobId }) => jobId)).toEqual([first, second]);
    await flood(IS_FULL ? 5_000 : 1_500);
    const idle = await page("mine", upTo);
    expect(idle.events).toEqual([]);
    expect(idle.upTo).toBe(await bench.store.events.lastSeq());
    expect(await page("mine", idle.upTo)).toEqual(idle);
    const back = await bench.store.events.page({ after: 0, limit: 500, namespace: "mine", order: "newest" });
    expect(back.events).toEqual(events.toReversed());
    const third = await bench.submit({ namespace: "mine" });
    expect((await page("mine", idle.upTo)).events.map(({ jobId }) => jobId)).toEqual([third]);
    await clear();
  });

  /** The audit after each test reads these job by job. */
  async function clear(): Promise<void> {
    const session = await bench.open({ namespace: "flood", leaseMs: 10_000_000, slots: 1_000 });
    for (;;) {
      const jobs = await bench.claim(session, 1_000);
      if (jobs.length === 0) break;
      await bench.settle(
        jobs.map((job) => reportOf(job)),
        T0,
      );
    }
    const endedBefore = { succeeded: T0 + 1 };
    const query = { now: T0 + 1, endedBefore, keyWindowMs: 1, sessionsEndedBefore: T0, limit: 1_000 };
    while ((await bench.store.prune(query)).more);
  }
}
