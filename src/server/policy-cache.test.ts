import { expect, it } from "vitest";
import { PolicyCache, RequestPolicies } from "./policy-cache.ts";

it("resolves a policy once per text, until it is evicted", () => {
  const cache = new PolicyCache(40_000);
  const first = cache.of({ maxAttempts: 7 });
  expect(first.maxAttempts).toBe(7);
  cache.of({ maxAttempts: 8 });
  expect(cache.of(JSON.parse('{"maxAttempts": 7}'))).toBe(first);
  for (let i = 0; i < 100; i++) cache.of({ maxAttempts: 1_000 + i });
  expect(cache.of({ maxAttempts: 7 })).not.toBe(first);
});

it("refuses what is wrong each time, with its path", () => {
  const cache = new PolicyCache();
  for (let i = 0; i < 2; i++) expect(() => cache.of({ maxAttempts: 0 })).toThrow(/^retry.maxAttempts/);
  // Printed again, the two would look alike.
  for (const text of ['{"maxAttempts":1e400}', '{"maxAttempts":null}']) {
    expect(() => cache.of(JSON.parse(text))).toThrow(/^retry.maxAttempts/);
  }
});

it("refuses one that is too long, in full or as it was given", () => {
  const cache = new PolicyCache();
  const part = (n: number) => `${n} `.padEnd(190, "x");
  const rule = (n: number) => ({
    if: { message: Array.from({ length: 20 }, (_, i) => part(n * 20 + i)) },
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"
    then: "fail",
  });
  const rules = (count: number) => ({ rules: Array.from({ length: count }, (_, n) => rule(n)) });
  expect(cache.of(rules(10)).rules).toHaveLength(10);
  expect(() => cache.of(rules(20))).toThrow(/^retry: must be a policy of at most 65536 bytes as JSON; got \d+ bytes/);
  expect(() => cache.of(rules(100))).toThrow(
    /^retry: must be a policy of at most 65536 bytes as JSON; got \d+ characters/,
  );
});

it("limits the different policies of one request, not their uses", () => {
  const policies = new RequestPolicies(new PolicyCache(), 3);
  const first = policies.of({ maxAttempts: 1 });
  for (const n of [2, 3, 1, 2, 3]) expect(policies.of({ maxAttempts: n }).maxAttempts).toBe(n);
  expect(policies.of({ maxAttempts: 1 })).toBe(first);
  expect(() => policies.of({ maxAttempts: 4 })).toThrow(/^a request may have at most 3 different retry policies/);
});

it("counts policies with the word null in them, as all others", () => {
  const policies = new RequestPolicies(new PolicyCache(), 3);
  // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"
  const ofNull = (n: number) => ({ maxAttempts: n, rules: [{ if: { message: "null" }, then: "fail" }] });
  const first = policies.of(ofNull(1));
  for (const n of [2, 3, 1]) policies.of(ofNull(n));
  expect(policies.of(ofNull(1))).toBe(first);
  expect(() => policies.of(ofNull(4))).toThrow(/^a request may have at most 3 different retry policies/);
});
