/** What a simulation plays: a list of outcomes, or failures at a rate. And many simulations at once, as a distribution. */
import type { FailReason, JobState } from "./job.ts";
import { type Scenario, simulate } from "./simulate.ts";
import type { Played } from "./simulate-outcome.ts";

/** One after the other; then nothing more, or the last again and again. */
export function scripted(list: readonly Played[], repeat = false): Scenario["next"] {
  return (n) => list[n] ?? (repeat ? (list.at(-1) ?? null) : null);
}

/** Each run fails with this chance, in one of these ways, all alike. */
export function failingAt(
  rate: number,
  ways: readonly [Played, ...Played[]],
  success: Played,
  random: () => number,
): Scenario["next"] {
  return () => {
    if (random() >= rate) return success;
    return ways[Math.floor(random() * ways.length)] ?? ways[0];
  };
}

/** Of many numbers. The percentiles are numbers that occurred. */
export interface Spread {
  readonly mean: number;
  readonly least: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly most: number;
}

/** How many simulations ended alike. */
export interface EndShare {
  readonly state: JobState;
  readonly reason: FailReason | null;
  readonly count: number;
  readonly share: number;
}

export interface Distribution {
  readonly runs: number;
  /** Fewer simulations than were asked for: together they had more steps than are played. */
  readonly cutShort: boolean;
  readonly succeeded: number;
  readonly succeededShare: number;
  /** The commonest first. */
  readonly ends: readonly EndShare[];
  readonly attempts: Spread;
  readonly totalMs: Spread;
}

/** Steps of all simulations together: ten seconds or so. */
export const MAX_TOTAL_STEPS = 1_000_000;

/** So many simulations of one scenario, at least one. Its draws must go on from one to the next. */
export function simulateMany(scenario: Scenario, runs: number, maxSteps = MAX_TOTAL_STEPS): Distribution {
  const ends = new Map<string, { state: JobState; reason: FailReason | null; count: number }>();
  const [attempts, totals]: [number[], number[]] = [[], []];
  for (let steps = 0; attempts.length < runs && (attempts.length === 0 || steps < maxSteps); ) {
    const { end, steps: played } = simulate(scenario);
    steps += played.length;
    attempts.push(end.attempts);
    totals.push(end.totalMs);
    const name = `${end.state} ${end.reason}`;
    const alike = ends.get(name) ?? { state: end.state, reason: end.reason, count: 0 };
    ends.set(name, { ...alike, count: alike.count + 1 });
  }
  const done = attempts.length;
  const succeeded = ends.get("succeeded null")?.count ?? 0;
  const counted = [...ends.values()].sort((a, b) => b.count - a.count);
  return {
    ...{ runs: done, cutShort: done < runs, succeeded, succeededShare: succeeded / done },
    ends: counted.map((each) => ({ ...each, share: each.count / done })),
    ...{ attempts: spreadOf(attempts), totalMs: spreadOf(totals) },
  };
}

function spreadOf(numbers: readonly number[]): Spread {
  const sorted = [...numbers].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number;
  const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  return { mean, least: at(0), p50: at(0.5), p90: at(0.9), p99: at(0.99), most: at(1) };
}
