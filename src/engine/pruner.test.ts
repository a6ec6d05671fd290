import { expect, it } from "vitest";
import { openBench, policiesIn, tempFile } from "../../test/kit.ts";
import { lanesIn } from "../store/conformance/kit.ts";
import type { EngineParts } from "./parts.ts";
import { Pruner } from "./pruner.ts";

const [MINUTE, HOUR] = [60_000, 3_600_000];

it("the pruner deletes a lane and a policy that no job names, an hour after their last use, and searches once an hour", async () => {
  const path = tempFile();
  const { engine, store, clock, submit } = await openBench({ services: false, url: path });
  const sweeps: number[] = [];
  const watched = Object.assign(Object.create(store), {
    prune(query: Parameters<typeof store.prune>[0]) {
      if (query.namesUnusedBefore !== undefined) sweeps.push(clock.now());
      return store.prune(query);
    },
  });
  const seen = { now: () => clock.now(), monotonic: () => clock.now(), after: () => () => {} };
  const parts = { store: watched, clock: seen } as unknown as EngineParts;
  const pruner = new Pruner(parts, { succeeded: 0, failed: 0, cancelled: 0 }, 0);
  const names = async () => [await lanesIn(store), await policiesIn(path)];

  const id = await submit("k", { queue: "only-here" });
  await engine.command(id, { kind: "cancel" });
  const from = clock.now();
  for (let minute = 1; minute <= 125; minute++) {
    clock.moveTo(from + minute * MINUTE);
    await pruner.runOnce();
    if (minute === 59) expect([await names(), await store.jobs([id])]).toEqual([[1, 1], [null]]);
  }
  expect(await names()).toEqual([0, 0]);
  expect(sweeps.map((at) => at - from)).toEqual([MINUTE, HOUR + MINUTE, 2 * HOUR + MINUTE]);
});
