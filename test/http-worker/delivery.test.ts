/** Every attempt that a server assigns is started by the worker that claimed it: none is released, and none stays
 *  unheard of until a lease has passed. `PERDURE_DELIVERIES` sets how many jobs each test submits. */
import { describe, expect, it, onTestFinished } from "vitest";
import { resourceLabels, toResources } from "../../src/core/input/resources.ts";
import { presets } from "../../src/core/policy/presets.ts";
import { task } from "../../src/core/task/task.ts";
import { connectWorker } from "../../src/worker/connect-worker.ts";
import { gate } from "../kit.ts";
import { startServer, type TestServer } from "../server/kit.ts";
import { IS_FULL } from "../tier.ts";
import { openWire } from "./kit.ts";

const JOBS = Number(process.env.PERDURE_DELIVERIES ?? (IS_FULL ? 10_000 : 400));
const SLOTS = 12;
const CPUS = 4;
/** Mostly small, so that a claim which waits could have some in any moment; now and then one has to wait for others to end. */
const NEEDS = [{ cpu: 0.1 }, { cpu: 0.2, memory: "1m" }, { cpu: 0.1 }, undefined, { cpu: 0.1 }, { cpu: 3 }];

/** Names of all events, with how often each was written. */
async function eventCounts({ store }: TestServer): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (let after = 0; ; ) {
    const events = (await store.events.page({ after, limit: 1_000 })).events;
    for (const { name } of events) counts.set(name, (counts.get(name) ?? 0) + 1);
    const last = events.at(-1);
    if (last === undefined) return counts;
    after = last.seq;
  }
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Jobs of some milliseconds, and a steady flow of new ones, so that claims wait while jobs end and others come. The server
 *  hears late of connections that were closed, as behind a proxy. */
async function runAll(needsOf: (i: number) => object | undefined) {
  const server = await startServer();
  onTestFinished(server.close);
  const wire = await openWire(server.port);
  wire.hangUpLate(50);
  let ended = 0;
  let atOnce = 0;
  let most = 0;
  const all = gate();
  const work = task("work", async (i: number) => {
    atOnce += 1;
    most = Math.max(most, atOnce);
    await sleep((i * 7) % 20);
    atOnce -= 1;
    ended += 1;
    if (ended === JOBS) all.open();
  });
  const worker = await connectWorker(wire.url, [work], {
    ...{ token: server.admin, concurrency: SLOTS, resources: { cpu: CPUS, memory: "1g" }, logger: () => {} },
  });
  for (let i = 0; i < JOBS; i++) {
    const resources = needsOf(i);
    const labels = resources === undefined ? {} : resourceLabels(toResources(resources, "resources"));
    await server.engine.submit([{ kind: "work", payload: String(i), policy: presets.default, labels }]);
    // Fewer than there are slots, so that a claim is waiting; now and then more.
    while (i + 1 - ended >= (i % 100 < 90 ? SLOTS - 4 : 2 * SLOTS)) await sleep(1);
  }
  await all.passed;
  await worker.stop();
  return { counts: await eventCounts(server), most };
}

describe("of jobs that a worker claims over HTTP, all are started at once and none is released", () => {
  it.each([
    ["without resources", () => undefined],
    ["with resources", (i: number) => NEEDS[i % NEEDS.length]],
  ])("%s", { timeout: 600_000 }, async (_, needsOf) => {
    const { counts, most } = await runAll(needsOf);
    expect(counts.get("attempt.interrupted") ?? 0).toBe(0);
    expect(counts.get("attempt.lost") ?? 0).toBe(0);
    expect(counts.get("attempt.started")).toBe(JOBS);
    expect(most).toBeLessThanOrEqual(SLOTS);
  });
});
