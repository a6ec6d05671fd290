/** Cancels on their way from parents to children, and wakes from children to parents: many at once, one beside the other. */
import { expect, it, vi } from "vitest";
import { decideCommand } from "../../src/core/command.ts";
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

it("a cancel is passed on however many others were taken back", async () => {
  const bench = await openBench({ services: false });
  const many = await families(bench, 250);
  const lost = vi.spyOn(bench.store, "cascades").mockRejectedValue(new Error("not yet"));
  for (const { parent } of many) await bench.engine.command(parent, { kind: "cancel" });
  await bench.settled();
  lost.mockRestore();
  expect(await bench.store.cascades(1_000)).toHaveLength(250);
  for (const { parent } of many) await bench.engine.command(parent, { kind: "redrive" });
  expect(await bench.store.cascades(1_000)).toEqual([]);
  const [last] = await families(bench, 1);
  await bench.engine.command(last?.parent ?? "", { kind: "cancel" });
  await bench.engine.sweepKin();
  expect((await bench.job(last?.child ?? "")).state).toBe("cancelled");
  expect((await bench.job(many[0]?.child ?? "")).state).toBe("queued");
});

it("a parent is woken while a long cancel is being passed on, and other cancels with it", async () => {
  const bench = await openBench();
  const [big, other] = await families(bench, 2);
  const hold = gate();
  const reachable = bench.store.reachable.bind(bench.store);
  vi.spyOn(bench.store, "reachable").mockImplementation(async (query) => {
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
  await bench.engine.sweepKin();
  for (const one of [big, other]) expect((await bench.job(one?.child ?? "")).state).toBe("cancelled");
});

it("a wake that was lost is found by the next sweep, however many parents wait", async () => {
  const bench = await openBench({ services: false });
  const count = 2_500;
  const request = { namespace: "default", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: count };
  const session = await bench.engine.openSession({ ...request, kinds: ["loop"] });
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
  // The child of the last one is ended by a process that dies before it can wake the parent.
  const now = bench.clock.now();
  const command = { jobId: children.at(-1) as string, command: { kind: "cancel" } as const };
  await bench.store.amend([command], now, (job, asked) => decideCommand(job, asked, now));
  const last = held.at(-1)?.id ?? "";
  expect((await bench.job(last)).state).toBe("blocked");
  await bench.engine.sweepKin();
  expect((await bench.job(last)).state).toBe("queued");
});

it("a cancel reaches all children, also where files of one cannot be removed", async () => {
  const bench = await openBench({ services: false });
  const outputs = { tidy: () => Promise.reject(new Error("EACCES: permission denied")), delete: async () => {} };
  const newId = idMaker({ now: bench.clock.now, randomBytes: (bytes) => void crypto.getRandomValues(bytes) });
  const told: string[] = [];
  const log = (_level: string, message: string) => void told.push(message);
  const parts = { store: bench.store, clock: bench.clock, random: () => 0.5, newId, log, name: "e", outputs };
  const engine = new Engine(parts as unknown as ConstructorParameters<typeof Engine>[0]);
  const some = await families(bench, 10);
  for (const { parent } of some) await engine.command(parent, { kind: "cancel" });
  await engine.sweepKin();
  await engine.stop();
  for (const { child } of some) expect((await bench.job(child)).state).toBe("cancelled");
  expect(told[0]).toMatch(/^cannot tidy up behind job_.*EACCES/);
});
