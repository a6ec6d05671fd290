/** Runs of playbooks under kill -9: the process that advances a run and works for it is killed after any of its writes, and the next
 *  one continues. Each step has one row and one job, and ends as without a kill. */
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/lib/system-clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { auditStore, shapeOf } from "../runs/audit.ts";
import { POINTS } from "../runs/points.ts";
import { IS_FULL } from "../tier.ts";
import { STORES, start, TEST_MS } from "./kit.ts";
import type { StoreKind } from "./stores.ts";

const SAMPLE = 4;
/** They spend most of their time waiting for the lease of the killed process. */
const AT_ONCE = 4;

describe.each(STORES)("on $name", (store) => {
  it(
    "a run ends the same, whichever write its process was killed after",
    async () => {
      const { shape, writes } = await live(store, 0);
      const points = Array.from({ length: writes }, (_, i) => i + 1);
      const chosen = IS_FULL ? points : points.filter((k) => k % Math.ceil(writes / SAMPLE) === 2);
      console.log(`crash points of processes on ${store.name}: ${chosen.length} of ${writes}`);
      for (let at = 0; at < chosen.length; at += AT_ONCE) {
        const some = chosen.slice(at, at + AT_ONCE);
        const lives = await Promise.all(some.map((k) => live(store, k)));
        for (const [i, one] of lives.entries()) expect([some[i], one.shape]).toEqual([some[i], shape]);
      }
    },
    TEST_MS * (IS_FULL ? 4 : 1),
  );
});

/** One life, or two. */
async function live(store: StoreKind, killAfter: number) {
  const { url } = store.newPlace();
  const settings = { url, playbook: POINTS.playbook, options: POINTS.options, concurrency: IS_FULL ? 1 : 4 };
  if (killAfter > 0) {
    const killed = start("runs", { ...settings, killAfter });
    expect([killAfter, (await killed.ended).signal]).toEqual([killAfter, "SIGKILL"]);
  }
  const child = start("runs", settings);
  const [, run = ""] = (await child.line("started")).split(" ");
  const [, state, writes] = (await child.line("ended")).split(" ");
  await child.ended;
  expect([child.errors, state]).toEqual(["", "succeeded"]);
  return withStore(url, async (opened) => {
    expect((await opened.runs.row(run))?.result).toBe(JSON.stringify(POINTS.result));
    await auditStore(opened);
    return { shape: await shapeOf(opened, run), writes: Number(writes) };
  });
}

async function withStore<T>(url: string, call: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore({ url, clock: systemClock, random: Math.random, newSecret: () => "x".repeat(32) });
  try {
    return await call(store);
  } finally {
    await store.close();
  }
}
