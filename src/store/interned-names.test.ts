import { expect, it } from "vitest";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { PolicyMemory } from "./interned-names.ts";

it("cached policies are limited by their bytes, however many are used", () => {
  const memory = new PolicyMemory(100_000);
  const policy = resolvePolicy(7);
  const body = JSON.stringify(policy);
  memory.set(1, policy, body);
  expect(memory.get(1)).toBe(policy);
  for (let no = 2; no < 1_000; no++) memory.set(no, policy, body);
  expect(memory.get(1)).toBeUndefined();
  expect(memory.get(999)).toBe(policy);
});
