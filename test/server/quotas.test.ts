/** What one token can take for itself: lanes and policies. */
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/lib/system-clock.ts";
import { lanesIn } from "../../src/store/conformance/kit.ts";
import { startServer, type TestServer } from "./kit.ts";
import { openWorker } from "./worker-kit.ts";

const LIMITS = { lanesPerToken: 3, lanesPerNamespace: 100, policiesPerRequest: 2 };
let server: TestServer;
beforeAll(async () => {
  server = await startServer({ limits: LIMITS });
  return () => server.close();
});

const submit = (token: string, body: object, to = server) => to.call("POST", "/v1/jobs", { token, body });
const OVER = {
  status: 429,
  body: { code: "too_many_requests", message: expect.stringContaining("the quota of a token") },
};

describe("S32: lanes", () => {
  it("of runs and of their steps count for the token that starts them", async () => {
    const token = await server.token({ name: "runner", scopes: ["submit"], namespace: "r" });
    const playbook = (queues: readonly string[]) => ({
      source: JSON.stringify({
        ...{ apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "lanes" } },
        workflow: queues.map((queue, i) => ({ step: `s${i}`, type: "task", task: "k", queue })),
      }),
    });
    const start = (queue: string, queues: readonly string[] = []) =>
      server.call("POST", "/v1/runs", { token, body: { playbook: playbook(["a", ...queues]), queue } });
    expect(await start("one", ["b", "c"])).toMatchObject(OVER);
    expect((await start("one")).status).toBe(201);
    expect((await start("one")).status).toBe(201);
    expect((await start("two")).status).toBe(201);
    expect((await start("three")).status).toBe(201);
    expect(await start("four")).toMatchObject(OVER);
    expect((await start("three")).status).toBe(201);
  });

  it("are a share of each token, which its jobs share, and which it has again after a prune and a restart", async () => {
    const greedy = await server.token({ name: "greedy", scopes: ["submit"], namespace: "n" });
    const hands = await server.token({ name: "hands", scopes: ["work"], namespace: "n" });
    const modest = await server.token({ name: "modest", scopes: ["submit"], namespace: "n" });
    const root = await submit(greedy, { kind: "exec", input: { argv: ["true"] }, queue: "root" });
    expect(root.status).toBe(201);
    const worker = await openWorker(server, { kinds: ["exec"] }, { token: hands });
    const job = await worker.take();
    // Whatever token stores a child, it counts for whoever submitted the root.
    const own = job.jobToken as string;
    expect((await submit(own, { kind: "k", queue: "child-1" })).status).toBe(201);
    const headers = { "perdure-lease": job.token };
    const child = await worker.call("POST", `/jobs/${job.id}/children`, {
      headers,
      body: { kind: "k", queue: "child-2" },
    });
    expect(child.status).toBe(201);
    expect(await submit(own, { kind: "k", queue: "child-3" })).toMatchObject(OVER);
    expect(await submit(greedy, { kind: "k", labels: { a: "b" } })).toMatchObject(OVER);
    const batch = await server.call("POST", "/v1/jobs/batch", {
      token: greedy,
      body: {
        jobs: [
          { kind: "k", queue: "child-1" },
          { kind: "k", queue: "new" },
        ],
      },
    });
    expect(batch.body.answers).toMatchObject([{ created: true }, { error: { code: "too_many_requests" } }]);
    // Others are not affected.
    for (const queue of ["a", "b", "c"]) expect((await submit(modest, { kind: "k", queue })).status).toBe(201);

    // A server that is started again knows what there is.
    const again = await startServer({ url: server.storeUrl, limits: LIMITS });
    try {
      expect((await submit(greedy, { kind: "k", queue: "child-1" }, again)).status).toBe(201);
      expect(await submit(greedy, { kind: "k", queue: "child-4" }, again)).toMatchObject(OVER);
      await worker.report(job, { kind: "completed", result: "1" });
      for (const row of (await server.call("GET", "/v1/jobs", { headers: { "perdure-namespace": "n" } })).body.jobs) {
        await server.call("POST", `/v1/jobs/${row.id}/cancel`, { headers: { "perdure-namespace": "n" } });
      }
      const ahead = Date.now() + 86_400_000;
      const endedBefore = { succeeded: ahead, failed: ahead, cancelled: ahead };
      const query = { now: ahead, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 100, endedBefore };
      while ((await again.store.prune({ ...query, namesUnusedBefore: ahead })).more);
      expect(await lanesIn(server.store, "n")).toBe(0);
      expect((await submit(greedy, { kind: "k", queue: "child-4" }, again)).status).toBe(201);
    } finally {
      await again.close();
    }
  });
});

describe("S32: lanes of calls that are refused, or made at the same time", () => {
  const LANES = { lanesPerToken: 6, lanesPerNamespace: 12 };
  const lists = Array.from({ length: 8 }, (_, n) => Array.from({ length: 5 }, (_, k) => `q${5 * n + k}`));
  const batch = (server: TestServer, token: string, queues: string[], rest: object = {}) =>
    server.call("POST", "/v1/jobs/batch", {
      token,
      body: { jobs: queues.map((queue) => ({ kind: "k", queue, ...rest })) },
    });

  it("count as all others do, for the token's id", async () => {
    const server = await startServer({ limits: LANES });
    onTestFinished(server.close);
    const [ci, other] = [
      await server.token({ name: "ci", scopes: ["submit"] }),
      await server.token({ name: "ci", scopes: ["submit"] }),
    ];
    const keyed = await server.call("POST", "/v1/jobs", { token: ci, body: { kind: "k", queue: "q", key: "K" } });
    expect(keyed.status).toBe(201);
    for (const queues of lists) {
      const { body } = await batch(server, ci, queues, { key: "K" });
      expect(body.answers).toMatchObject(queues.map(() => ({ error: { code: "key_conflict" } })));
    }
    await Promise.all(lists.map((queues) => batch(server, ci, queues)));
    expect(await lanesIn(server.store)).toBe(6);
    // The other token of this name has its own share.
    await Promise.all(
      lists.map((queues) =>
        batch(
          server,
          other,
          queues.map((queue) => `other-${queue}`),
        ),
      ),
    );
    expect(await lanesIn(server.store)).toBe(12);
  });

  it("are those of the queues that workers publish", async () => {
    const server = await startServer({ limits: LANES });
    onTestFinished(server.close);
    const token = await server.token({ name: "both", scopes: ["submit", "work"] });
    const tries = [];
    for (let n = 0; n < 9; n++) {
      if (n > 0) await openWorker(server, { kinds: ["k"], defaults: { k: { queue: `q${n}` } } }, { token });
      tries.push((await server.call("POST", "/v1/jobs", { token, body: { kind: "k" } })).status);
    }
    expect(tries).toEqual([...Array(6).fill(201), ...Array(3).fill(429)]);
  });
});

describe("S32: policies", () => {
  it("are bounded in number for one request, and in size; the jobs beside them are stored", async () => {
    const job = (maxAttempts: number) => ({ kind: "k", retry: { maxAttempts } });
    const parts = Array.from({ length: 100 }, (_, n) => `${n}`.padEnd(200, "x"));
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"
    const rules = Array.from({ length: 9 }, () => ({ if: { message: parts.slice(50) }, then: "fail" }));
    const large = { kind: "k", retry: { retryOn: parts, rules } };
    const jobs = [job(2), large, job(3), job(2), job(4), { kind: "k" }];
    const { body } = await server.call("POST", "/v1/jobs/batch", { body: { jobs } });
    expect(body.answers).toMatchObject([
      { created: true },
      {
        error: {
          code: "invalid_config",
          path: "jobs[1].retry",
          message: expect.stringContaining("at most 65536 bytes"),
        },
      },
      { created: true },
      { created: true },
      { error: { code: "too_many_requests", message: expect.stringContaining("2 different retry policies") } },
      { created: true },
    ]);
  });
});

describe("S32: a long list", () => {
  /** A server for which every job takes longer than a slice, and the turns of the event loop so far. */
  async function slow() {
    let [extra, turns] = [0, 0];
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + 20 * extra++ };
    const server = await startServer({ clock });
    const count = () => {
      turns += 1;
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    onTestFinished(async () => {
      clearImmediate(timer);
      await server.close();
    });
    const passed = async (wanted: number) => {
      for (const from = turns; turns - from < wanted; ) await new Promise((resolve) => setImmediate(resolve));
    };
    return { server, turns: () => turns, passed };
  }
  const body = { jobs: Array.from({ length: 1_000 }, (_, n) => ({ kind: "k", tags: [`${n}`] })) };

  it("is checked in slices: the event loop turns between them", async () => {
    const { server, turns } = await slow();
    const before = turns();
    expect((await server.call("POST", "/v1/jobs/batch", { body })).status).toBe(200);
    expect(turns() - before).toBeGreaterThan(1_000);
  });

  it("is dropped, with nothing stored, when its client goes away meanwhile", async () => {
    const { server, turns, passed } = await slow();
    const away = new AbortController();
    const reply = server.call("POST", "/v1/jobs/batch", { body, signal: away.signal }).catch(() => "gone");
    const from = turns();
    await passed(500);
    away.abort();
    expect([await reply, turns() - from < 1_000]).toEqual(["gone", true]);
    await passed(2_000);
    expect((await server.call("GET", "/v1/jobs?limit=1")).body.jobs).toEqual([]);
  });
});
