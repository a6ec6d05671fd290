/** Many live runs while the processes that advance them and work for them are killed at random: all end with their results, each step
 *  once, and every invariant of runs holds over the whole database. */
import { describe, expect, it } from "vitest";
import { auditStore, stepsOf, withStore } from "../runs/audit.ts";
import { playbook, work } from "../runs/points.ts";
import { type Child, Dice, open, POSTGRES, pass, SOAK, SQLITE, start, TEST_MS, until } from "./kit.ts";

const RUNS = 200 * SOAK;
const KILLS = 40 * SOAK;
const PROCESSES = 3;

const PATIENT = { maxAttempts: 3, backoff: { type: "none" }, workerLost: { maxRetries: 10_000, poison: false } };

const below = playbook([work("inner", { value: "{{ workload.n * 2 }}", ms: 150 })], { result: "{{ inner }}" });
const main = playbook(
  [
    { step: "start", next: ["left", "each", "below", "risky"] },
    work("left", { value: "{{ workload.n }}", ms: 150 }, { set: { seen: "{{ result }}" }, next: "pause" }),
    { step: "pause", type: "wait", for: "300ms", next: "join" },
    work(
      "each",
      { value: "{{ i }}", ms: 150 },
      { loop: { in: [1, 2, 3], iterator: "i", concurrency: 2 }, next: "join" },
    ),
    { step: "below", type: "playbook", path: "./below.yaml", data: { n: "{{ workload.n }}" }, next: "join" },
    work(
      "risky",
      { fail: "always" },
      {
        retry: { ...PATIENT, maxAttempts: 1 },
        next: [{ step: "rescue", when: "{{ error != None }}" }],
      },
    ),
    work("rescue", { value: 1 }, { next: "join" }),
    work("join", { value: "{{ ctx.seen + below + (each | sum) + rescue }}" }),
    work("tidy", { value: "tidy" }),
  ],
  { finally: "tidy", result: "{{ join }}", defaults: { retry: PATIENT } },
);
const given = {
  source: JSON.stringify(main),
  files: { "below.yaml": JSON.stringify({ ...below, defaults: { retry: PATIENT } }) },
};

describe.each([SQLITE, POSTGRES])("on $name", (store) => {
  it(
    "live runs end the same, while their processes are killed at random",
    async () => {
      const dice = new Dice("kills of runs");
      const { url } = store.newPlace();
      const perdure = await open(url, { lease: "1s" });
      const engine = () => start("runs", { url, concurrency: 10 });
      const children: Child[] = Array.from({ length: PROCESSES }, engine);
      const ids: string[] = [];
      for (let n = 0; n < RUNS; n++) ids.push((await perdure.run(given, { n })).id);
      // From here on, only processes that may be killed advance them.
      await perdure.close({ grace: 0 });
      let kills = 0;
      const live = () =>
        withStore(
          url,
          async ({ runs }) =>
            (await Promise.all(ids.map((id) => runs.row(id)))).filter((row) => row?.phase !== "ended").length,
        );
      for (; kills < KILLS && (kills % 5 !== 0 || (await live()) > 0); kills++) {
        await pass(dice.between(50, 400));
        const victim = dice.between(0, PROCESSES - 1);
        await children[victim]?.kill();
        children[victim] = engine();
      }
      const since = performance.now();
      await until("all runs have ended", async () => (await live()) === 0 || undefined, TEST_MS * 2);
      console.log(
        `${store.name}: ${kills} kills; all ended ${Math.round(performance.now() - since)} ms after the last`,
      );
      for (const child of children) await child.kill();
      await withStore(url, async (opened) => {
        for (const [n, id] of ids.entries()) {
          const row = await opened.runs.row(id);
          expect([n, row?.failure, row?.result]).toEqual([n, null, String(3 * n + 7)]);
          expect(await stepsOf(opened, id)).toHaveLength(12);
        }
        await auditStore(opened);
      });
    },
    TEST_MS * 4,
  );
});
