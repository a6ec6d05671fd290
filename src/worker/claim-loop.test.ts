import { describe, expect, it, onTestFinished } from "vitest";
import { type Gate, gate } from "../../test/kit.ts";
import type { Resources } from "../core/resources.ts";
import { task } from "../core/task.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { startWorker, TestLink, type TestWorkerOptions } from "./testing-link.ts";

const settled = async () => {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
};

const needs = (cpu: number, memory = 0): Resources => ({ cpu: cpu * 1_000, memory });

/** A worker whose jobs run until the test ends them, by their ids. */
async function openBench(options: TestWorkerOptions) {
  const link = new TestLink();
  const ends = new Map<string, Gate<void>>();
  const hold = task("hold", (_: unknown, { jobId }) => {
    const end = gate();
    ends.set(jobId, end);
    return end.passed;
  });
  const clock = new VirtualClock();
  return {
    ...{ link, clock, ends },
    async start() {
      const worker = await startWorker(link, clock, [hold], options);
      onTestFinished(async () => {
        for (const end of ends.values()) end.open();
        await worker.stop(0);
      });
      await settled();
      return worker;
    },
    running: () => [...ends.keys()],
    rooms: () => link.claims.map(({ room }) => room),
    async end(jobId: string) {
      ends.get(jobId)?.open();
      ends.delete(jobId);
      await settled();
    },
  };
}

describe("resources", () => {
  it("are told with the claim: what the worker has, less what its jobs take", async () => {
    const bench = await openBench({ resources: needs(4, 1_000) });
    bench.link.give("hold", { needs: needs(1, 600) });
    bench.link.give("hold");
    bench.link.give("hold", { needs: needs(2.5, 0) });
    await bench.start();
    expect(bench.running()).toHaveLength(3);
    expect(bench.rooms()).toEqual([needs(4, 1_000), needs(0.5, 400)]);
  });

  it("that a job gives back are told at once, although a claim is waiting", async () => {
    const bench = await openBench({ resources: needs(2) });
    const big = bench.link.give("hold", { needs: needs(2) });
    const next = bench.link.give("hold", { needs: needs(2) });
    const small = bench.link.give("hold");
    await bench.start();
    expect(bench.running()).toEqual([big, small]);
    expect(bench.rooms()).toEqual([needs(2), needs(0)]);
    await bench.end(small); // takes nothing, and frees nothing
    expect(bench.rooms()).toHaveLength(2);
    await bench.end(big);
    expect(bench.rooms()).toEqual([needs(2), needs(0), needs(2), needs(0)]);
    expect(bench.link.claims[1]?.signal.aborted).toBe(true);
    expect(bench.running()).toEqual([next]);
  });

  it("of several jobs that end together are told in one claim", async () => {
    const bench = await openBench({ resources: needs(3) });
    const ids = [1, 2, 3].map(() => bench.link.give("hold", { needs: needs(1) }));
    await bench.start();
    for (const id of ids) bench.ends.get(id)?.open();
    await settled();
    expect(bench.rooms()).toEqual([needs(3), needs(0), needs(3)]);
  });

  it("are never promised twice, whatever comes when, and jobs of a claim that was given up are started", async () => {
    const bench = await openBench({ resources: needs(2) });
    bench.link.isLate = true;
    const first = bench.link.give("hold", { needs: needs(1) });
    await bench.start();
    // In the moment in which the waiting claim, which knows of one cpu, is given up, there is a job for it.
    bench.ends.get(first)?.open();
    const second = bench.link.give("hold", { needs: needs(1) });
    const third = bench.link.give("hold", { needs: needs(2) });
    await bench.end(first);
    expect(bench.running()).toEqual([second]);
    expect(bench.rooms().at(-1)).toEqual(needs(1));
    await bench.end(second);
    expect(bench.running()).toEqual([third]);
  });

  it("go with one claim at a time; one beside it gets none", async () => {
    const bench = await openBench({ resources: needs(4), slots: 100 });
    bench.link.claimsAtOnce = 4;
    for (let i = 0; i < 120; i++) bench.link.give("hold", { needs: needs(0.1) });
    for (let i = 0; i < 120; i++) bench.link.give("hold");
    await bench.start();
    expect(bench.rooms()[0]).toEqual(needs(4));
    for (const { room, waitMs } of bench.link.claims) if (waitMs === 0) expect(room).toEqual(needs(0));
    expect(bench.link.claims.some(({ waitMs }) => waitMs === 0)).toBe(true);
    expect(bench.running()).toHaveLength(100);
  });

  it("of a worker that has none let only jobs start that need none", async () => {
    const bench = await openBench({});
    bench.link.give("hold", { needs: needs(0.1) });
    const free = bench.link.give("hold");
    await bench.start();
    expect(bench.running()).toEqual([free]);
  });

  it("are given back by jobs that fail, time out or do not stop when they are asked to", async () => {
    const link = new TestLink();
    const clock = new VirtualClock();
    const fail = task("fail", () => Promise.reject(new Error("no")));
    const hang = task("hang", () => new Promise<void>(() => {}));
    const worker = await startWorker(link, clock, [fail, hang], { resources: needs(1), stopGraceMs: 1_000 });
    onTestFinished(() => worker.stop(0));
    link.give("fail", { needs: needs(1) });
    await settled();
    link.give("hang", { needs: needs(1), timeoutMs: 500 });
    await settled();
    expect(link.claims.at(-1)?.room).toEqual(needs(0));
    for (let i = 0; i < 4; i++) {
      clock.moveTo(clock.now() + 500);
      await settled();
    }
    expect(link.reports.map(({ outcome }) => outcome.kind)).toEqual(["failed", "timeout"]);
    expect(link.claims.at(-1)?.room).toEqual(needs(1));
  });

  it("waited for do not hold up a stop", async () => {
    const bench = await openBench({ resources: needs(1) });
    const worker = await bench.start();
    expect(bench.link.claims).toHaveLength(1);
    await worker.stop(0);
    expect(bench.link.claims[0]?.signal.aborted).toBe(true);
    expect(bench.link.claims).toHaveLength(1);
  });
});
