import { describe, expect, it } from "vitest";
import type { StepInfo } from "../api/runs.ts";
import { testArc, testGraph, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { drawGraph } from "./graph-drawing.ts";
import { type GraphRun, graphText } from "./graph-text.ts";

const HTTP = { type: "http", request: { url: "https://x.test" }, data: null } as const;
const LOOP = { in: [], iterator: "n", concurrency: 5, where: null, limit: null, onItemFailure: "continue" } as const;

const playbook = testPlaybook(
  [
    testStep("start", [1], { action: null }),
    testStep("fetch", [], {
      action: HTTP,
      arcs: [
        testArc(2, { when: "{{ result.total > 2 }}" }),
        testArc(3),
        testArc(4, { when: 'error != "<none>"', on: "always" }),
      ],
    }),
    testStep("each", [5], { loop: { ...LOOP, maxFailures: null } }),
    testStep("small", [5]),
    testStep("rescue", [1]),
    testStep("end", [], { action: null }),
    testStep("cleanup"),
  ],
  { finally: [6] },
);

const T0 = Date.UTC(2026, 0, 1);

function row(n: number, step: string, change: Partial<StepInfo> = {}): StepInfo {
  return {
    ...{
      n,
      step,
      type: "task",
      visit: 1,
      item: null,
      try: 1,
      state: "succeeded",
      job: `job_${n}`,
      jobState: "succeeded",
    },
    ...{ attempt: 1, maxAttempts: 3, nextRunAt: null, reason: null, failure: null, waitsUntil: null },
    ...{ startedAt: T0, endedAt: T0 + 1_200, ...change },
  } as StepInfo;
}

const run: GraphRun = {
  steps: [
    row(1, "start", { job: null, attempt: 0 }),
    row(2, "fetch", { attempt: 3 }),
    row(3, "each", { state: "looping", job: null, attempt: 0, endedAt: null }),
    row(4, "each", { item: 0 }),
  ],
  history: {
    routes: new Map([
      [0, { n: 1, taken: [0], errors: {} }],
      [1, { n: 2, taken: [0], errors: {} }],
    ]),
    loops: new Map([[3, { total: 10, open: 1, succeeded: 7, failed: 1 }]]),
  },
  now: T0 + 5_000,
};

describe("ascii", () => {
  it("draws a playbook, layers top down, with its conditions below", () => {
    expect(graphText(playbook, "ascii")).toMatchInlineSnapshot(`
      "                        ┌────────┐
                              │ start  │
                              │ routes │
                              └────┬───┘
                                   ▼
                               ┌───────┐
                               │ fetch │
                               │ http  │
                               └───┬───┘
                ┌──────────────────┴┬───────────────┐
                ▼                   ▼               ▼
      ┌───────────────────┐   ┌───────────┐   ┌───────────┐
      │ each              │   │ small     │   │ rescue    │
      │ loop of task work │   │ task work │   │ task work │
      └─────────┬─────────┘   └─────┬─────┘   │ ↺ fetch   │
                │                   │         └───────────┘
                └─────────┬─────────┘
                          ▼
                     ┌────────┐
                     │ end    │
                     │ routes │
                     └────────┘

      fetch → each when result.total > 2
      fetch → rescue when error != "<none>"

      Finally:
      ┌───────────┐
      │ cleanup   │
      │ task work │
      └───────────┘
      "
    `);
  });

  it("draws a run with states and times, and a loop as one box", () => {
    expect(graphText(playbook, "ascii", run)).toMatchInlineSnapshot(`
      "▸ running   ✓ succeeded   · not started

                                              ┌─────────┐
                                              │ ✓ start │
                                              │ routes  │
                                              └────┬────┘
                                                   ▼
                                     ┌───────────────────────────┐
                                     │ ✓ fetch                   │
                                     │ http · 1.2 s · 3 attempts │
                                     └─────────────┬─────────────┘
                          ┌────────────────────────┴───┬───────────────┐
                          ▼                            ▼               ▼
      ┌──────────────────────────────────────┐   ┌───────────┐   ┌───────────┐
      │ ▸ each                               │   │ · small   │   │ · rescue  │
      │ loop of task work · 5 s · 7/10 ✓ 1 ✗ │   │ task work │   │ task work │
      └───────────────────┬──────────────────┘   └─────┬─────┘   │ ↺ fetch   │
                          │                            │         └───────────┘
                          └──────────────┬─────────────┘
                                         ▼
                                    ┌────────┐
                                    │ · end  │
                                    │ routes │
                                    └────────┘

      fetch → each when result.total > 2 (taken)
      fetch → rescue when error != "<none>" (not taken)

      Finally:
      ┌───────────┐
      │ · cleanup │
      │ task work │
      └───────────┘
      "
    `);
  });

  it("lists a playbook that is too large for a drawing", () => {
    const next = Array.from({ length: 100 }, (_, i) => (i < 99 ? [i + 1] : []));
    const lines = graphText(testGraph(next), "ascii").split("\n");
    expect(lines.slice(0, 4)).toEqual(["s0   task work", "  → s1", "s1   task work", "  → s2"]);
    const wide = graphText(testGraph([Array.from({ length: 30 }, (_, i) => i + 1), ...Array(30).fill([])]), "ascii");
    expect(Math.max(...wide.split("\n").map((line) => line.length))).toBeLessThan(180);
  });
});

describe("mermaid", () => {
  it("writes a playbook", () => {
    expect(graphText(playbook, "mermaid")).toMatchInlineSnapshot(`
      "flowchart TD
        s0(["start<br/>routes"])
        s1["fetch<br/>http"]
        s2[["each<br/>loop of task work"]]
        s3["small<br/>task work"]
        s4["rescue<br/>task work"]
        s5(["end<br/>routes"])
        s6["cleanup<br/>task work · finally"]
        s0 --> s1
        s1 -->|"when result.total #62; 2"| s2
        s1 --> s3
        s1 -->|"when error != #34;#60;none#62;#34;"| s4
        s2 --> s5
        s3 --> s5
        s4 --> s1
      "
    `);
  });

  it("marks the states and the arcs of a run", () => {
    const text = graphText(playbook, "mermaid", run);
    expect(text).toContain('s2[["▸ each<br/>loop of task work · 5 s · 7/10 ✓ 1 ✗"]]');
    expect(text).toContain("s0 ==> s1");
    expect(text).toContain("class s0,s1 succeeded");
  });

  it("has no text that ends a label or is HTML", () => {
    const hostile = '"] --> x; click s0 "javascript:alert(1)" <script>`';
    const arcs = [testArc(0, { when: `result == '${hostile}'` })];
    const text = graphText(testPlaybook([testStep("a", [], { arcs })]), "mermaid");
    const label = /\|"(.*)"\|/.exec(text)?.[1] ?? "";
    expect(label).not.toMatch(/["<>[\](){}|`]/);
    expect(text.split("\n").filter((line) => line.includes("-->"))).toHaveLength(1);
  });
});

it("writes JSON", () => {
  const graph = JSON.parse(graphText(playbook, "json", run));
  expect(graph).toMatchObject({ name: "test", entry: "start" });
  expect(graph.steps[2]).toEqual({
    ...{ step: "each", type: "task", loop: true, handler: null },
    run: expect.objectContaining({ state: "looping", isOpen: true, items: { total: 10, succeeded: 7, failed: 1 } }),
  });
  expect(graph.steps[6]).toMatchObject({ handler: "finally", run: null });
  expect(graph.arcs[1]).toEqual({
    from: "fetch",
    to: "each",
    when: "{{ result.total > 2 }}",
    on: "success",
    taken: true,
  });
  expect(JSON.parse(graphText(playbook, "json")).steps[0]).not.toHaveProperty("run");
});

it("draws every box once and every line to its end, in any graph without cycles", () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  for (let i = 0; i < 60; i++) {
    const count = 1 + random(14);
    const boxes = Array.from({ length: count }, (_, from) => ({
      lines: [`<${from}>`],
      to: Array.from({ length: count - from - 1 }, (_, k) => from + 1 + k).filter(() => random(5) === 0),
    }));
    const text = drawGraph(boxes).join("\n");
    for (let box = 0; box < count; box++) expect(text.split(`<${box}>`)).toHaveLength(2);
    const targets = new Set(boxes.flatMap(({ to }) => to));
    expect(text.match(/▼/g)?.length ?? 0).toBe(targets.size);
  }
});
