import fc from "fast-check";
import { expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { FAILURE_KINDS } from "../decision/failure.ts";
import type { PolicyFields, PolicyInput } from "./policy.ts";
import { toPolicyInput } from "./policy-input.ts";
import { PRESET_NAMES } from "./presets.ts";
import { resolvePolicy } from "./resolve-policy.ts";

const ms = fc.integer({ min: 0, max: 90_000 });
const some = <T>(value: fc.Arbitrary<T>) => fc.array(value, { minLength: 1, maxLength: 3 });
const part = <T extends object>(parts: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(parts as never, { requiredKeys: [] }) as fc.Arbitrary<object>;

const common = {
  jitter: fc.oneof(fc.boolean(), fc.double({ min: 0, max: 0.99, noNaN: true })),
  min: fc.integer({ min: 0, max: 500 }),
  max: fc.integer({ min: 1_000, max: 900_000 }),
  immediate: fc.integer({ min: 0, max: 3 }),
  clampAfterJitter: fc.boolean(),
};
const backoff = fc.oneof(
  part({ initial: ms, factor: fc.double({ min: 1, max: 9, noNaN: true }), ...common }),
  fc.tuple(some(ms), part({ offset: fc.nat(4), ...common })).map(([delays, more]) => ({
    ...{ type: "schedule", delays },
    ...more,
  })),
  fc.tuple(ms, part(common)).map(([delay, more]) => ({ type: "fixed", delay, ...more })),
  fc.constant({ type: "none" }),
);
const word = fc.constantFrom("Connection Reset", "denied", "ECONNRESET");
const condition = fc
  .tuple(
    fc.constantFrom(...FAILURE_KINDS.filter((kind) => kind !== "lost")),
    part({
      exitCode: some(fc.nat(255)),
      signal: fc.constantFrom("KILL", "SIGTERM"),
      error: some(word),
      message: word,
      status: some(fc.constantFrom<number | string>(503, "5xx", "500-504")),
      attempt: some(fc.integer({ min: 1, max: 9 })),
    }),
  )
  .map(([kind, more]) => ({ kind, ...more }));
const rule = fc.oneof(
  // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
  condition.map((wanted) => ({ if: wanted, then: "fail" })),
  fc
    .tuple(condition, fc.constantFrom("retry", "defer"), part({ maxRetries: fc.nat(9), backoff }))
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
    .map(([wanted, verdict, more]) => ({ if: wanted, then: verdict, ...more })),
);
const verdict = fc.constantFrom("retry", "fail");
const poison = fc.oneof(fc.constant(false), part({ losses: fc.integer({ min: 1, max: 9 }), within: ms }));
const input = part({
  preset: fc.constantFrom(...PRESET_NAMES),
  maxAttempts: fc.integer({ min: 1, max: 99 }),
  backoff,
  maxElapsed: ms,
  maxDefers: fc.nat(9),
  honourRetryAfter: fc.boolean(),
  retryAfterMax: ms,
  retryOnExitCodes: some(fc.nat(255)),
  noRetryOnExitCodes: some(fc.nat(255)),
  retryOn: some(word),
  noRetryOn: some(word),
  retryWhen: fc.constant("{{ status_code >= 500 }}"),
  stopWhen: fc.constant("{{ attempt >= 3 }}"),
  rules: fc.array(rule, { maxLength: 3 }),
  onTimeout: verdict,
  onUnknown: verdict,
  workerLost: fc.oneof(
    part({ charge: fc.constant("own"), maxRetries: fc.nat(9), backoff, poison }),
    part({ charge: fc.constant("shared"), poison }),
  ),
  budget: part({ tokens: fc.nat(999), costUsd: fc.double({ min: 0, max: 9, noNaN: true }) }),
});

it.each(PRESET_NAMES)("writes the preset %s back as it is", (preset) => {
  const policy = resolvePolicy({ preset });
  expect(resolvePolicy(toPolicyInput(policy))).toEqual(policy);
});

it.each([[false], [3], [{ atMostOnce: true }], [{ atMostOnce: true, preset: "opal" }]] as [PolicyInput][])(
  "writes %j back as it is",
  (given) => {
    const policy = resolvePolicy(given);
    expect(resolvePolicy(toPolicyInput(policy))).toEqual(policy);
  },
);

it("writes every policy back as it is, and in the same order", () => {
  let resolved = 0;
  const round = (given: object) => {
    let policy: ReturnType<typeof resolvePolicy>;
    try {
      policy = resolvePolicy(given as PolicyFields);
    } catch {
      return; // a floor above a cap, and the like: such a policy is never stored
    }
    resolved += 1;
    const again = resolvePolicy(toPolicyInput(policy));
    // The text's hash tells stored policies apart.
    expect(JSON.stringify(again)).toBe(JSON.stringify(policy));
  };
  fc.assert(fc.property(input, round), { numRuns: rounds(500) });
  expect(resolved).toBeGreaterThan(rounds(500) / 4);
});
