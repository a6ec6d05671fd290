/** The time of a child's end is set when it is written: it may lie before the start of an attempt that still found it
 *  running. */
import { Client } from "pg";
import { expect, it, onTestFinished, vi } from "vitest";
import { Perdure, task } from "../../src/index.ts";
import { gate, openBench } from "../kit.ts";
import { newSchema } from "../postgres/kit.ts";

it("an attempt that waits for a child whose end is about to be stored does not fail because of it", async () => {
  const bench = await openBench({ services: false });
  const id = await bench.submit("loop", { delayMs: 1_000 });
  const child = await bench.submit("child", { parent: { id, attempt: null } });
  const request = { namespace: "default", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: 1 };
  const one = await bench.engine.openSession({ ...request, kinds: ["child"] });
  const two = await bench.engine.openSession({ ...request, kinds: ["loop"] });
  const [held] = (await bench.engine.claim(one, { limit: 1 })).jobs;
  await bench.advance(999);
  const sent = gate();
  const mayArrive = gate();
  const settle = bench.store.settle.bind(bench.store);
  vi.spyOn(bench.store, "settle").mockImplementationOnce(async (...given) => {
    sent.open();
    await mayArrive.passed;
    return settle(...given);
  });
  const report = (jobId: string, token: string, outcome: object) => ({
    ...{ jobId, attempt: 1, from: { kind: "worker", token, reportId: jobId } as const, outcome: outcome as never },
    ...{ usage: null, log: null },
  });
  const ended = bench.engine.report([report(child, held?.token ?? "", { kind: "completed", result: "1" })]);
  await sent.passed;
  bench.clock.moveTo(bench.clock.now() + 1); // one millisecond later the parent starts,
  const [parent] = (await bench.engine.claim(two, { limit: 1 })).jobs;
  const [seen] = await bench.engine.awaitedChildren({ jobId: id, attempt: 1 }, [child]); // finds a running child,
  expect(seen?.state).toBe("running");
  mayArrive.open();
  await ended;
  await bench.engine.report([report(id, parent?.token ?? "", { kind: "waiting", children: [child] })]); // and waits
  await bench.settled();
  expect(await bench.job(id)).toMatchObject({ state: "queued", reason: null });
});

it("nor does one on PostgreSQL, where the end waits for a lock", { timeout: 60_000 }, async () => {
  const { url, schema } = newSchema("late");
  const perdure = await Perdure.open({ url });
  onTestFinished(() => perdure.close({ grace: 0 }));
  const mayEnd = gate();
  const started = gate<string>();
  const mayWait = gate();
  const parentRuns = gate();
  const slow = task("slow", async (_: null, ctx) => {
    started.open(ctx.jobId);
    await mayEnd.passed;
    return 1;
  });
  const retry = { maxAttempts: 2, backoff: { type: "fixed", delay: 100 } } as const;
  const lead = task("lead", { retry }, async (_: null, ctx) => {
    const child = await ctx.submit(slow, null);
    if (ctx.attempt === 1) {
      await mayEnd.passed;
      throw new Error("the first run broke");
    }
    try {
      await ctx.waitFor([child]);
    } catch (error) {
      parentRuns.open();
      await mayWait.passed;
      throw error;
    }
    return "done";
  });
  await perdure.work([lead, slow], { concurrency: 5 });
  const job = await perdure.submit(lead, null);
  const child = await started.passed;
  const plain = new URL(url);
  plain.searchParams.delete("schema");
  const other = new Client({ connectionString: plain.href });
  await other.connect();
  onTestFinished(() => other.end());
  await other.query("begin");
  const row = `select 1 from ${schema}.job j join ${schema}.submission b on b.job = j.no where b.id = $1 for share of j`;
  await other.query(row, [child]);
  mayEnd.open(); // it ends, and its report waits for the lock; meanwhile the parent's second run begins
  await parentRuns.passed;
  await other.query("commit");
  await (await perdure.job(child)).result();
  mayWait.open();
  expect(await job.result()).toBe("done");
});
