/** Ten thousand random playbooks, each ended, cancelled or redriven by a seed; `TestRun` checks what must hold after every advance.
 *  Those of advance.properties.test.ts are fewer, and shrink. */
import { expect, it } from "vitest";
import { finishRandomly, RANDOM_PATHS, randomPlaybook } from "./testing-random.ts";
import { TestRun } from "./testing-run.ts";

const COUNT = 10_000;

it("every random run ends, and ends again after redrives", { timeout: 600_000 }, () => {
  const ends: Record<string, number> = {};
  for (let seed = 0; seed < COUNT; seed++) {
    const run = new TestRun(randomPlaybook(seed), { paths: RANDOM_PATHS, running: seed % 3 === 0 });
    const cancelAt = seed % 7 === 0 ? seed % 5 : -1;
    finishRandomly(run, { seed, failing: seed % 2 === 0 ? 0 : 20, cancelAt, running: false, reversed: seed % 4 === 0 });
    for (let times = 0; times < 2 && run.job.state !== "succeeded"; times++) {
      run.redrive().settle();
      finishRandomly(run, { seed: seed + times, failing: 0, cancelAt: -1, running: false, reversed: false });
    }
    ends[run.job.state] = (ends[run.job.state] ?? 0) + 1;
  }
  // Some fail however often they are redriven: joins of more branches than there are, and steps that must take an arc.
  expect(ends.succeeded).toBeGreaterThan(COUNT * 0.7);
  expect(ends.cancelled).toBeUndefined();
});
