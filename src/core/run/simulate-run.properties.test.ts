/** A simulation comes to the states of a run in memory, whose steps end in another order: where nothing fails, the order decides
 *  nothing. */
import { expect, it } from "vitest";
import { simulateRun } from "./simulate-run.ts";
import { RANDOM_PATHS, randomPlaybook, seeded } from "./testing-random.ts";
import { TestRun } from "./testing-run.ts";

const BELOW: Readonly<Record<string, (typeof RANDOM_PATHS)["b"]>> = RANDOM_PATHS;

it("a simulated playbook has the steps and the end of a run of it", () => {
  let succeeded = 0;
  for (let seed = 0; seed < 200; seed++) {
    const playbook = randomPlaybook(seed);
    const run = new TestRun(playbook, { paths: RANDOM_PATHS }).settle();
    while (run.run.phase !== "ended") {
      const open = run.open();
      const row = open[seeded(seed, run.rows.size) % Math.max(1, open.length)];
      if (row === undefined) run.now = Math.min(...run.timers.values());
      else run.endById(row.job as string, "succeeded");
      run.settle();
    }
    const { end, steps } = simulateRun({ playbook, playbooks: (path) => BELOW[path] ?? null });
    expect([seed, end.state, end.reason]).toEqual([seed, run.job.state, run.job.reason]);
    if (end.state !== "succeeded") continue;
    succeeded++;
    const simulated = steps.map(({ step, visit, item, state }) => `${step}.${visit}.${item ?? -1} ${state}`);
    const inMemory = [...run.rows.values()].map(({ node, visit, item, state }) => `${node}.${visit}.${item} ${state}`);
    expect(simulated.sort()).toEqual(inMemory.sort());
  }
  expect(succeeded).toBeGreaterThan(100);
});
