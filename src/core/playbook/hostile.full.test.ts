import fc from "fast-check";
import { expect, it } from "vitest";
import { exampleSources, mutated } from "../../../test/hostile-playbooks.ts";
import { checkReading } from "../../../test/playbook-reading.ts";
import { SEED } from "../../../test/tier.ts";
import { readYaml } from "../../yaml/read.ts";

const documents = exampleSources().map(([file, source]) => readYaml(source, file).value);

it("97,000 changed playbooks are read or refused, each in less than five seconds", { timeout: 600_000 }, () => {
  let slowest = 0;
  for (let i = 0; i < 97_000; i++) {
    const began = performance.now();
    checkReading(mutated(documents[i % documents.length], SEED * 1_000_003 + i));
    slowest = Math.max(slowest, performance.now() - began);
  }
  expect(slowest).toBeLessThan(5_000);
});

it("3,000 documents of any kind are read or refused", { timeout: 600_000 }, () => {
  const anything = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withNullPrototype: true,
    withSparseArray: true,
  });
  const head = { apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "x" } };
  const anyPlaybook = fc.record({
    inputs: anything,
    workload: anything,
    result: anything,
    workflow: fc.array(anything),
  });
  const documentOf = fc.oneof(
    anything,
    anyPlaybook.map((parts) => ({ ...head, ...parts })),
  );
  fc.assert(
    fc.property(documentOf, (document) => void checkReading(document)),
    { numRuns: 3_000, seed: SEED },
  );
});
