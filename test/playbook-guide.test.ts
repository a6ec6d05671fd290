/** The reference of playbooks names every field, type, filter and problem that the code has. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { TEMPLATE_FILTERS } from "../src/core/expression/template-filters.ts";
import { RESULT_NAMES, RUN_NAMES } from "../src/core/playbook/names-in-scope.ts";
import { PROBLEM_CODES } from "../src/core/playbook/problem.ts";
import { ACTION_FIELDS } from "../src/core/playbook/read-action.ts";
import { LOOP_FIELDS } from "../src/core/playbook/read-loop.ts";
import { STEP_FIELDS } from "../src/core/playbook/read-step.ts";
import { BUILT_IN_TYPES } from "../src/core/playbook/read-tool.ts";
import { playbookSchema } from "../src/core/playbook/schema.ts";
import { STEP_STATES } from "../src/core/run/run.ts";

/** Without fences. */
function page(name: string): string {
  const text = readFileSync(fileURLToPath(new URL(`../docs/${name}`, import.meta.url)), "utf8");
  return text.replaceAll(/^```.*?^```$/gms, "");
}
const guide = page("guides/playbooks.md");
const reference = guide.slice(guide.indexOf("### The document"));

/** Those that are not in the text as code, alone or within a longer piece. */
function missingIn(text: string, names: Iterable<string>): string[] {
  const words = new Set([...text.matchAll(/`([^`]+)`/g)].flatMap(([, code]) => (code as string).split(/[^\w.]+/)));
  for (const word of [...words]) for (const part of word.split(".")) words.add(part);
  return [...names].filter((name) => !words.has(name));
}

const document = playbookSchema() as { readonly properties: Readonly<Record<string, unknown>> };

it.each([
  ["field of the document", Object.keys(document.properties)],
  ["field of a step", STEP_FIELDS],
  ["field of a loop", LOOP_FIELDS],
  ["type", BUILT_IN_TYPES],
  ["filter", TEMPLATE_FILTERS.keys()],
  ["name in templates", [...RUN_NAMES, ...RESULT_NAMES]],
  ["problem", PROBLEM_CODES.filter((code) => code !== "secret_place")], // not used: there are no secrets yet
] as const)("the guide has every %s", (_, names) => {
  expect(missingIn(reference, names)).toEqual([]);
});

it("the guide has the fields of the types that other pages do not describe", () => {
  const { shell, python, http, postgres, task, playbook, wait } = ACTION_FIELDS;
  const names = [shell, python, http, postgres, task, playbook, wait].flat();
  expect(missingIn(`${reference}${page("guides/commands.md")}`, names)).toEqual([]);
});

it("the lifecycle has every state of a step", () => {
  expect(missingIn(page("lifecycle.md"), STEP_STATES)).toEqual([]);
});
