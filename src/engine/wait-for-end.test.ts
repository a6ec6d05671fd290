import { describe, expect, it } from "vitest";
import { openBench, openSession } from "../../test/kit.ts";

const NOBODY = "job_01m7gekg9zevv9a6xvvwmt1v8g";

describe("waiting for one of many jobs", () => {
  it("returns jobs that ended in one report together, and leaves no waiting caller behind", async () => {
    const bench = await openBench({ services: false });
    const ids = [await bench.submit("k"), await bench.submit("k"), await bench.submit("k")];
    const wanted = ids.map((id) => ({ id, chapter: 1 }));
    const session = await openSession(bench);
    const { jobs } = await bench.engine.claim(session, { limit: 2 });
    const waiting = bench.engine.waitForAny(wanted, { namespace: "default", timeoutMs: 30_000 });
    await bench.settled();
    await bench.engine.report(
      jobs.map(({ id, attempt, token }) => ({
        ...{ jobId: id, attempt, outcome: { kind: "completed", result: null }, usage: null, log: null },
        from: { kind: "worker", token, reportId: id },
      })),
    );
    expect(await waiting).toEqual({ ended: ids.slice(0, 2), missing: [] });
    expect(bench.clock.nextAt()).toBeNull();
  });

  it("gives up when its time is over or it is aborted", async () => {
    const bench = await openBench({ services: false });
    const wanted = [{ id: await bench.submit("k"), chapter: 1 }];
    const controller = new AbortController();
    const options = { namespace: "default", timeoutMs: 30_000 };
    const first = bench.engine.waitForAny(wanted, options);
    const second = bench.engine.waitForAny(wanted, { ...options, signal: controller.signal });
    await bench.settled();
    controller.abort();
    expect(await second).toEqual({ ended: [], missing: [] });
    await bench.advance(30_000);
    expect(await first).toEqual({ ended: [], missing: [] });
  });

  it("returns at once those in another namespace, those that do not exist, and invalid ids", async () => {
    const bench = await openBench({ services: false });
    const foreign = await bench.submit("k", { namespace: "other" });
    const wanted = [foreign, NOBODY, "x\0", await bench.submit("k")].map((id) => ({ id, chapter: 1 }));
    const { ended, missing } = await bench.engine.waitForAny(wanted, { namespace: "default", timeoutMs: 30_000 });
    expect([ended, new Set(missing)]).toEqual([[], new Set([foreign, NOBODY, "x\0"])]);
  });
});
