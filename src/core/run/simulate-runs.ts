/** Plays a playbook many times with random failures and jitter, and counts how it ends. */
import type { FailReason } from "../job/job.ts";
import { type Percentiles, spreadOf } from "../simulate/simulate.ts";
import { type RunScenario, type RunSimulationEnd, simulateRun } from "./simulate-run.ts";

/** Of many simulations. */
export interface RunDistribution {
  readonly runs: number;
  /** Fewer than requested, as the total of events is limited. */
  readonly cutShort: boolean;
  readonly succeeded: number;
  readonly succeededShare: number;
  /** The most frequent first. */
  readonly ends: readonly RunEndShare[];
  readonly steps: Percentiles;
  readonly attempts: Percentiles;
  readonly totalMs: Percentiles;
}

interface RunEndShare {
  readonly state: RunSimulationEnd["state"];
  readonly reason: FailReason | null;
  readonly step: string | null;
  readonly count: number;
  readonly share: number;
}

/** Attempts of all simulations: about ten seconds. */
const MAX_ATTEMPTS = 300_000;

/** Plays a scenario this many times, at least once. Its random numbers must continue from one to the next. */
export function simulateRuns(scenario: RunScenario, runs: number, maxAttempts = MAX_ATTEMPTS): RunDistribution {
  const ends = new Map<string, RunEndShare>();
  const [steps, attempts, totals]: [number[], number[], number[]] = [[], [], []];
  for (let played = 0; steps.length < runs && (steps.length === 0 || played < maxAttempts); ) {
    const { end } = simulateRun(scenario);
    played += end.attempts + end.steps;
    steps.push(end.steps);
    attempts.push(end.attempts);
    totals.push(end.totalMs);
    const { state, reason, step } = end;
    const name = JSON.stringify([state, reason, step]);
    ends.set(name, { state, reason, step, share: 0, count: (ends.get(name)?.count ?? 0) + 1 });
  }
  const done = steps.length;
  const counts = [...ends.values()].sort((a, b) => b.count - a.count);
  const succeeded = counts.filter(({ state }) => state === "succeeded").reduce((sum, { count }) => sum + count, 0);
  return {
    runs: done,
    cutShort: done < runs,
    succeeded,
    succeededShare: succeeded / done,
    ends: counts.map((each) => ({ ...each, share: each.count / done })),
    steps: spreadOf(steps),
    attempts: spreadOf(attempts),
    totalMs: spreadOf(totals),
  };
}
