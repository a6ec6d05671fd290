import { describe, expect, it } from "vitest";
import { exampleSources, mutated } from "../../../test/hostile-playbooks.ts";
import { checkReading, fitsSchema } from "../../../test/playbook-reading.ts";
import { readText } from "../../../test/playbook-text.ts";
import { rounds, SEED } from "../../../test/tier.ts";
import { readYaml } from "../../yaml/read.ts";
import { playbookSchema } from "./schema.ts";

const documents = exampleSources().map(([file, source]) => [file, source, readYaml(source, file).value] as const);

describe("an example playbook", () => {
  it.each(documents)(
    "%s has a comment that describes it, reads without problems and fits the schema",
    (_, source, document) => {
      expect(source).toMatch(/^# [A-Z].*\n(#.*\n)*# {3}perdure run -f examples\/playbooks\//);
      expect(readText(source).shown).toEqual([]);
      expect(fitsSchema(document)).toBe(true);
    },
  );
});

describe("the schema of playbooks", () => {
  const head = { apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "x" } };
  const withStep = (step: object) => ({ ...head, workflow: [{ step: "a", ...step }] });

  it("is JSON, and describes every field of a step", () => {
    const schema = playbookSchema() as { $schema: string; $defs: { step: { properties: Record<string, object> } } };
    expect(schema.$schema).toBe("https://json-schema.org/draft/2020-12/schema");
    expect(JSON.parse(JSON.stringify(schema))).toEqual(schema);
    for (const [name, field] of Object.entries(schema.$defs.step.properties)) {
      if (!["desc", "tool", "mode"].includes(name)) expect(field, name).toHaveProperty("description");
    }
  });

  it.each([
    ["a field of another type", withStep({ type: "python", code: "x", url: "http://x" })],
    ["a type without its field", withStep({ type: "http" })],
    ["a tool without its field", withStep({ tool: { kind: "shell", comand: "ls" } })],
    ["a field of a type on a step without one", withStep({ url: "http://x" })],
    ["an unknown field", withStep({ nxt: "b" })],
    ["a duration without a unit", withStep({ type: "task", task: "t", timeout: 30 })],
    ["an unknown field of the document", { ...head, workflow: [{ step: "a" }], steps: [] }],
    ["no step", { ...head, workflow: [] }],
    ["another version", { ...head, apiVersion: "v2", workflow: [{ step: "a" }] }],
  ])("refuses %s", (_, document) => {
    expect(fitsSchema(document)).toBe(false);
  });

  it.each([
    ["a type of the setting, with fields of its own", withStep({ type: "duckdb", commands: "select 1" })],
    ["a tool of the setting", withStep({ tool: { kind: "duckdb", commands: "select 1" }, retry: 3 })],
    ["fields without a value", withStep({ type: "noop", next: null, when: null })],
  ])("accepts %s", (_, document) => {
    expect(fitsSchema(document)).toBe(true);
  });
});

it("random changes of playbooks are read or refused with problems, never with an error", () => {
  const count = rounds(4_000);
  let accepted = 0;
  for (let i = 0; i < count; i++) {
    const [, , document] = documents[i % documents.length] as (typeof documents)[number];
    if (checkReading(mutated(document, SEED * 1_000_003 + i))) accepted += 1;
  }
  // Both happen often, so both are tested.
  expect(accepted).toBeGreaterThan(count * 0.02);
  expect(accepted).toBeLessThan(count * 0.9);
});
