import { describe, expect, it } from "vitest";
import { all, openBench } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";

const POLICY = resolvePolicy();
const many = (count: number) => Array.from({ length: count }, () => ({ kind: "k", payload: "null", policy: POLICY }));

describe("the event feed", () => {
  it.each([499, 500, 501, 1_000])("ends after %i events, whatever the page size", async (count) => {
    const bench = await openBench({ services: false });
    await bench.engine.submit(many(count));
    const events = await all(bench.engine.events({}));
    expect(events).toHaveLength(count);
    expect(new Set(events.map(({ seq }) => seq)).size).toBe(count);
  });

  it("skips and repeats nothing while others write, page after page", async () => {
    const bench = await openBench({ services: false });
    const controller = new AbortController();
    const seen: number[] = [];
    const following = (async () => {
      for await (const { seq } of bench.engine.events({ follow: true, signal: controller.signal })) {
        seen.push(seq);
        if (seq % 7 === 0) await new Promise((resolve) => setImmediate(resolve)); // a slow reader
        if (seen.length === 3_000) controller.abort();
      }
    })();
    for (let round = 0; round < 60; round++) await bench.engine.submit(many(50));
    await following;
    expect(seen).toEqual(Array.from({ length: 3_000 }, (_, i) => i + 1));
  });

  it("polls every second, in case a hint is missed", async () => {
    const bench = await openBench({ services: false });
    const controller = new AbortController();
    const names: string[] = [];
    const following = (async () => {
      for await (const { name } of bench.engine.events({ follow: true, signal: controller.signal })) names.push(name);
    })();
    await bench.settled();
    await bench.store.queues.setPaused("default", "q", true, bench.clock.now()); // past the engine
    await bench.settled();
    expect(names).toEqual([]);
    await bench.advance(1_000);
    expect(names).toEqual(["queue.paused"]);
    controller.abort();
    await following;
  });

  it("leaves no timer behind when its reader stops", async () => {
    const bench = await openBench({ services: false });
    await bench.engine.submit(many(3));
    for await (const event of bench.engine.events({ follow: true })) {
      if (event.seq === 2) break;
    }
    expect(bench.clock.nextAt()).toBeNull();
  });

  it("of a job that does not exist is empty", async () => {
    const bench = await openBench({ services: false });
    expect(await all(bench.engine.events({ jobId: "job_00000000000000000000000000" }))).toEqual([]);
  });
});
