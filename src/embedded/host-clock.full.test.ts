/** Hosts whose clock is wrong when they open, ahead of the PostgreSQL server's or behind it: they reap no
 *  live session and no job too early, their own sessions are not reaped, and delayed jobs start by the server's clock. */
import { describe, expect, it, onTestFinished } from "vitest";
import { all, gate } from "../../test/kit.ts";
import { ask, until } from "../../test/postgres/client.ts";
import { newSchema, postgresUrl } from "../../test/postgres/kit.ts";
import { Perdure, task } from "../index.ts";
import { systemClock } from "../lib/system-clock.ts";
import type { Store } from "../store/store.ts";

const HOUR = 3_600_000;
/** Longer than a lease, an expiry, and the retention of what has succeeded. */
const FAR = 100 * 24 * HOUR;
const LEASE_MS = 3_000;
/** Reaper runs that take longer than a lease, at six runs per lease. */
const LOOKS = 8;
/** Uncertainty of half a round trip, on a machine that may be busy. */
const DOUBT_MS = 1_000;

const serverTime = async () => {
  const [row] = await ask<{ ms: string }>(postgresUrl(), "select extract(epoch from clock_timestamp()) * 1000 as ms");
  return Number(row?.ms);
};

/** A process on a host with this clock skew, and how often its reaper has run. */
async function openHost(url: string, skewMs: number) {
  const clock = { ...systemClock, now: () => systemClock.now() + skewMs };
  const host = { looks: 0 };
  const wrapStore = (store: Store): Store => ({
    ...store,
    async expired(query) {
      const found = await store.expired(query);
      host.looks += 1;
      return found;
    },
  });
  const perdure = await Perdure.open({ url, lease: LEASE_MS }, { clock, random: Math.random, wrapStore });
  onTestFinished(() => perdure.close({ grace: 0 }));
  return Object.assign(host, { perdure });
}

describe.each([
  ["ahead of", FAR],
  ["behind", -FAR],
])("a host whose clock is far %s the server's", (_, skewMs) => {
  it("reaps no live session and no job too early, and its own session is not reaped", async () => {
    const { url } = newSchema("host_clock");
    const right = await openHost(url, 0);
    const wrong = await openHost(url, skewMs);
    const released = gate();
    onTestFinished(() => released.open());
    const quick = task("quick", () => "done");
    const aborts: string[] = [];
    const hold = task("hold", async (host: string, { signal, attempt }) => {
      signal.addEventListener("abort", () => aborts.push(host));
      await released.passed;
      return attempt;
    });
    const workers = [
      await right.perdure.work([hold, quick], { concurrency: 1, queues: ["right"] }),
      await wrong.perdure.work([hold, quick], { concurrency: 1, queues: ["wrong"] }),
    ];
    const ended = await wrong.perdure.submit(quick, undefined, { queue: "right" });
    expect(await ended.result()).toBe("done");
    // Each submits the jobs that the other runs.
    const held = [
      await right.perdure.submit(hold, "wrong", { queue: "wrong" }),
      await wrong.perdure.submit(hold, "right", { queue: "right" }),
    ];
    await until("both workers run a job", async () => workers.every(({ running }) => running === 1));
    const deadline = new Date((await serverTime()) + HOUR);
    const waiting = [right, wrong].flatMap(({ perdure }) => [
      perdure.submit("nobody's", undefined, { expireIn: "1h" }),
      perdure.submit("nobody's", undefined, { deadline }),
    ]);

    const before = [right.looks, wrong.looks] as const;
    await Promise.all(waiting);
    await until("each reaper has run for longer than a lease", async () => {
      return right.looks >= before[0] + LOOKS && wrong.looks >= before[1] + LOOKS;
    });
    for (const { perdure } of [right, wrong]) expect(await perdure.prune(), "nothing has been over for days").toBe(0);
    for (const job of await Promise.all(waiting)) expect(await job.get()).toMatchObject({ state: "queued" });
    for (const job of held) expect(await job.get()).toMatchObject({ state: "running", attempt: 1, losses: 0 });
    released.open();
    for (const job of held) expect(await job.result()).toBe(1);
    expect(aborts, "no handler was aborted").toEqual([]);

    const events = await all(right.perdure.events());
    const sad = ["attempt.lost", "worker.lost", "job.queue_timeout"];
    expect(events.filter(({ name }) => sad.includes(name))).toEqual([]);
    // A busy machine may delay them; the clock of another host may not.
    const gaps = events.flatMap(({ name, data }) =>
      name === "engine.reaping_held" ? [data as { gapMs: number }] : [],
    );
    expect(gaps.filter(({ gapMs }) => Math.abs(gapMs) > HOUR)).toEqual([]);
  });

  it("neither starts a delayed job early nor makes others start one early", async () => {
    const { url } = newSchema("host_clock");
    const right = await openHost(url, 0);
    const wrong = await openHost(url, skewMs);
    const late = task("late", serverTime);
    await right.perdure.work([late], { queues: ["right"] });
    await wrong.perdure.work([late], { queues: ["wrong"] });
    const ways = [
      [right, "wrong"],
      [wrong, "right"],
      [wrong, "wrong"],
    ] as const;
    const runs = ways.map(async ([{ perdure }, queue]) => {
      const later = await perdure.submit(late, undefined, { queue, delay: "1h" });
      const submittedAt = await serverTime();
      const soon = await perdure.submit(late, undefined, { queue, delay: "2s" });
      const startedAt = await soon.result();
      expect(startedAt - submittedAt).toBeGreaterThan(2_000 - DOUBT_MS);
      const { runAt, startedAt: noted } = await soon.get();
      expect(Number(noted)).toBeGreaterThanOrEqual(Number(runAt) - DOUBT_MS);
      expect(Math.abs(Number(noted) - startedAt), "what is noted is the server's time").toBeLessThan(5_000);
      expect(await later.get()).toMatchObject({ state: "queued", attempt: 0 });
    });
    await Promise.all(runs);
  });
});
