/** Children of a redriven parent: which of them are redriven too, and which reads redrive none. */
import { describe, expect, it, vi } from "vitest";
import { failure } from "../../src/core/decision/failure.ts";
import { resolvePolicy } from "../../src/core/policy/resolve-policy.ts";
import { type Bench, gate, openBench } from "../kit.ts";

const request = { namespace: "default", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: 1 };
const policy = resolvePolicy(1);
const item = { kind: "child", payload: "null", policy, key: "k" };

async function run(bench: Bench, session: Awaited<ReturnType<Bench["engine"]["openSession"]>>) {
  const [job] = (await bench.engine.claim(session, { limit: 1 })).jobs;
  if (job === undefined) throw new Error("nothing to claim");
  const held = { jobId: job.id, attempt: job.attempt, namespace: "default" };
  const from = { kind: "worker", token: job.token, reportId: `r${job.attempt}` } as const;
  type Outcome = Parameters<Bench["engine"]["report"]>[0][number]["outcome"];
  const report = (outcome: Outcome) =>
    bench.engine.report([{ jobId: job.id, attempt: job.attempt, from, outcome, usage: null, log: null }]);
  return { held, report };
}

async function family(bench: Bench) {
  const id = await bench.submit("parent", { policy });
  const session = await bench.engine.openSession({ ...request, kinds: ["parent"] });
  const child = await bench.submit("child", { key: "k", policy, parent: { id, attempt: null } });
  return { id, child, session };
}

/** A parent in its second chapter, running; its child was cancelled with it in the first. */
async function redriven(bench: Bench) {
  const { id, child, session } = await family(bench);
  await bench.engine.command(id, { kind: "cancel" });
  await bench.engine.sweepChildren();
  expect((await bench.job(child)).state).toBe("cancelled");
  await bench.engine.command(id, { kind: "redrive" });
  return { id, child, ...(await run(bench, session)) };
}

describe("an attempt with a cancel request", () => {
  it("redrives no child by submitting it, nor by waiting for it", async () => {
    const bench = await openBench({ services: false });
    const { id, child, held } = await redriven(bench);
    await bench.engine.command(id, { kind: "cancel" });
    await bench.engine.sweepChildren();
    // Its worker has not received it yet.
    expect((await bench.engine.submitChild(held, item)).id).toBe(child);
    expect((await bench.engine.awaitedChildren(held, [child]))[0]?.state).toBe("cancelled");
    await bench.engine.sweepChildren();
    expect((await bench.job(child)).state).toBe("cancelled");
  });

  it("redrives none after it was cancelled, while its handler does not know", async () => {
    const bench = await openBench({ services: false });
    const { id, child, held, report } = await redriven(bench);
    await bench.engine.command(id, { kind: "cancel" });
    await report({ kind: "interrupted" });
    expect((await bench.job(id)).state).toBe("cancelled");
    await bench.engine.sweepChildren();
    await bench.engine.submitChild(held, item);
    expect((await bench.job(child)).state).toBe("cancelled");
  });

  it("redrives none if the cancel comes between its read of the parent and the redrive", async () => {
    const bench = await openBench({ services: false });
    const { id, child, held } = await redriven(bench);
    const looked = gate();
    const goOn = gate();
    const amend = bench.store.amend.bind(bench.store);
    vi.spyOn(bench.store, "amend").mockImplementationOnce(async (...given) => {
      looked.open();
      await goOn.passed;
      return amend(...given);
    });
    const asked = bench.engine.submitChild(held, item);
    await looked.passed;
    await bench.engine.command(id, { kind: "cancel" });
    await bench.engine.sweepChildren();
    goOn.open();
    await asked;
    expect(await bench.store.children.cascades(10)).toEqual([]);
    expect((await bench.job(child)).state).toBe("cancelled");
  });
});

describe("a child that ended before its parent was redriven", () => {
  it("is seen redriven by two concurrent reads", async () => {
    const bench = await openBench({ services: false });
    const { child, held } = await redriven(bench);
    const looks = await Promise.all([
      bench.engine.awaitedChildren(held, [child]),
      bench.engine.awaitedChildren(held, [child]),
    ]);
    expect(looks.map(([seen]) => seen?.state)).toEqual(["queued", "queued"]);
    expect((await bench.job(child)).chapter).toBe(2);
  });

  it("is seen redriven if an operator was first", async () => {
    const bench = await openBench({ services: false });
    const { child, held } = await redriven(bench);
    const eventPage = bench.store.events.page.bind(bench.store);
    vi.spyOn(bench.store.events, "page").mockImplementation(async (query) => {
      const found = await eventPage(query);
      if (query.jobId === child) await bench.engine.command(child, { kind: "redrive", by: "operator" });
      return found;
    });
    const [seen] = await bench.engine.awaitedChildren(held, [child]);
    expect(seen?.state).toBe("queued");
    expect((await bench.job(child)).chapter).toBe(2);
  });

  it("is redriven once: if it ended again meanwhile, the parent decides", async () => {
    const bench = await openBench({ services: false });
    const { child, held } = await redriven(bench);
    const eventPage = bench.store.events.page.bind(bench.store);
    let isFirst = true;
    vi.spyOn(bench.store.events, "page").mockImplementation(async (query) => {
      const found = await eventPage(query);
      if (query.jobId !== child || !isFirst) return found;
      isFirst = false;
      await bench.engine.awaitedChildren(held, [child]); // another read redrives it,
      await bench.engine.command(child, { kind: "cancel", by: "operator" }); // and it ends again
      return found;
    });
    const [seen] = await bench.engine.awaitedChildren(held, [child]);
    expect([seen?.state, (await bench.job(child)).chapter]).toEqual(["cancelled", 2]);
  });
});

describe("a child that was cancelled with its parent and ends after the parent was redriven", () => {
  it("is seen redriven, even if it ends between the check and the answer", async () => {
    const bench = await openBench({ services: false });
    const { id, child, session } = await family(bench);
    const stopping = await run(bench, await bench.engine.openSession({ ...request, kinds: ["child"] }));
    await bench.engine.command(id, { kind: "cancel" });
    await bench.engine.sweepChildren();
    await bench.engine.command(id, { kind: "redrive" });
    const { held } = await run(bench, session);
    const facts = bench.store.facts.bind(bench.store);
    vi.spyOn(bench.store, "facts").mockImplementationOnce(async (ids) => {
      const found = await facts(ids);
      await stopping.report({ kind: "interrupted" });
      return found;
    });
    const [seen] = await bench.engine.awaitedChildren(held, [child]);
    expect([seen?.state, (await bench.job(child)).chapter]).toEqual(["queued", 2]);
  });
});

describe("a child that kept running while its parent was redriven", () => {
  /** The parent failed, which does not affect its child, and was redriven. */
  async function goingOn(bench: Bench) {
    const { id, child, session } = await family(bench);
    const first = await run(bench, session);
    await first.report({ kind: "failed", failure: failure({ kind: "error", message: "no" }) });
    expect((await bench.job(id)).state).toBe("failed");
    await bench.engine.command(id, { kind: "redrive" });
    return { id, child, ...(await run(bench, session)) };
  }

  it("stays cancelled when an operator cancels it", async () => {
    const bench = await openBench({ services: false });
    const { child, held } = await goingOn(bench);
    expect((await bench.engine.submitChild(held, item)).id).toBe(child);
    await bench.engine.command(child, { kind: "cancel", by: "operator" });
    expect((await bench.engine.awaitedChildren(held, [child]))[0]?.state).toBe("cancelled");
  });

  it("stays failed when it fails: its parent decides", async () => {
    const bench = await openBench({ services: false });
    const { child, held } = await goingOn(bench);
    const work = await run(bench, await bench.engine.openSession({ ...request, kinds: ["child"] }));
    await work.report({ kind: "failed", failure: failure({ kind: "error", message: "broken" }) });
    const [seen] = await bench.engine.awaitedChildren(held, [child]);
    expect(seen).toMatchObject({ state: "failed", failure: { message: "broken" } });
  });

  it("is not ended by a cancel that was withdrawn while in progress", async () => {
    const bench = await openBench({ services: false });
    const { id, child, session } = await family(bench);
    const lost = vi.spyOn(bench.store.children, "cascades").mockRejectedValue(new Error("not yet"));
    await bench.engine.command(id, { kind: "cancel" });
    await bench.settled();
    lost.mockRestore();
    const amend = bench.store.amend.bind(bench.store);
    vi.spyOn(bench.store, "amend").mockImplementationOnce(async (...given) => {
      // Before the children get the cancel: the whole second chapter of the parent.
      await bench.engine.command(id, { kind: "redrive" });
      const { held, report } = await run(bench, session);
      expect((await bench.engine.submitChild(held, item)).id).toBe(child);
      await report({ kind: "completed", result: "1" });
      return amend(...given);
    });
    await bench.engine.sweepChildren();
    expect([(await bench.job(id)).state, (await bench.job(child)).state]).toEqual(["succeeded", "queued"]);
  });
});
