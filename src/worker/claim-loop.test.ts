import { describe, expect, it, onTestFinished } from "vitest";
import { type Gate, gate } from "../../test/kit.ts";
import { task } from "../core/task/task.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { startWorker, TestLink, type TestWorkerOptions } from "./testing-link.ts";

const settled = async () => {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
};

/** A worker whose jobs run until the test ends them, by their ids. */
async function openBench(options: TestWorkerOptions) {
  const link = new TestLink();
  const ends = new Map<string, Gate<void>>();
  const hold = task("hold", (_: unknown, { jobId }) => {
    const end = gate();
    ends.set(jobId, end);
    return end.passed;
  });
  return {
    ...{ link, ends },
    async start() {
      const worker = await startWorker(link, new VirtualClock(), [hold], options);
      onTestFinished(async () => {
        for (const end of ends.values()) end.open();
        await worker.stop(0);
      });
      await settled();
      return worker;
    },
    running: () => [...ends.keys()],
    async end(jobId: string) {
      ends.get(jobId)?.open();
      ends.delete(jobId);
      await settled();
    },
  };
}

describe("claims", () => {
  it("that wait are never given up while the worker works, whatever its jobs took of cpu and memory", async () => {
    const bench = await openBench({ slots: 3 });
    const first = bench.link.give("hold", { needs: { cpu: 2_000, memory: 0 } });
    await bench.start();
    expect(bench.link.claims.map(({ limit }) => limit)).toEqual([3, 2]);
    await bench.end(first);
    expect(bench.link.claims).toHaveLength(2);
    expect(bench.link.claims[1]?.signal.aborted).toBe(false);
    const second = bench.link.give("hold");
    await settled();
    expect(bench.running()).toEqual([second]);
    expect(bench.link.claims.map(({ limit }) => limit)).toEqual([3, 2, 2]);
  });

  it("go beside each other only while there is plenty, and none for more than the slots that are free", async () => {
    const bench = await openBench({ slots: 100 });
    bench.link.claimsAtOnce = 4;
    for (let i = 0; i < 240; i++) bench.link.give("hold");
    await bench.start();
    expect(bench.link.claims[0]?.waitMs).toBe(30_000);
    expect(bench.link.claims.some(({ waitMs }) => waitMs === 0)).toBe(true);
    expect(bench.running()).toHaveLength(100);
  });

  it("that wait do not hold up a stop", async () => {
    const bench = await openBench({});
    const worker = await bench.start();
    expect(bench.link.claims).toHaveLength(1);
    await worker.stop(0);
    expect(bench.link.claims[0]?.signal.aborted).toBe(true);
    expect(bench.link.claims).toHaveLength(1);
  });
});
