/** Searches and counts yield to the event loop. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { nextTurn } from "../../lib/clock.ts";
import { systemClock, systemLoop } from "../../lib/system-clock.ts";
import { Bench } from "../conformance/bench.ts";
import { newJob, T0 } from "../conformance/kit.ts";
import { openDatabase } from "./driver.ts";
import { MIGRATIONS } from "./migrations.ts";
import { sqliteStore } from "./sqlite-store.ts";

const AT_ONCE = 100;

async function openSliced() {
  const db = await openDatabase(":memory:");
  for (const step of MIGRATIONS) db.exec(step);
  db.exec("insert into meta (name, value) values ('generation', 'g'), ('secret', 's'), ('signing_secret', 's')");
  return {
    store: sqliteStore(db, {
      clock: systemClock,
      random: Math.random,
      report: () => {},
      shared: false,
      countAtOnce: AT_ONCE,
    }),
  };
}
const bench = new Bench(openSliced);
beforeEach(() => bench.begin());
afterEach(() => bench.end());

/** The answer of a read, and how many turns of the event loop there were meanwhile. */
async function turnsOf<T>(read: Promise<T>): Promise<{ readonly answer: T; readonly turns: number }> {
  let isOver = false;
  const answer = read.finally(() => {
    isOver = true;
  });
  let turns = -1;
  while (!isOver) {
    await nextTurn(systemLoop);
    turns += 1;
  }
  return { answer: await answer, turns };
}

test("a search without matches runs in slices, in both orders", async () => {
  await bench.insert(Array.from({ length: 200 }, () => ({ queue: "q" })));
  const wanted: string[] = [];
  for (let i = 0; i < 5; i++) wanted.push(await bench.submit({ queue: "rare", at: T0 + 100 }));
  await bench.insert(Array.from({ length: 200 }, () => ({ queue: "q" })));
  for (const order of ["newest", "oldest"] as const) {
    const none = await turnsOf(bench.store.find({ submittedAfter: T0 + 1_000, limit: 1, order }));
    expect(none.answer).toEqual({ jobs: [], next: null });
    expect(none.turns).toBeGreaterThanOrEqual(2);
    const found: string[] = [];
    for (let cursor: { cursor?: string } | null = {}; cursor !== null; ) {
      const page = await bench.store.find({ submittedAfter: T0 + 100, limit: 2, order, ...cursor });
      found.push(...page.jobs.map(({ id }) => id));
      cursor = page.next === null ? null : { cursor: page.next };
    }
    expect(found).toEqual(order === "oldest" ? wanted : wanted.toReversed());
  }
  // By the index of its lane.
  const rare = await turnsOf(bench.store.find({ queue: ["rare"], limit: 1 }));
  expect(rare.answer.jobs).toHaveLength(1);
  expect(rare.turns).toBeLessThanOrEqual(1);
});

test("many jobs are counted in slices, and their counts are cached for a while", async () => {
  const count = 6 * AT_ONCE;
  await bench.insert(
    Array.from({ length: count }, (_, i) => ({ queue: i % 3 === 0 ? "a" : "b", runAt: T0 + (i % 2) })),
  );
  const { answer, turns } = await turnsOf(bench.store.queues.counts("default", T0));
  expect(answer.map(({ queue, counts, due }) => [queue, counts.queued, counts.succeeded, due])).toEqual([
    ["a", count / 3, 0, count / 6],
    ["b", (count * 2) / 3, 0, count / 3],
  ]);
  expect(turns).toBeGreaterThanOrEqual(5); // by state, and by lane
  await bench.submit({ queue: "a" });
  const queued = async (now: number) => (await bench.store.queues.counts("default", now))[0]?.counts.queued;
  expect(await queued(T0)).toBe(count / 3);
  expect(await queued(T0 + 10)).toBe(count / 3 + 1);
  // Pausing a queue is visible at once.
  await bench.store.queues.setPaused("default", "a", true, T0 + 10);
  expect((await bench.store.queues.counts("default", T0 + 10))[0]?.paused).toBe(true);
});

test("a search and a count in progress when the store is closed or reopened are finished", async () => {
  const { store } = await openSliced();
  await store.insert(
    Array.from({ length: 4 * AT_ONCE }, () => newJob({ queue: "q" })),
    T0,
  );
  const found = store.find({ submittedAfter: T0 + 1_000, limit: 1 });
  const counted = store.queues.counts("default", T0);
  await nextTurn(systemLoop);
  await store.close();
  expect(await found).toEqual({ jobs: [], next: null });
  expect((await counted)[0]?.counts.queued).toBe(4 * AT_ONCE);
  await expect(store.find({})).rejects.toMatchObject({ code: "closed" });
});
