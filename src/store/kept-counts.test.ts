import { expect, it } from "vitest";
import { keptCounts } from "./kept-counts.ts";

/** Counts of so many entries, and how often they were made. */
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

it("keeps counts of many jobs for a time that grows with them, and makes new ones once for all who ask", async () => {
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
