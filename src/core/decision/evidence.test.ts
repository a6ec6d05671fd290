/** The poison guard over whole fleets, in virtual time: workers that are killed at random condemn nobody, and a job that kills
 *  its workers is found out. */
import { describe, expect, it } from "vitest";
import { IS_FULL, SEED } from "../../../test/tier.ts";
import { chanceText, DECISIVE, evidenceOf } from "./evidence.ts";
import { type FleetPlan, runFleet } from "./testing-fleet.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

describe("workers killed at random", () => {
  /** Most are done soon, some take longer than a worker lives. */
  const runMs = (draw: number) => (draw < 0.3 ? 250 + draw * 3_000 : 50 + draw * 400);
  const [rates, delays] = IS_FULL
    ? [
        [1_600, 5_000, 30_000],
        [500, 16_000],
      ]
    : [[1_600, 30_000], [500]];
  const fleets = [1, 4, 16].flatMap((slots) =>
    rates.flatMap((killEveryMs) => delays.map((foundAfterMs) => ({ slots, killEveryMs, foundAfterMs }))),
  );

  it.each(fleets)(
    "fail no innocent job: $slots slots, one worker runs for $killEveryMs ms, losses found after $foundAfterMs",
    (parts) => {
      const count = IS_FULL ? 4_000 : 400;
      const { jobs, kills, losses } = runFleet({ workers: 8, jobs: count, runMs, seed: SEED + 10, ...parts });
      expect(jobs.filter(({ state }) => state !== "succeeded").map(({ id, reason }) => ({ id, reason }))).toEqual([]);
      expect(kills).toBeGreaterThan(0);
      // The old rule, three quick losses in a row, would have had its victims.
      if (parts.killEveryMs === 1_600) expect(losses.filter((lost) => lost >= 3).length).toBeGreaterThan(0);
    },
  );

  it("fail no innocent job with a single worker", () => {
    const plan = { workers: 1, slots: 4, jobs: 400, runMs, killEveryMs: 1_600, foundAfterMs: 500 };
    for (const seed of [SEED, SEED + 1]) {
      const { jobs } = runFleet({ ...plan, seed });
      expect(jobs.filter(({ reason }) => reason === "poison")).toEqual([]);
    }
  });
});

describe("jobs that end their workers", () => {
  const healthy = { workers: 8, jobs: 300, runMs: (draw: number) => 50 + draw * 400, seed: 7 };
  const poisonIn = (plan: Partial<FleetPlan> & Pick<FleetPlan, "slots" | "poison">) => {
    const result = runFleet({ ...healthy, killEveryMs: 0, foundAfterMs: 500, ...plan });
    const guilty = result.jobs.flatMap(({ reason }, no) => (reason === "poison" ? [result.losses[no] as number] : []));
    expect(result.jobs.filter(({ state }) => state === "succeeded")).toHaveLength(healthy.jobs);
    return { ...result, guilty };
  };

  it.each([1, 4, 16])("are condemned after three losses where all else is calm: %i slots", (slots) => {
    const { guilty, losses } = poisonIn({ slots, poison: { count: 1, afterMs: 20 } });
    expect(guilty).toEqual([3]);
    // Two of its runs had company; from then on it was alone.
    expect(losses.filter((lost) => lost > 0).length).toBeLessThanOrEqual(1 + 2 * (slots - 1));
    expect(Math.max(...losses)).toBe(3);
  });

  it.each([1, 4, 16])("need one more loss where only a lease shows it: %i slots", (slots) => {
    const { guilty } = poisonIn({ slots, poison: { count: 1, afterMs: 20 }, foundAfterMs: 16_000 });
    expect(guilty).toEqual([slots === 1 ? 3 : 4]);
  });

  it.each([1, 4, 16])("are found although there are several, and workers are killed: %i slots", (slots) => {
    const { guilty } = poisonIn({ slots, poison: { count: 5, afterMs: 20 }, killEveryMs: 30_000 });
    expect(guilty).toHaveLength(5);
    for (const lost of guilty) expect(lost).toBeLessThanOrEqual(12);
  });
});

describe("evidence", () => {
  it("is less, the longer it ran and the more others died", () => {
    const calm = { lost: 0, watchedMs: 0 };
    expect(evidenceOf(5 * SECOND, calm)).toBeGreaterThanOrEqual(DECISIVE);
    expect(evidenceOf(16 * SECOND, calm)).toBeLessThan(DECISIVE);
    const busy = { lost: 4, watchedMs: 50 * MINUTE };
    expect(evidenceOf(SECOND, busy)).toBe(27);
    expect(evidenceOf(10 * SECOND, busy)).toBeLessThan(evidenceOf(SECOND, busy));
    expect(evidenceOf(SECOND, { lost: 99, watchedMs: 0 })).toBe(0);
    expect(evidenceOf(0, calm)).toBe(97);
    expect([30, 60, 61, 300].map(chanceText)).toEqual([
      "one in 1,000",
      "one in 1,000,000",
      "one in 1,300,000",
      "less than one in a billion",
    ]);
  });
});
