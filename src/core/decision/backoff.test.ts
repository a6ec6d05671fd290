import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { MAX_DURATION_MS } from "../duration.ts";
import type { Backoff } from "../policy/policy.ts";
import { backoffMs, showBackoff } from "./backoff.ts";

type Of<T extends Backoff["type"]> = Extract<Backoff, { type: T }>;
const common = { jitter: 0, minMs: 0, immediate: 0, clampAfterJitter: false };

function exponential(parts: Partial<Of<"exponential">> = {}): Backoff {
  return { type: "exponential", initialMs: 1_000, factor: 2, maxMs: 30_000, ...common, ...parts };
}
function schedule(parts: Partial<Of<"schedule">> = {}): Backoff {
  return { type: "schedule", delaysMs: [3_000, 8_000, 15_000], offset: 0, maxMs: 15_000, ...common, ...parts };
}
function fixed(parts: Partial<Of<"fixed">> = {}): Backoff {
  return { type: "fixed", delayMs: 5_000, maxMs: 5_000, ...common, ...parts };
}
function delays(backoff: Backoff, upTo: number, random = 0.5): number[] {
  return Array.from({ length: upTo }, (_, index) => backoffMs(backoff, index + 1, random).delayMs);
}

describe("delays without jitter", () => {
  it.each<[string, Backoff, number[]]>([
    ["exponential, capped", exponential(), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]],
    ["exponential with factor 1", exponential({ factor: 1 }), [1_000, 1_000, 1_000]],
    ["exponential from 0", exponential({ initialMs: 0 }), [0, 0, 0]],
    ["exponential with a cap below initial", exponential({ initialMs: 30_000, maxMs: 10_000 }), [10_000, 10_000]],
    ["exponential in whole milliseconds", exponential({ initialMs: 1, factor: 1.5 }), [1, 2, 2, 3, 5]],
    ["schedule, the last repeats", schedule(), [3_000, 8_000, 15_000, 15_000]],
    ["schedule with offset", schedule({ offset: 1 }), [8_000, 15_000, 15_000]],
    ["schedule with an offset past its end", schedule({ offset: 100 }), [15_000, 15_000]],
    ["schedule with a cap", schedule({ maxMs: 5_000 }), [3_000, 5_000, 5_000]],
    ["schedule without a delay", schedule({ delaysMs: [] }), [0, 0]],
    ["fixed", fixed(), [5_000, 5_000]],
    ["fixed with a cap", fixed({ maxMs: 2_000 }), [2_000, 2_000]],
    ["none", { type: "none" }, [0, 0]],
    ["immediate first", exponential({ immediate: 1 }), [0, 1_000, 2_000, 4_000]],
    ["two immediate, then the schedule from its start", schedule({ immediate: 2 }), [0, 0, 3_000, 8_000]],
    ["a floor", exponential({ minMs: 3_000 }), [3_000, 3_000, 4_000]],
    ["a floor, but not under immediate retries", fixed({ immediate: 1, minMs: 6_000, maxMs: 9_000 }), [0, 6_000]],
  ])("%s", (_, backoff, expected) => {
    expect(delays(backoff, expected.length)).toEqual(expected);
  });

  it("answers with base, jitter and delay", () => {
    expect(backoffMs(exponential(), 3, 0)).toEqual({ baseMs: 4_000, jitter: 0, delayMs: 4_000 });
    expect(Object.is(backoffMs(exponential(), 1, 0).jitter, 0)).toBe(true);
    expect(backoffMs({ type: "none" }, 3, 0)).toEqual({ baseMs: 0, jitter: 0, delayMs: 0 });
    expect(backoffMs(exponential({ immediate: 3, jitter: 0.5, minMs: 9 }), 3, 0)).toEqual({
      baseMs: 0,
      jitter: 0,
      delayMs: 0,
    });
  });
});

describe("jitter", () => {
  it.each([
    [0, -0.25, 750],
    [0.5, 0, 1_000],
    [0.75, 0.125, 1_125],
    [1, 0.25, 1_250], // not drawn by Math.random, but harmless
  ])("maps a draw of %d onto %d", (random, jitter, delayMs) => {
    expect(backoffMs(exponential({ jitter: 0.25 }), 1, random)).toEqual({ baseMs: 1_000, jitter, delayMs });
  });

  it("comes after the cap, so that a delay may lie above it", () => {
    expect(backoffMs(exponential({ jitter: 0.5 }), 20, 0.99).delayMs).toBe(44_700);
  });

  it("does not pass the cap with clampAfterJitter", () => {
    const backoff = exponential({ jitter: 0.5, clampAfterJitter: true });
    expect(backoffMs(backoff, 20, 0.99)).toMatchObject({ baseMs: 30_000, delayMs: 30_000 });
    expect(backoffMs(backoff, 20, 0).delayMs).toBe(15_000);
  });

  it("comes before the floor", () => {
    expect(backoffMs(exponential({ jitter: 0.5, minMs: 900 }), 1, 0)).toEqual({
      baseMs: 1_000,
      jitter: -0.5,
      delayMs: 900,
    });
  });

  it.each([Number.NaN, -0.1, 1.1, Infinity])("takes a draw of %d as the middle", (random) => {
    expect(backoffMs(exponential({ jitter: 0.5 }), 1, random)).toEqual({ baseMs: 1_000, jitter: 0, delayMs: 1_000 });
  });
});

describe("counts out of the ordinary", () => {
  it.each([1e6, Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, Infinity])("gives max at retry %d", (r) => {
    expect(backoffMs(exponential(), r, 0.5).delayMs).toBe(30_000);
    expect(backoffMs(exponential({ factor: 1 }), r, 0.5).delayMs).toBe(1_000);
    expect(backoffMs(exponential({ initialMs: 0 }), r, 0.5).delayMs).toBe(0);
    expect(backoffMs(schedule(), r, 0.5).delayMs).toBe(15_000);
  });

  it.each([0, -1, Number.NaN, -Infinity, 1.9])("takes retry %d as the first", (r) => {
    expect(backoffMs(exponential(), r, 0.5).delayMs).toBe(1_000);
    expect(backoffMs(schedule(), r, 0.5).delayMs).toBe(3_000);
  });
});

const ms = fc.integer({ min: 0, max: MAX_DURATION_MS });
const shared = {
  jitter: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  minMs: fc.integer({ min: 0, max: 100_000 }),
  maxMs: fc.integer({ min: 100_000, max: MAX_DURATION_MS }),
  immediate: fc.nat(5),
  clampAfterJitter: fc.boolean(),
};
const anyBackoff: fc.Arbitrary<Exclude<Backoff, { type: "none" }>> = fc.oneof(
  fc.record({
    type: fc.constant("exponential" as const),
    initialMs: ms,
    factor: fc.double({ min: 1, max: 1_000, noNaN: true }),
    ...shared,
  }),
  fc.record({
    type: fc.constant("schedule" as const),
    delaysMs: fc.array(ms, { minLength: 1, maxLength: 10 }),
    offset: fc.nat(10),
    ...shared,
  }),
  fc.record({ type: fc.constant("fixed" as const), delayMs: ms, ...shared }),
);
const anyDraw = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const anyRetry = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 1_000_000 }));

describe("for all backoffs, retries and draws", () => {
  it("a delay is a whole number of milliseconds within its bounds", () => {
    fc.assert(
      fc.property(anyBackoff, anyRetry, anyDraw, (backoff, r, random) => {
        const { baseMs, jitter, delayMs } = backoffMs(backoff, r, random);
        expect(Number.isSafeInteger(baseMs) && Number.isSafeInteger(delayMs)).toBe(true);
        if (r <= backoff.immediate) {
          expect([baseMs, jitter, delayMs]).toEqual([0, 0, 0]);
          return;
        }
        expect(Math.abs(jitter)).toBeLessThanOrEqual(backoff.jitter);
        expect(baseMs).toBeLessThanOrEqual(backoff.maxMs);
        const spread = baseMs * backoff.jitter;
        const most = backoff.clampAfterJitter ? backoff.maxMs : Math.ceil(baseMs + spread) + 1;
        expect(delayMs).toBeGreaterThanOrEqual(Math.max(backoff.minMs, 0));
        expect(delayMs).toBeGreaterThanOrEqual(Math.min(backoff.maxMs, Math.floor(baseMs - spread) - 1));
        expect(delayMs).toBeLessThanOrEqual(Math.max(backoff.minMs, most));
      }),
      { numRuns: rounds(2_000) },
    );
  });

  it("an exponential base never falls from one retry to the next", () => {
    fc.assert(
      fc.property(anyBackoff, anyRetry, (backoff, r) => {
        fc.pre(backoff.type === "exponential");
        expect(backoffMs(backoff, r + 1, 0.5).baseMs).toBeGreaterThanOrEqual(backoffMs(backoff, r, 0.5).baseMs);
      }),
    );
  });

  it("the same draw gives the same answer, and a higher draw no shorter delay", () => {
    fc.assert(
      fc.property(anyBackoff, anyRetry, anyDraw, anyDraw, (backoff, r, one, other) => {
        const [low, high] = [Math.min(one, other), Math.max(one, other)];
        expect(backoffMs(backoff, r, low)).toEqual(backoffMs(backoff, r, low));
        expect(backoffMs(backoff, r, high).delayMs).toBeGreaterThanOrEqual(backoffMs(backoff, r, low).delayMs);
      }),
    );
  });
});

it.each<[Backoff, string]>([
  [{ type: "none", ...common }, "none"],
  [fixed(), "fixed 5 s"],
  [exponential(), "exponential 1 s to 30 s, factor 2"],
  [schedule(), "schedule 3 s, 8 s, 15 s"],
])("is shown in one line: %o", (backoff, expected) => {
  expect(showBackoff(backoff)).toBe(expected);
});
