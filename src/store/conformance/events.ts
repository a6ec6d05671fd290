/** The event feed: all events in the order of their numbers, which are never reused. */
import { expect, test } from "vitest";
import type { PerdureEvent } from "../../core/job/event.ts";
import type { EventQuery } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, DAY, done, reportOf, SECOND, T0, TWICE } from "./kit.ts";

export function eventTests(bench: Bench): void {
  const all = async () => (await bench.store.events.page({ after: 0, limit: 10_000 })).events;
  const pruneAll = (now: number) => {
    const endedBefore = { succeeded: now, failed: now, cancelled: now };
    return bench.store.prune({ now, endedBefore, keyWindowMs: DAY, sessionsEndedBefore: now, limit: 1_000 });
  };

  test("are in the order of the changes they describe", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    await bench.report(job, broke());
    await bench.amend(job.id, { kind: "reschedule", runAt: T0 + 5 });
    await bench.report(await bench.take(session, T0 + 5), done(), T0 + 6);
    const events = await all();
    expect(events.map((event) => [event.n, event.name])).toEqual([
      [1, "job.submitted"],
      [0, "worker.started"],
      [2, "attempt.started"],
      [3, "attempt.failed"],
      [4, "job.rescheduled"],
      [5, "attempt.started"],
      [6, "attempt.succeeded"],
    ]);
    expect(await bench.store.events.lastSeq()).toBe(events.at(-1)?.seq);
  });

  test("are read from any position, a page at a time", async () => {
    await bench.insert(Array.from({ length: 25 }, () => ({})));
    const events = await all();
    const read: PerdureEvent[] = [];
    for (;;) {
      const page = (await bench.store.events.page({ after: read.at(-1)?.seq ?? 0, limit: 7 })).events;
      if (page.length === 0) break;
      read.push(...page);
    }
    expect(read).toEqual(events);
    expect((await bench.store.events.page({ after: await bench.store.events.lastSeq(), limit: 7 })).events).toEqual([]);
  });

  test("of one job are its own, from any position", async () => {
    const { job } = await bench.running();
    await bench.submit();
    await bench.report(job);
    const own = (await bench.store.events.page({ after: 0, limit: 9, jobId: job.id })).events;
    expect(own.map((event) => event.n)).toEqual([1, 2, 3]);
    const seq = own[0]?.seq as number;
    const rest = (await bench.store.events.page({ after: seq, limit: 1, jobId: job.id })).events;
    expect(rest).toEqual([own[1]]);
  });

  test("are read newest first too, a page at a time, between any two positions", async () => {
    const { job, session } = await bench.running({ namespace: "mine", retry: TWICE });
    await bench.insert(Array.from({ length: 9 }, (_, i) => ({ namespace: i % 2 === 0 ? "mine" : "other" })));
    await bench.report(job, broke());
    await bench.endSession(session, T0 + 1);
    for (const which of [{}, { jobId: job.id }, { namespace: "mine" }, { jobId: job.id, namespace: "mine" }]) {
      const { events } = await bench.store.events.page({ after: 0, limit: 99, ...which });
      expect(events.length).toBeGreaterThan(2);
      const [after, before] = [events[0]?.seq as number, events.at(-1)?.seq as number];
      for (const limit of [1, 2, 99]) {
        for (const chars of [1, 1_000_000]) {
          const size = { limit, chars };
          expect(await newest({ ...which, after: 0, ...size })).toEqual(events.toReversed());
          expect(await newest({ ...which, after, before, ...size })).toEqual(events.slice(1, -1).toReversed());
        }
      }
      const between = await bench.store.events.page({ ...which, after, before, limit: 99 });
      expect(between.events).toEqual(events.slice(1, -1));
    }
    const none = { after: 0, limit: 9, order: "newest", jobId: job.id, namespace: "other" } as const;
    expect(await bench.store.events.page(none)).toMatchObject({ events: [], isEnd: true });
  });

  /** All pages of it, newest first. */
  async function newest(query: EventQuery): Promise<PerdureEvent[]> {
    const read: PerdureEvent[] = [];
    for (let { before } = query; ; ) {
      const page = await bench.store.events.page({
        ...query,
        order: "newest",
        ...(before === undefined ? {} : { before }),
      });
      expect(page.events.length).toBeLessThanOrEqual(query.limit);
      read.push(...page.events);
      if (page.isEnd) return read;
      expect(page.upTo).toBeLessThan(before ?? Number.POSITIVE_INFINITY);
      before = page.upTo;
    }
  }

  test("of concurrent calls are complete and in order for each job", async () => {
    const session = await bench.open({ slots: 60 });
    await bench.insert(Array.from({ length: 60 }, () => ({ retry: TWICE })));
    const jobs = await bench.claim(session, 60);
    const calls = jobs.map((job, i) => {
      if (i % 3 === 0) return bench.amend(job.id, { kind: "cancel" }, T0 + 1);
      return bench.settle([reportOf(job, i % 3 === 1 ? done() : broke())], T0 + 1);
    });
    await Promise.all(calls);
    const perJob = new Map<string, number[]>();
    for (const { jobId, n } of await all()) {
      if (jobId !== null) perJob.set(jobId, [...(perJob.get(jobId) ?? []), n]);
    }
    expect([...perJob.values()]).toEqual(jobs.map(() => [1, 2, 3]));
  });

  test("are deleted with their job, and their numbers are never reused", async () => {
    const { job } = await bench.running();
    await bench.report(job, done(), T0 + 1);
    const last = await bench.store.events.lastSeq();
    await pruneAll(T0 + DAY);
    expect((await all()).filter((event) => event.jobId === job.id)).toEqual([]);
    await bench.submit({ at: T0 + DAY });
    const fresh = (await all()).at(-1) as PerdureEvent;
    expect(fresh.name).toBe("job.submitted");
    expect(fresh.seq).toBeGreaterThan(last);
    expect((await bench.store.events.page({ after: last, limit: 9 })).events).toEqual([fresh]);
  });

  test("a reader that waits at the end misses no event after a prune of everything", async () => {
    const id = await bench.submit();
    await bench.amend(id, { kind: "cancel" }, T0 + 1);
    const cursor = await bench.store.events.lastSeq();
    await pruneAll(T0 + DAY);
    expect(await all()).toEqual([]);
    const next = await bench.submit({ at: T0 + DAY });
    const seen = (await bench.store.events.page({ after: cursor, limit: 9 })).events;
    expect(seen.map((event) => event.jobId)).toEqual([next]);
  });

  test("of the engine are pruned by age", async () => {
    await bench.endSession(await bench.open({}, T0), T0 + 1);
    await bench.open({}, T0 + 10 * SECOND);
    await pruneAll(T0 + 5 * SECOND);
    expect((await all()).map((event) => event.at)).toEqual([T0 + 10 * SECOND]);
  });
}
