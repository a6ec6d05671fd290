import { expect, it } from "vitest";
import { type Gate, gate } from "../../test/kit.ts";
import { keptCounts } from "./queue-counts.ts";
import type { QueueCounts } from "./store.ts";

/** Counts with this many entries, and how often they were computed. */
function setUp(entries: number) {
  let made = 0;
  const counts = keptCounts(async () => {
    made += 1;
    return { queues: [], entries };
  }, 100);
  const madeAfter = async (...times: readonly number[]) => {
    await Promise.all(times.map((now) => counts.of(null, now)));
    return made;
  };
  return { counts, madeAfter };
}

it("caches counts of many jobs for a time that grows with them, and shares a new count", async () => {
  const { counts, madeAfter } = setUp(5_000); // 10 ms
  expect(await madeAfter(0)).toBe(1);
  expect(await madeAfter(9)).toBe(1);
  expect(await madeAfter(10, 10, 10)).toBe(2);
  expect(await madeAfter(1)).toBe(2);
  expect(await madeAfter(0)).toBe(3); // the clock was set back
  counts.forget();
  expect(await madeAfter(0)).toBe(4);
});

it("counts few jobs each time", async () => {
  const { madeAfter } = setUp(100);
  expect(await madeAfter(0)).toBe(1);
  expect(await madeAfter(0)).toBe(2);
});

/** Counts that end when the test lets them. */
function setUpSlow(entries: number) {
  const ends: Gate<void>[] = [];
  let queue = "before";
  const counts = keptCounts(async () => {
    const seen = queue;
    const end = gate();
    ends.push(end);
    await end.passed;
    return { queues: [{ namespace: "n", queue: seen } as QueueCounts], entries };
  }, 100);
  const change = () => {
    queue = "after";
  };
  const ask = async () => (await counts.of("n", 0)).map((found) => found.queue);
  return { counts, ends, change, ask };
}

it("shares the first count among all callers", async () => {
  const { ends, ask } = setUpSlow(5_000);
  const asked = Array.from({ length: 50 }, ask);
  expect(ends).toHaveLength(1);
  ends[0]?.open();
  await Promise.all(asked);
  expect(ends).toHaveLength(1);
});

it("neither caches nor shares a count that started before `forget`", async () => {
  const { counts, ends, change, ask } = setUpSlow(5_000);
  const early = ask();
  change();
  counts.forget();
  const late = ask();
  expect(ends).toHaveLength(2);
  ends[0]?.open();
  expect(await early).toEqual(["before"]);
  const later = ask();
  expect(ends).toHaveLength(2); // it shares the second
  ends[1]?.open();
  expect(await Promise.all([late, later, ask()])).toEqual([["after"], ["after"], ["after"]]);
});

it("counts few jobs again for callers that joined a running count: they may have changed since", async () => {
  const { ends, change, ask } = setUpSlow(100);
  const early = ask();
  change();
  const late = ask();
  ends[0]?.open();
  expect(await early).toEqual(["before"]);
  await expect.poll(() => ends.length).toBe(2);
  ends[1]?.open();
  expect(await late).toEqual(["after"]);
});
