/** All processes on a PostgreSQL server use its clock, whatever their own clock shows. */
import { expect, it } from "vitest";
import { ask } from "../../test/postgres/client.ts";
import { newSchema, postgresUrl } from "../../test/postgres/kit.ts";
import { Perdure, task } from "../index.ts";
import type { Clock } from "../lib/clock.ts";
import { systemClock } from "../lib/system-clock.ts";

const DAY = 86_400_000;
const skewed = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() + ms });
const serverTime = async () => {
  const [row] = await ask<{ ms: string }>(postgresUrl(), "select extract(epoch from clock_timestamp()) * 1000 as ms");
  return Number(row?.ms);
};

it("a host whose clock is a day off submits, runs and waits like the others", async () => {
  const { url } = newSchema("clock");
  const late = task("late", { expireIn: "1h" }, () => "done");
  await using fast = await Perdure.open(url, { clock: skewed(DAY), random: Math.random });
  await using slow = await Perdure.open(url, { clock: skewed(-DAY), random: Math.random });
  const before = await serverTime();
  const job = await fast.submit(late, undefined, { delay: 50 });
  await using _worker = await slow.work([late]);
  expect(await job.result()).toBe("done");
  const after = await serverTime();
  const { submittedAt, startedAt, finishedAt } = await job.get();
  const times = [submittedAt, startedAt, finishedAt].map(Number);
  // Uncertainty of half a round trip, on a machine that may be busy.
  for (const at of times) {
    expect(at).toBeGreaterThan(before - 5_000);
    expect(at).toBeLessThan(after + 5_000);
  }
  expect(times).toEqual(times.toSorted((a, b) => a - b));
});
