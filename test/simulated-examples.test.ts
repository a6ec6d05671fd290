/** Every example of a playbook, simulated: what its templates read exists, and it ends as its comments describe. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import type { Playbook } from "../src/core/playbook/playbook.ts";
import { graphText } from "../src/core/run/graph-text.ts";
import { outcomeScript } from "../src/core/run/outcome-script.ts";
import { type RunScenario, simulateRun } from "../src/core/run/simulate-run.ts";
import { readText } from "./playbook-text.ts";

const FOLDER = "examples/playbooks";

function example(name: string): Playbook {
  const { playbook, shown } = readText(readFileSync(`${FOLDER}/${name}.yaml`, "utf8"));
  if (playbook === null) throw new Error(shown.join("\n"));
  return playbook;
}

const base = "https://api.test";

const CASES: readonly (readonly [name: string, input: object, outcomes: object, end: object])[] = [
  ["charge", { base, amount: 10 }, { pay: { ok: { id: "p1" } } }, { result: { payment: "p1", amount: 10 } }],
  ["exec", {}, { hello: { ok: { greeting: "Hello, world" } }, shout: { ok: "HELLO" } }, { result: "HELLO" }],
  ["failure-branch", { base }, { live: { ok: [7] } }, { result: { source: "live", prices: [7] }, attempts: 1 }],
  ["failure-branch", { base }, { live: 404 }, { result: { source: "none", prices: [] } }],
  [
    "failure-branch",
    { base },
    { live: 503, cached: { ok: [6] } },
    { result: { source: "cache", prices: [6] }, attempts: 3 },
  ],
  ["handlers", {}, {}, { state: "succeeded", steps: 3 }],
  ["handlers", { code: 3 }, { work: "exit:3" }, { state: "failed", step: "work", steps: 4 }],
  ["http", { base }, { fetch: [503, { ok: { temperature: 12 } }] }, { result: { city: "Oslo", temperature: 12 } }],
  [
    "join",
    { base },
    { profile: { ok: { name: "Ada" } }, orders: { ok: [1, 2] } },
    { result: { name: "Ada", orders: 2, offers: [] }, steps: 4 },
  ],
  [
    "join",
    { base, premium: true },
    { profile: { ok: { name: "Ada" } }, orders: { ok: [] }, offers: { ok: ["o"], takes: "9s" } },
    { result: { name: "Ada", orders: 0, offers: ["o"] }, steps: 5 },
  ],
  [
    "loop",
    { base },
    { fetch: { ok: { temperature: 3 } }, "fetch[1]": 404, warmest: { ok: { temperature: 3 } } },
    { result: { warmest: { temperature: 3 }, failed: 1 } },
  ],
  ["loop", { base }, { fetch: 404 }, { state: "failed", step: "fetch" }],
  [
    "pagination",
    { base },
    { fetch: [{ ok: { ids: [1, 2], next: 2 } }, { ok: { ids: [3], next: null } }] },
    { result: { ids: [1, 2, 3], pages: 2 } },
  ],
  [
    "postgres",
    { customer: "Ada" },
    { insert: { ok: [{ customer: "Ada", amount: 10 }] } },
    { result: { order: { amount: 10 } } },
  ],
  ["python", {}, { statistics: { ok: { count: 6, median: 16 } }, describe: { ok: "text" } }, { result: "text" }],
  ["shell", {}, { words: { ok: 3 }, upper: { ok: "ONE TWO THREE (3 WORDS)" } }, { state: "succeeded" }],
  [
    "sub-playbook",
    { base },
    { "charge[0]/pay": { ok: { id: "a" } }, "charge[1]/pay": { ok: { id: "b" } } },
    {
      result: {
        payments: [
          { payment: "a", amount: 10 },
          { payment: "b", amount: 20 },
        ],
      },
    },
  ],
  ["task", { customer: "Ada" }, { price: { ok: { total: 40 } }, bill: { ok: "sent" } }, { result: "sent" }],
  ["task", { customer: "Ada" }, { price: { ok: { sum: 40 } } }, { state: "failed", step: "price" }],
  ["wait", { delay: "1h" }, {}, { state: "succeeded", totalMs: 3_600_000 }],
];

it.each(CASES)("%s with %j ends as it should", (name, input, outcomes, expected) => {
  const playbooks: RunScenario["playbooks"] = (path) => example(path.replace(/^\.\/|\.yaml$/g, ""));
  const scenario = { playbook: example(name), input: { ...input }, outcomes: outcomeScript(outcomes), playbooks };
  const { end } = simulateRun(scenario);
  expect(end).toMatchObject({ state: "succeeded", ...expected });
});

it("covers every example, and each can be drawn", () => {
  const names = readdirSync(FOLDER)
    .filter((file) => file.endsWith(".yaml"))
    .map((file) => file.replace(".yaml", ""));
  expect([...new Set(CASES.map(([name]) => name))].sort()).toEqual(names.sort());
  for (const name of names) {
    const playbook = example(name);
    const text = graphText(playbook, "ascii");
    for (const step of playbook.steps) expect(text).toContain(step.name);
  }
});
