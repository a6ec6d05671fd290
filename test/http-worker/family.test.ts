/** Children, budgets and resources with a worker that has nothing but the wire to its server. */
import { describe, expect, it } from "vitest";
import { exec } from "../../src/core/input/builtin.ts";
import { resolvePolicy } from "../../src/core/policy/resolve-policy.ts";
import { task } from "../../src/core/task/task.ts";
import { until } from "../exec/kit.ts";
import { aborted, gate } from "../kit.ts";
import { IS_FULL } from "../tier.ts";
import { openWireBench } from "./kit.ts";

describe("children of a handler", () => {
  it("are submitted, waited for without a slot, and found again by the next run", async () => {
    const bench = await openWireBench();
    const created: boolean[][] = [];
    const double = task("double", (n: number) => 2 * n);
    const sum = task("sum", async (numbers: number[], { submit, waitFor, children }) => {
      const made = [];
      for (const n of numbers) made.push(await submit(double, n));
      created.push(made.map((each) => each.created));
      const ends = await waitFor(made);
      return { sum: ends.reduce((all, { result = 0 }) => all + result, 0), keys: (await children()).map((c) => c.key) };
    });
    await bench.work([double, sum], { concurrency: 1 });
    const job = await bench.ended(await bench.submit("sum", [1, 2, 3]));
    expect(job).toMatchObject({ state: "succeeded", attempt: 2, result: { sum: 12, keys: ["#1", "#2", "#3"] } });
    expect(created).toEqual([
      [true, true, true],
      [false, false, false],
    ]);
  });

  it.runIf(IS_FULL)("are neither lost nor doubled when replies are lost all the time", async () => {
    const bench = await openWireBench();
    let runs = 0;
    const child = task("child", () => {
      runs += 1;
    });
    const many = task("many", async (_: unknown, ctx) => {
      const made = [];
      for (let i = 0; i < 40; i++) made.push(await ctx.submit(child));
      return (await ctx.waitFor(made)).length;
    });
    await bench.work([child, many], { concurrency: 10 });
    bench.wire.loseEvery(3);
    expect(await bench.ended(await bench.submit("many"))).toMatchObject({
      state: "succeeded",
      result: 40,
      failures: 0,
    });
    expect(runs).toBe(40);
    expect(bench.wire.lost).toBeGreaterThan(5);
  });

  it("are all returned, however many megabytes they have", { timeout: 60_000 }, async () => {
    const bench = await openWireBench();
    const heavy = "x".repeat(1_000_000);
    const parent = task("parent", async (_: unknown, { children }) => {
      const all = await children();
      return { count: all.length, whole: all.every(({ payload }) => payload === heavy), keys: all.map((c) => c.key) };
    });
    const id = await bench.submit("parent");
    const { engine } = bench.server;
    const policy = resolvePolicy(1);
    const keys = Array.from({ length: IS_FULL ? 80 : 20 }, (_, i) => `k${i}`);
    for (const key of keys) {
      const item = { kind: "nobody", payload: JSON.stringify(heavy), policy, key, parent: { id, attempt: null } };
      expect(await engine.submit([item])).toMatchObject([{ status: "ok" }]);
    }
    await bench.work([parent]);
    expect(await bench.ended(id)).toMatchObject({
      state: "succeeded",
      result: { count: keys.length, whole: true, keys },
    });
  });

  it("are refused with the server's words", async () => {
    const bench = await openWireBench();
    const parent = task("parent", async (_: unknown, { submit, waitFor }) => {
      const codes: unknown[] = [];
      const note = (error: { code?: string }) => void codes.push(error.code);
      await submit("k", 1, { key: "a" });
      await submit("k", 2, { key: "a" }).catch(note);
      await submit("k", 1, { retry: { maxAttempts: -1 } }).catch(note);
      await waitFor([{ id: "job_00000000000000000000000000", created: false }]).catch(note);
      return codes;
    });
    await bench.work([parent]);
    const { result } = await bench.ended(await bench.submit("parent"));
    expect(result).toEqual(["key_conflict", "invalid_config", "job_not_found"]);
  });
});

describe("a command", () => {
  it("has the address of its server and a job token, and may wait for children that it submits with them", async () => {
    const bench = await openWireBench();
    await bench.work([exec], { runtimes: [] });
    const script = `
      child=$(node -e '
        const { PERDURE_URL: url, PERDURE_TOKEN: token, PERDURE_JOB_ID: parent, PERDURE_NAMESPACE: ns } = process.env;
        const body = JSON.stringify({ kind: "exec", input: { argv: ["true"] }, key: "one", parent });
        const headers = { authorization: "Bearer " + token, "content-type": "application/json", "perdure-namespace": ns };
        fetch(url + "/v1/jobs", { method: "POST", headers, body })
          .then((reply) => reply.json())
          .then((answer) => console.log(answer.id ?? JSON.stringify(answer)));
      ')
      echo "$child"
      [ "$PERDURE_ATTEMPT" = 1 ] && echo "{\\"status\\":\\"waiting\\",\\"children\\":[\\"$child\\"]}" > "$PERDURE_RESULT_FILE"
      exit 0`;
    const id = await bench.submit("exec", { command: script, shell: true });
    expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 2, failures: 0 });
    const { jobs } = await bench.get(`/v1/jobs?parent=${id}`);
    expect(jobs).toMatchObject([{ parentId: id, state: "succeeded", kind: "exec" }]);
  });

  it("cannot get another server or token from its job", async () => {
    const bench = await openWireBench();
    await bench.work([exec]);
    const env = { PERDURE_TOKEN: "mine" };
    const refused = bench.submit("exec", { argv: ["env"], env });
    await expect(refused).rejects.toThrow("PERDURE_TOKEN");
  });
});

describe("a budget", () => {
  it("that is spent while the job runs stops it", async () => {
    const bench = await openWireBench();
    const reasons: string[] = [];
    const costly = task("costly", async (_: unknown, { usage, signal }) => {
      usage({ tokensIn: 90, tokensOut: 20 });
      const reason = await aborted(signal);
      reasons.push(reason.message);
      throw reason;
    });
    await bench.work([costly], { heartbeat: "100ms" });
    const id = await bench.submit("costly", null, { retry: { maxAttempts: 5, budget: { tokens: 100 } } });
    expect(await bench.ended(id)).toMatchObject({ state: "failed", reason: "budget", attempt: 1 });
    expect(reasons).toEqual(["the job has spent its budget of tokens or money"]);
  });
});

describe("resources", () => {
  it("are never assigned twice, and reused at once when released", async () => {
    const bench = await openWireBench();
    let [used, most] = [0, 0];
    const heavy = task("heavy", async (cpu: number) => {
      used += cpu;
      most = Math.max(most, used);
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      used -= cpu;
    });
    await bench.work([heavy], { resources: { cpu: 2, memory: "1g" }, concurrency: 10 });
    const cpus = Array.from({ length: 24 }, (_, i) => [0.5, 1, 2][i % 3] as number);
    const ids: string[] = [];
    for (const cpu of cpus) ids.push(await bench.submit("heavy", cpu, { resources: { cpu, memory: "64m" } }));
    for (const id of ids) expect(await bench.ended(id)).toMatchObject({ state: "succeeded", attempt: 1 });
    expect(most).toBe(2);
  });

  it("that are not there keep a job waiting, and not the others", async () => {
    const bench = await openWireBench();
    const [started, end] = [gate(), gate()];
    const hold = task("hold", () => {
      started.open();
      return end.passed;
    });
    const quick = task("quick", () => "done");
    await bench.work([hold, quick], { resources: { cpu: 1, memory: 0 } });
    await bench.submit("hold", null, { resources: { cpu: 0.6 } });
    await started.passed;
    const next = await bench.submit("quick", null, { resources: { cpu: 0.5 } });
    const never = await bench.submit("quick", null, { resources: { memory: 1 } });
    expect(await bench.ended(await bench.submit("quick"))).toMatchObject({ state: "succeeded" });
    expect(await bench.get(`/v1/jobs/${next}`)).toMatchObject({ state: "queued" });
    end.open();
    expect(await bench.ended(next)).toMatchObject({ state: "succeeded", result: "done" });
    expect(await bench.get(`/v1/jobs/${never}`)).toMatchObject({ state: "queued" });
    const { workers } = await bench.get("/v1/workers");
    expect(workers[0].labels).toMatchObject({ "resource/cpu": "1000" });
    await until("the worker is idle", async () => (await bench.get("/v1/workers")).workers[0].running === 0);
  });
});
