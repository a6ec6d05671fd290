/** Runs of playbooks under kill -9: the process that advances a run and works for it is killed after any of its writes, and the next
 *  one continues. Each step has one row and one job, and ends as without a kill. */
import { describe, expect, it } from "vitest";
import { auditStore, shapeOf, stepsOf, withStore } from "../runs/audit.ts";
import { POINTS, playbook, work } from "../runs/points.ts";
import { IS_FULL } from "../tier.ts";
import { SQLITE, STORES, start, TEST_MS } from "./kit.ts";
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

it(
  "goes on at once where nothing was running when it was killed",
  async () => {
    const { url } = SQLITE.newPlace();
    const retry = { maxAttempts: 3, backoff: { type: "fixed", delay: "50ms" } };
    const settings = {
      ...{ url, options: { key: "one" }, lease: "60s" },
      playbook: playbook([
        { step: "start", next: "fetch_data" },
        work("fetch_data", { value: 3, fail: "first" }, { retry, next: "process_data" }),
        work("process_data", { value: "{{ fetch_data + 1 }}" }),
      ]),
    };
    // The second end is the success of fetch_data; nothing has read it.
    const killed = start("runs", { ...settings, killAfter: "settle 2" });
    expect((await killed.ended).signal).toBe("SIGKILL");
    const child = start("runs", settings);
    await child.line("ready");
    const since = performance.now();
    const [, run = ""] = (await child.line("started")).split(" ");
    expect(await child.line("ended")).toMatch(/^ended succeeded/);
    const ms = performance.now() - since;
    console.log(`ended ${Math.round(ms)} ms after the restart (promised: 3,000)`);
    expect(ms).toBeLessThan(30_000); // half of the lease
    await withStore(url, async (store) => {
      expect(await shapeOf(store, run)).toEqual([
        "fetch_data#1~1 succeeded 3",
        "process_data#1~1 succeeded 4",
        "start#1~1 succeeded -",
      ]);
      const steps = await stepsOf(store, run);
      const attempts = await Promise.all(steps.flatMap(({ job }) => (job === null ? [] : [store.attempts(job)])));
      const outcomes = attempts.map((rows) => rows.map(({ outcome }) => outcome));
      expect(outcomes).toEqual([["failed", "completed"], ["completed"]]);
      await auditStore(store);
    });
  },
  TEST_MS,
);

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
