/** Every crash point of a run: the engine dies after each of its writes in turn, and what follows is the same as if it had not. */
import { describe, expect, it } from "vitest";
import { Dice, STORES, TEST_MS } from "../crash/kit.ts";
import type { StoreKind } from "../crash/stores.ts";
import { IS_FULL } from "../tier.ts";
import { auditStore, shapeOf } from "./audit.ts";
import { type Life, openLife } from "./lives.ts";
import { POINTS, worker } from "./points.ts";

const SAMPLE = 8;

describe.each(STORES)("on $name", (store) => {
  it(
    "a run ends the same, whichever write was the last of its engine",
    async () => {
      const { shape, writes } = await live(store, []);
      expect(shape.length).toBeGreaterThan(15);
      const points = Array.from({ length: writes }, (_, i) => i + 1);
      const chosen = IS_FULL ? points : points.filter((k) => k % Math.ceil(writes / SAMPLE) === 1);
      console.log(`crash points on ${store.name}: ${chosen.length} of ${writes}`);
      for (const k of chosen) {
        const one = await live(store, [k]);
        expect([k, one.lives, one.shape]).toEqual([k, 2, shape]);
      }
    },
    TEST_MS * (IS_FULL ? 6 : 1),
  );

  it.runIf(IS_FULL)(
    "also if the next ones die, too",
    async () => {
      const dice = new Dice("crash points");
      const { shape } = await live(store, []);
      for (let round = 0; round < Math.ceil(30 * store.share); round++) {
        const deaths = Array.from({ length: dice.between(2, 4) }, () => dice.between(1, 12));
        const one = await live(store, deaths);
        expect([deaths, one.shape]).toEqual([deaths, shape]);
      }
    },
    TEST_MS,
  );
});

/** Until the run has ended; `deaths`: the last write of each life but the last. */
async function live(store: StoreKind, deaths: readonly number[]) {
  const { url } = store.newPlace();
  let startAt: number | undefined;
  let writes = 0;
  for (let lives = 1; ; lives++) {
    const life = await openLife({
      ...{ url, diesAfter: deaths[lives - 1] ?? 0 },
      ...(startAt === undefined ? {} : { startAt }),
    });
    const run = await end(life, IS_FULL ? 1 : 4);
    writes = Math.max(writes, life.writes);
    startAt = life.clock.now();
    if (run === null) {
      await life.end();
      continue;
    }
    const shape = await shapeOf(life.store, run);
    const row = await life.store.runs.row(run);
    expect([row?.failure ?? null, row?.result]).toEqual([null, JSON.stringify(POINTS.result)]);
    await auditStore(life.store);
    await life.end();
    return { shape, writes, lives };
  }
}

/** Its id when it has ended; null if the engine died before. */
async function end(life: Life, concurrency: number): Promise<string | null> {
  let id: string | null = null;
  void life.perdure.work([worker()], { concurrency }).catch(() => {});
  void life.perdure.run(POINTS.playbook, {}, POINTS.options).then((run) => {
    id = run.id;
  });
  await life.until(async () => id !== null && (await life.store.runs.row(id))?.phase === "ended");
  return life.isDead ? null : id;
}
