/** Two engines, each with a connection pool of its own, advance the same thousand runs on one PostgreSQL: nothing is done twice, and
 *  what one of them decides is hardly ever decided by the other, too. In `npm test`, src/embedded/shared-runs.test.ts does a few. */
import { expect, it, onTestFinished } from "vitest";
import type { PlaybooksApi } from "../../src/core/api/playbooks.ts";
import type { RunsApi } from "../../src/core/api/runs.ts";
import { hostEnvironmentOf } from "../../src/embedded/open-engine.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { task } from "../../src/index.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import type { AdvanceAnswer, Store } from "../../src/store/store.ts";
import { newSchema } from "../postgres/kit.ts";
import { auditRuns, withStore } from "./audit.ts";
import { playbook, work } from "./points.ts";

const RUNS = 1_000;
const AT_ONCE = 100;

/** `share`: of the writes of advances, how many must count. Ends of branches at the same moment, one on each engine, are decided by
 *  both, and one of them is repeated; how often depends on how busy the machine is. */
const CASES = [
  {
    ...{ name: "of steps in a row", share: 0.99, steps: 5, jobs: 4 },
    playbook: playbook([
      { step: "start", next: "a" },
      work("a", { value: 1 }, { next: "b" }),
      work("b", { value: "{{ a + 1 }}" }, { next: "c" }),
      work("c", { value: "{{ b + 2 }}" }, { next: "d" }),
      work("d", { value: "{{ c + 3 }}" }),
    ]),
  },
  {
    ...{ name: "with branches that end at the same moment", share: 0.5, steps: 8, jobs: 6 },
    playbook: playbook([
      { step: "start", next: ["a", "each"] },
      work("a", { value: 1 }, { next: "join" }),
      work("each", { value: "{{ n }}" }, { loop: { in: [1, 2, 3], iterator: "n", concurrency: 2 }, next: "join" }),
      work("join", { value: "{{ a + (each | sum) }}" }, { next: "last" }),
      work("last", { value: "{{ join }}" }),
    ]),
  },
];

it.each(CASES)(
  "two engines advance the same 1,000 runs $name",
  async ({ share: least, steps, jobs, ...one }) => {
    const { url } = newSchema("engines");
    const counts = { written: 0, moved: 0 };
    const started = new Map<string, number>();
    const open = Perdure.open as (...args: unknown[]) => Promise<Perdure & RunsApi & PlaybooksApi>;
    const step = task("work", ({ value }: { value: unknown }, { jobId }) => {
      started.set(jobId, (started.get(jobId) ?? 0) + 1);
      return value;
    });
    const engines = await Promise.all(
      [0, 1].map(() =>
        open({ url }, { ...hostEnvironmentOf(systemClock), wrapStore: (store: Store) => counted(store, counts) }),
      ),
    );
    onTestFinished(async () => {
      await Promise.all(engines.map((engine) => engine.close({ grace: 0 })));
    });
    for (const engine of engines) await engine.work([step], { concurrency: 20 });
    let next = 0;
    const start = performance.now();
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (next < RUNS) {
          const engine = engines[next++ % 2] as (typeof engines)[number];
          const run = await engine.run(one.playbook);
          expect(await run.result({ timeout: "2m" })).toBe(7);
        }
      }),
    );
    const seconds = (performance.now() - start) / 1_000;
    const share = counts.written / (counts.written + counts.moved);
    console.log(
      `${RUNS} runs in ${seconds.toFixed(1)} s; ${counts.written} writes, ${counts.moved} moved: ${(100 * share).toFixed(2)} %`,
    );
    expect(share).toBeGreaterThanOrEqual(least);
    expect([...started.values()].filter((times) => times !== 1)).toEqual([]);
    expect(started.size).toBe(RUNS * jobs);
    expect(await withStore(url, auditRuns)).toBe(RUNS * steps);
  },
  600_000,
);

function counted(store: Store, counts: Record<AdvanceAnswer["status"], number>): Store {
  const runs: Store["runs"] = {
    ...store.runs,
    async advance(writes, now) {
      const answers = await store.runs.advance(writes, now);
      for (const { status } of answers) counts[status] += 1;
      return answers;
    },
  };
  return { ...store, runs };
}
