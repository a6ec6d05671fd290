/** Cancels passed from parents to children, and wakes from children to parents: many at once, and concurrently. */
import { expect, it, vi } from "vitest";
import { failure } from "../../src/core/decision/failure.ts";
import { decideCommand } from "../../src/core/job/command.ts";
import { Engine } from "../../src/engine/engine.ts";
import { task } from "../../src/index.ts";
import { idMaker } from "../../src/lib/id.ts";
import { type Bench, gate, openBench } from "../kit.ts";

async function families(bench: Bench, count: number) {
  const ids: { readonly parent: string; readonly child: string }[] = [];
  for (let i = 0; i < count; i++) {
    const parent = await bench.submit("loop");
    ids.push({ parent, child: await bench.submit("child", { parent: { id: parent, attempt: null } }) });
  }
  return ids;
}

it("a cancel is passed on however many others were withdrawn", async () => {
  const bench = await openBench({ services: false });
  const many = await families(bench, 250);
  const lost = vi.spyOn(bench.store.children, "cascades").mockRejectedValue(new Error("not yet"));
  for (const { parent } of many) await bench.engine.command(parent, { kind: "cancel" });
  await bench.settled();
  lost.mockRestore();
  expect(await bench.store.children.cascades(1_000)).toHaveLength(250);
  for (const { parent } of many) await bench.engine.command(parent, { kind: "redrive" });
  expect(await bench.store.children.cascades(1_000)).toEqual([]);
  const [last] = await families(bench, 1);
  await bench.engine.command(last?.parent ?? "", { kind: "cancel" });
  await bench.engine.sweepChildren();
  expect((await bench.job(last?.child ?? "")).state).toBe("cancelled");
  expect((await bench.job(many[0]?.child ?? "")).state).toBe("queued");
});

/** A parent, an ended child, an ended grandchild, and a live job below that. */
async function withEndedBetween(bench: Bench) {
  const parent = await bench.submit("parent");
  const upper = await bench.submit("upper", { parent: { id: parent, attempt: null } });
  const lower = await bench.submit("lower", { parent: { id: upper, attempt: null } });
  const left = await bench.submit("left", { parent: { id: lower, attempt: null } });
  await end(bench, "lower");
  await end(bench, "upper");
  return { parent, upper, lower, left };
}

const REQUEST = { namespace: "default", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: 100 };

async function hold(bench: Bench, kind: string) {
  const session = await bench.engine.openSession({ ...REQUEST, kinds: [kind] });
  return (await bench.engine.claim(session, { limit: 100 })).jobs;
}

/** Runs all due jobs of a kind and fails them, so that they may be redriven. */
async function end(bench: Bench, kind: string): Promise<void> {
  for (const { id, token, attempt } of await hold(bench, kind)) {
    const from = { kind: "worker", token, reportId: `${id} ${attempt}` } as const;
    const cause = failure({ kind: "error", class: "logical", message: "no" });
    const outcome = { kind: "failed", failure: cause } as const;
    await bench.engine.report([{ jobId: id, attempt, from, outcome, usage: null, log: null }]);
  }
}

/** Cancels without passing it on, like a process that exits in between. */
async function cancelOnly(bench: Bench, id: string): Promise<void> {
  const now = bench.clock.now();
  const command = { jobId: id, command: { kind: "cancel" } as const };
  await bench.store.amend([command], now, (job, asked) => decideCommand(job, asked, now));
}

const stateOf = async (bench: Bench, id: string) => (await bench.job(id)).state;

it("a cancel reaches live jobs below ended children, and does not change the ended ones", async () => {
  const bench = await openBench({ services: false });
  const { parent, upper, lower, left } = await withEndedBetween(bench);
  const running = await bench.submit("running", { parent: { id: left, attempt: null } });
  const other = await bench.submit("other");
  await hold(bench, "running");
  const before = [await bench.job(upper), await bench.job(lower)];
  await bench.engine.command(parent, { kind: "cancel" });
  await bench.engine.sweepChildren();
  expect([await stateOf(bench, parent), await stateOf(bench, left)]).toEqual(["cancelled", "cancelled"]);
  expect(await bench.job(running)).toMatchObject({ state: "running", cancelRequestedAt: expect.any(Number) });
  expect([await bench.job(upper), await bench.job(lower)]).toEqual(before);
  expect(await stateOf(bench, other)).toBe("queued");
  const events = (await bench.store.events.page({ after: 0, limit: 100, jobId: left })).events;
  expect(events.at(-1)).toMatchObject({ name: "job.cancelled", data: { by: `parent:${lower}` } });
  // It is complete: nothing is left to be done, and nothing is written again.
  expect(await bench.store.children.cascades(10)).toEqual([]);
  const seq = await bench.store.events.lastSeq();
  await bench.engine.sweepChildren();
  expect(await bench.store.events.lastSeq()).toBe(seq);
});

it("a cancel goes through more ended children than one page has", async () => {
  const bench = await openBench({ services: false });
  const parent = await bench.submit("parent");
  const { policy } = await bench.job(parent);
  const below = async (kind: string, ids: readonly string[]) => {
    const items = ids.map((id) => ({ kind, payload: "null", policy, parent: { id, attempt: null } }));
    return (await bench.engine.submit(items)).map((answer) => (answer as { id: string }).id);
  };
  const middle = await below(
    "middle",
    Array.from({ length: 450 }, () => parent),
  );
  const left = await below("left", middle);
  for (let i = 0; i < 5; i++) await end(bench, "middle");
  await bench.engine.command(parent, { kind: "cancel" });
  await bench.engine.sweepChildren();
  const states = (await bench.store.facts(left)).map((job) => job?.state);
  expect(states).toEqual(left.map(() => "cancelled"));
  expect(await bench.store.children.cascades(10)).toEqual([]);
});

it("a withdrawn cancel no longer reaches jobs below ended children", async () => {
  const bench = await openBench({ services: false });
  const { parent, left } = await withEndedBetween(bench);
  await cancelOnly(bench, parent);
  const reachable = bench.store.children.reachable.bind(bench.store);
  vi.spyOn(bench.store.children, "reachable").mockImplementation(async (query) => {
    const page = await reachable(query);
    // The last moment: the live job has been found, and is about to get the cancel.
    if (page.jobs.some(({ jobId }) => jobId === left)) await bench.engine.command(parent, { kind: "redrive" });
    return page;
  });
  await bench.engine.sweepChildren();
  expect([await stateOf(bench, parent), await stateOf(bench, left)]).toEqual(["queued", "queued"]);
  expect(await bench.store.children.cascades(10)).toEqual([]);
});

it("an ended child that is redriven while a cancel is passed on is cancelled like a live one", async () => {
  const bench = await openBench({ services: false });
  const { parent, upper, lower, left } = await withEndedBetween(bench);
  await cancelOnly(bench, parent);
  const reachable = bench.store.children.reachable.bind(bench.store);
  const looked = vi.spyOn(bench.store.children, "reachable").mockImplementation(async (query) => {
    const page = await reachable(query);
    if (query.parentId === lower) await bench.engine.command(lower, { kind: "redrive" });
    return page;
  });
  await bench.engine.sweepChildren();
  expect([await stateOf(bench, lower), await stateOf(bench, left)]).toEqual(["queued", "queued"]);
  expect(await bench.store.children.cascades(10)).toEqual([parent]); // it is not complete yet
  looked.mockRestore();
  await bench.engine.sweepChildren();
  expect([await stateOf(bench, lower), await stateOf(bench, left)]).toEqual(["cancelled", "cancelled"]);
  expect(await stateOf(bench, upper)).toBe("failed");
  expect(await bench.store.children.cascades(10)).toEqual([]);
});

it("jobs below a child that ends when it would get the cancel are still reached", async () => {
  const bench = await openBench({ services: false });
  const parent = await bench.submit("parent");
  const child = await bench.submit("child", { parent: { id: parent, attempt: null } });
  const left = await bench.submit("left", { parent: { id: child, attempt: null } });
  await cancelOnly(bench, parent);
  const reachable = bench.store.children.reachable.bind(bench.store);
  vi.spyOn(bench.store.children, "reachable").mockImplementation(async (query) => {
    const page = await reachable(query);
    if (query.parentId === parent) await end(bench, "child");
    return page;
  });
  await bench.engine.sweepChildren();
  expect([await stateOf(bench, child), await stateOf(bench, left)]).toEqual(["failed", "cancelled"]);
  expect(await bench.store.children.cascades(10)).toEqual([]);
});

it("a cancel of an ended job reaches no child", async () => {
  const bench = await openBench({ services: false });
  const { upper, left } = await withEndedBetween(bench);
  expect(await bench.engine.command(upper, { kind: "cancel" })).toMatchObject({ changed: false });
  await bench.engine.sweepChildren();
  expect(await stateOf(bench, left)).toBe("queued");
});

it("a parent is woken while a long cancel is being passed on, and other cancels with it", async () => {
  const bench = await openBench();
  const [big, other] = await families(bench, 2);
  const hold = gate();
  const reachable = bench.store.children.reachable.bind(bench.store);
  vi.spyOn(bench.store.children, "reachable").mockImplementation(async (query) => {
    if (query.parentId === big?.parent) await hold.passed; // ten thousand children take their time
    return reachable(query);
  });
  await bench.engine.command(big?.parent ?? "", { kind: "cancel" });
  const woken = gate<unknown>();
  const child = task("done-soon", () => "done");
  const parent = task("parent", async (_: null, ctx) => {
    const [end] = await ctx.waitFor([await ctx.submit(child)]);
    woken.open(end.result);
  });
  await bench.submit("parent");
  await bench.work([parent, child]);
  expect(await woken.passed).toBe("done");
  hold.open();
  await bench.engine.command(other?.parent ?? "", { kind: "cancel" });
  await bench.settled();
  await bench.engine.sweepChildren();
  for (const one of [big, other]) expect((await bench.job(one?.child ?? "")).state).toBe("cancelled");
});

it("a wake that was lost is found by the next sweep, however many parents wait", async () => {
  const bench = await openBench({ services: false });
  const count = 2_500;
  const session = await bench.engine.openSession({ ...REQUEST, slots: count, kinds: ["loop"] });
  const { policy } = await bench.job(await bench.submit("never"));
  await bench.engine.submit(Array.from({ length: count }, () => ({ kind: "loop", payload: "null", policy })));
  const held = [];
  while (held.length < count) held.push(...(await bench.engine.claim(session, { limit: 1_000 })).jobs);
  const born = await bench.engine.submit(
    held.map(({ id }) => ({ kind: "kid", payload: "null", policy, parent: { id, attempt: null } })),
  );
  const children = born.map((answer) => (answer as { id: string }).id);
  await bench.engine.report(
    held.map(({ id, token }, i) => ({
      ...{ jobId: id, attempt: 1, from: { kind: "worker", token, reportId: `r${i}` } as const },
      ...{ outcome: { kind: "waiting", children: [children[i] as string] } as const, usage: null, log: null },
    })),
  );
  await bench.settled();
  // The child of the last one is ended by a process that exits before it can wake the parent.
  const now = bench.clock.now();
  const command = { jobId: children.at(-1) as string, command: { kind: "cancel" } as const };
  await bench.store.amend([command], now, (job, asked) => decideCommand(job, asked, now));
  const last = held.at(-1)?.id ?? "";
  expect((await bench.job(last)).state).toBe("blocked");
  await bench.engine.sweepChildren();
  expect((await bench.job(last)).state).toBe("queued");
});

it("a cancel reaches all children, even if files of one cannot be removed", async () => {
  const bench = await openBench({ services: false });
  const outputs = { tidy: () => Promise.reject(new Error("EACCES: permission denied")), delete: async () => {} };
  const newId = idMaker({ now: bench.clock.now, randomBytes: (bytes) => void crypto.getRandomValues(bytes) });
  const told: string[] = [];
  const log = (_level: string, message: string) => void told.push(message);
  const parts = { store: bench.store, clock: bench.clock, random: () => 0.5, newId, log, name: "e", outputs };
  const engine = new Engine(parts as unknown as ConstructorParameters<typeof Engine>[0]);
  const some = await families(bench, 10);
  for (const { parent } of some) await engine.command(parent, { kind: "cancel" });
  await engine.sweepChildren();
  await engine.stop();
  for (const { child } of some) expect((await bench.job(child)).state).toBe("cancelled");
  expect(told[0]).toMatch(/^cannot remove leftover files of job_.*EACCES/);
});
