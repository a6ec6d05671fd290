import { expect, it } from "vitest";
import { PolicyCache } from "./policy-cache.ts";

it("resolves a policy once, whoever sends its text", () => {
  const cache = new PolicyCache();
  const first = cache.of({ maxAttempts: 7 });
  expect(first.maxAttempts).toBe(7);
  for (let i = 0; i < 499; i++) cache.of({ maxAttempts: 100 + i });
  expect(cache.of(JSON.parse('{"maxAttempts": 7}'))).toBe(first);
  for (let i = 0; i < 500; i++) cache.of({ maxAttempts: 1_000 + i });
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
