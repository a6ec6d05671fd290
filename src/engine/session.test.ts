import { describe, expect, it } from "vitest";
import { all, gate, openBench, openSession } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { task } from "../core/task/task.ts";
import type { WorkerHealth } from "../core/worker-protocol.ts";
import type { ClaimAnswer, EventQuery } from "../store/store.ts";
import { Engine } from "./engine.ts";

const POLICY = resolvePolicy();
const REQUEST = {
  ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: ["k"], queues: null, labels: {}, slots: 5 },
};

describe("draining a session", () => {
  it("answers a waiting claim at once, and a follower of the feed sees it", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    const claimed = gate<ClaimAnswer>();
    void bench.engine.claim(session, { limit: 5, waitMs: 30_000 }).then(claimed.open);
    const controller = new AbortController();
    const seen = gate<string>();
    void (async () => {
      for await (const { name } of bench.engine.events({ follow: true, signal: controller.signal })) {
        if (name === "worker.draining") seen.open(name);
      }
    })();
    await bench.settled();
    expect(await bench.engine.drainSession(session)).toBe("draining");
    expect(await claimed.passed).toEqual({ alive: true, drain: true, jobs: [], nextAt: null, delivery: null });
    expect(await seen.passed).toBe("worker.draining");
    controller.abort();
    expect(await bench.engine.drainSession("ses_unknown")).toBe("unknown");
  });

  it("delays another waiting claim by a second, and answers one that does not wait at once", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    await bench.engine.drainSession(session);
    await bench.submit("k");
    expect(await bench.engine.claim(session, { limit: 5 })).toMatchObject({ drain: true, jobs: [] });
    const claimed = gate<ClaimAnswer>();
    void bench.engine.claim(session, { limit: 5, waitMs: 30_000 }).then(claimed.open);
    await bench.advance(999);
    expect(claimed.isOpen).toBe(false);
    await bench.advance(1);
    expect(await claimed.passed).toMatchObject({ alive: true, drain: true, jobs: [] });
  });

  it("lets a worker finish what it has", async () => {
    const bench = await openBench();
    const end = gate();
    const worker = await bench.work([task("k", () => end.passed)]);
    const id = await bench.submit("k");
    await bench.settled();
    await bench.engine.drainSession(worker.session);
    const later = await bench.submit("k");
    end.open();
    await bench.advance(60_000);
    expect((await bench.job(id)).state).toBe("succeeded");
    expect((await bench.job(later)).state).toBe("queued");
  });
});

describe("a session", () => {
  it("reports its health with a renewal, and the next one leaves it unchanged", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    const health: WorkerHealth = {
      ...{ consecutiveFailures: 0, total: 3, failed: 1, averageMs: 20, inHand: 0, slots: 1, load: 0.5 },
    };
    expect(await bench.engine.renew(session, [], health)).toMatchObject({ alive: true, drain: false });
    await bench.engine.renew(session, []);
    expect((await bench.store.sessions.list())[0]?.health).toEqual(health);
  });

  it("may have its own lease, by which it is reaped and jobs it never received are released", async () => {
    const bench = await openBench();
    const short = await bench.engine.openSession({ ...REQUEST, leaseMs: 2_000 });
    const long = await bench.engine.openSession({ ...REQUEST, kinds: ["other"], leaseMs: 60_000 });
    const ids = [await bench.submit("k"), await bench.submit("other")];
    await bench.engine.claim(short, { limit: 1 });
    await bench.engine.claim(long, { limit: 1 });
    await bench.advance(3_500);
    expect(await bench.job(ids[0] as string)).toMatchObject({ losses: 1 });
    await bench.advance(30_000);
    // It lists no jobs; for one lease of its own, the reply to a claim may still be on its way.
    expect(await bench.engine.renew(long, [])).toMatchObject({ alive: true, leaseMs: 60_000, unheard: [] });
    expect(await bench.job(ids[1] as string)).toMatchObject({ state: "running" });
    await bench.advance(30_000);
    expect((await bench.engine.renew(long, [])).unheard).toHaveLength(1);
    expect(await bench.job(ids[1] as string)).toMatchObject({ state: "queued", losses: 0, failures: 0 });
  });

  it.each([299, 3_600_001, 0, -1, 1_000.5, Number.NaN, Number.POSITIVE_INFINITY])(
    "has no lease of %d",
    async (leaseMs) => {
      const bench = await openBench({ services: false });
      const refused = bench.engine.openSession({ ...REQUEST, leaseMs });
      await expect(refused).rejects.toMatchObject({ code: "invalid_config", path: "leaseMs" });
      expect(await bench.store.sessions.list()).toEqual([]);
      for (const fits of [300, 3_600_000]) await bench.engine.openSession({ ...REQUEST, leaseMs: fits });
    },
  );
});

describe("the feed of a namespace", () => {
  it("has its own events only, and reports how far it has read among those of others", async () => {
    const bench = await openBench({ services: false });
    const items = (namespace: string, count: number) =>
      Array.from({ length: count }, () => ({ kind: "k", payload: "null", policy: POLICY, namespace }));
    await bench.engine.submit(items("mine", 600));
    await bench.engine.submit(items("other", 10_000));
    await bench.engine.submit(items("mine", 1));
    await bench.engine.openSession({ ...REQUEST, namespace: "other" });
    let upTo = 0;
    const onRead = (seq: number) => {
      upTo = seq;
    };
    expect(await all(bench.engine.events({ namespace: "mine", onRead }))).toHaveLength(601);
    expect(upTo).toBe(await bench.store.events.lastSeq());
    expect(await all(bench.engine.events({ namespace: "mine", after: upTo }))).toEqual([]);
    const others = await all(bench.engine.events({ namespace: "other" }));
    expect(others).toHaveLength(10_001);
    expect(others.at(-1)).toMatchObject({ name: "worker.started", data: { namespace: "other" } });
  });

  it("continues from where it has read when it waits for more", async () => {
    const bench = await openBench({ services: false });
    const asked: number[] = [];
    const store = new Proxy(bench.store, {
      get(target, property) {
        if (property !== "events") return Reflect.get(target, property);
        const page = (query: EventQuery) => {
          asked.push(query.after);
          return target.events.page(query);
        };
        return { ...target.events, page };
      },
    });
    const options = { random: () => 0.5, name: "e", log: () => {}, newId: (prefix: string) => `${prefix}_1` };
    const engine = new Engine({ store, clock: bench.clock, ...options });
    const controller = new AbortController();
    const seen: string[] = [];
    const following = (async () => {
      for await (const event of engine.events({ namespace: "mine", follow: true, signal: controller.signal })) {
        seen.push(event.name);
      }
    })();
    for (let n = 0; n < 5; n++) await bench.submit("k", { namespace: "other" });
    await bench.advance(3_000);
    const before = await bench.store.events.lastSeq();
    expect(asked.at(-1)).toBe(before);
    await bench.submit("k", { namespace: "mine", by: "alice" });
    await bench.advance(1_000);
    expect(seen).toEqual(["job.submitted"]);
    controller.abort();
    await following;
    await engine.stop();
  });
});

describe("who submitted a job", () => {
  it("is in its first event, if it is known", async () => {
    const bench = await openBench({ services: false });
    const [known, unknown] = [await bench.submit("k", { by: "token:ü" }), await bench.submit("k", { by: null })];
    const first = async (jobId: string) =>
      (await bench.store.events.page({ after: 0, limit: 1, jobId })).events[0]?.data;
    expect(await first(known)).toMatchObject({ by: "token:ü", kind: "k" });
    expect(await first(unknown)).not.toHaveProperty("by");
    const [answer] = await bench.engine.submit([{ kind: "k", payload: "null", policy: POLICY, by: "a\nb" }]);
    expect(answer).toMatchObject({ status: "refused", error: { code: "invalid_config", path: "by" } });
  });
});
