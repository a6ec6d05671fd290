import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { NonRetryableError } from "../../src/core/decision/failure.ts";
import { task } from "../../src/core/task/task.ts";
import { connectWorker } from "../../src/worker/connect-worker.ts";
import { until } from "../exec/kit.ts";
import { aborted, gate } from "../kit.ts";
import { startServer } from "../server/kit.ts";
import { TEST_CERT, TEST_KEY } from "../server/tls.ts";
import { openWireBench, tempDir } from "./kit.ts";

describe("a worker of a server", () => {
  it("runs jobs, reports their outcomes and its health", async () => {
    const bench = await openWireBench();
    const double = task("double", (n: number) => 2 * n);
    const no = task("no", () => {
      throw new NonRetryableError("never");
    });
    const worker = await bench.work([double, no], { heartbeat: "50ms", name: "w1" });
    const id = await bench.submit("double", 21);
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", result: 42, attempt: 1 });
    expect(await bench.ended(await bench.submit("no"))).toMatchObject({ state: "failed", reason: "rejected" });
    const health = await until("the server has received its health", async () => {
      const { workers } = await bench.get("/v1/workers");
      const shown = workers.find((each: { id: string }) => each.id === worker.session)?.health;
      return shown?.total === 2 && shown.in_hand === 0 ? shown : undefined;
    });
    expect(health).toMatchObject({ total: 2, failed: 1, consecutive_failures: 1, slots: 10 });
  });

  it("loses and doubles nothing when replies are lost all the time", async () => {
    const bench = await openWireBench();
    const runs = new Map<number, number>();
    const count = task("count", (n: number) => {
      runs.set(n, (runs.get(n) ?? 0) + 1);
      return n;
    });
    const jobs = Array.from({ length: 400 }, (_, n) => ({ kind: "count", input: n }));
    const { body } = await bench.server.call("POST", "/v1/jobs/batch", { body: { jobs } });
    const ids: string[] = body.answers.map(
      (answer: { id?: string; job?: { id: string } }) => answer.id ?? answer.job?.id,
    );
    await bench.work([count], { concurrency: 20 });
    bench.wire.loseEvery(3);
    for (const id of ids) expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 1 });
    expect(bench.wire.lost).toBeGreaterThan(5);
    expect(runs.size).toBe(400);
    expect([...runs.values()].every((times) => times === 1)).toBe(true);
  });

  it("receives a cancel at once, not with its next renewal", async () => {
    const bench = await openWireBench();
    const started = gate();
    const reason = gate<string>();
    const wait = task("wait", async (_: unknown, ctx) => {
      started.open();
      const error = await aborted(ctx.signal);
      reason.open(error.message);
      throw error;
    });
    await bench.work([wait], { lease: "10m", heartbeat: "3m" });
    const id = await bench.submit("wait");
    await started.passed;
    await bench.server.call("POST", `/v1/jobs/${id}/cancel`);
    expect(await reason.passed).toBe("the job was cancelled");
    expect(await bench.ended(id)).toMatchObject({ state: "cancelled" });
  });

  it("drained, finishes its attempts, claims no more and ends its session", async () => {
    const bench = await openWireBench();
    const [started, end] = [gate(), gate()];
    const slow = task("slow", async () => {
      started.open();
      await end.passed;
    });
    const worker = await bench.work([slow]);
    const id = await bench.submit("slow");
    await started.passed;
    await bench.server.call("POST", `/v1/workers/${worker.session}/drain`);
    await until("it knows", () => bench.logged.some((line) => line.includes("draining")));
    const second = await bench.submit("slow");
    end.open();
    await worker.drained;
    expect(await bench.get(`/v1/jobs/${id}`)).toMatchObject({ state: "succeeded" });
    expect(await bench.get(`/v1/jobs/${second}`)).toMatchObject({ state: "queued", attempt: 0 });
    const { workers } = await bench.get("/v1/workers");
    const shown = workers.find((each: { id: string }) => each.id === worker.session);
    expect(shown.endedAt).not.toBeNull();
  });

  it("stops its handlers when the server is away for a lease; a report that is still current is accepted", async () => {
    const bench = await openWireBench();
    const started = [gate(), gate()];
    const reasons: string[] = [];
    const end = gate();
    // One heeds its signal and is run again; the other has its own mind, and its work is done in the end.
    const heed = task("heed", async (_: unknown, ctx) => {
      if (ctx.attempt > 1) return "again";
      started[0]?.open();
      const error = await aborted(ctx.signal);
      reasons.push(error.message);
      throw error;
    });
    const stubborn = task("stubborn", async () => {
      started[1]?.open();
      await end.passed;
      return "done";
    });
    const worker = await bench.work([heed, stubborn], { lease: "1s", heartbeat: "100ms" });
    const [a, b] = [await bench.submit("heed"), await bench.submit("stubborn")];
    for (const each of started) await each.passed;
    bench.wire.cut();
    await bench.server.close();
    const awayAt = performance.now();
    await until("its handlers are stopped", () => reasons.length === 1);
    // After a shorter silence of all engines the new one would hold the worker to its lease of a second.
    await until("the outage counts as one", () => performance.now() - awayAt > 3_500);
    expect(reasons[0]).toContain("the engine cannot be reached");
    end.open();
    await bench.restart();
    expect(await bench.ended(b)).toMatchObject({ state: "succeeded", result: "done", attempt: 1, losses: 0 });
    expect(await bench.ended(a)).toMatchObject({ state: "succeeded", result: "again", attempt: 2, losses: 0 });
    expect(worker.running).toBe(0);
  });

  it("stops within its grace while the server is away, and starts only where there is one", async () => {
    const bench = await openWireBench();
    const worker = await bench.work([task("k", () => {})]);
    bench.wire.cut();
    await worker.stop({ grace: 0 });
    const stop = new AbortController();
    const waiting = bench.work([task("k", () => {})], { signal: stop.signal });
    await until("it logs that it waits", () => bench.logged.some((line) => line.includes("cannot be reached")));
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ code: expect.stringMatching(/closed|server_unreachable/) });
    bench.wire.mend();
    const wrong = bench.work([task("k", () => {})], { token: "pdr_wrong" });
    await expect(wrong).rejects.toMatchObject({ code: "unauthorized" });
  });

  it("connects by TLS only to a server whose certificate is trusted by `ca`", async () => {
    const server = await startServer({ tls: { cert: TEST_CERT, key: TEST_KEY } });
    onTestFinished(() => server.close());
    const ca = join(tempDir(), "ca.pem");
    writeFileSync(ca, TEST_CERT);
    const given = { token: server.admin, logger: () => {} };
    const tasks = [task("k", () => {})];
    const worker = await connectWorker(server.url, tasks, { ...given, ca });
    await worker.stop();
    await expect(connectWorker(server.url, tasks, given)).rejects.toMatchObject({ isWrongAddress: true });
    const missing = connectWorker(server.url, tasks, { ...given, ca: `${ca}.missing` });
    await expect(missing).rejects.toMatchObject({ code: "invalid_config", path: "ca" });
  });

  it("releases a job that arrives during the stop", async () => {
    const bench = await openWireBench();
    const runs: number[] = [];
    const k = task("k", (_: unknown, ctx) => void runs.push(ctx.attempt));
    const first = await bench.work([k]);
    const stopped = first.stop();
    const id = await bench.submit("k");
    await stopped;
    await bench.work([k]);
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", losses: 0 });
    expect(runs).toHaveLength(1);
  });
});
