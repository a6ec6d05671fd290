import { expect, it } from "vitest";
import type { Playbook, PlaybookStep } from "../playbook/playbook.ts";
import { testArc, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { resolvePolicy } from "../policy/resolve-policy.ts";
import { explainRun } from "./explain-run.ts";
import { graphText } from "./graph-text.ts";
import { outcomeScript } from "./outcome-script.ts";
import { readRunHistory } from "./run-history.ts";
import { type RunScenario, simulateRun } from "./simulate-run.ts";

const HTTP = { type: "http", request: { url: "https://x.test" }, data: null } as const;
const LOOP = {
  in: "{{ fetch.data }}",
  iterator: "n",
  concurrency: 2,
  where: null,
  limit: null,
  maxFailures: null,
} as const;

function retried(attempts: number): Pick<PlaybookStep, "options"> {
  const { options } = testStep("any");
  const policy = resolvePolicy({ maxAttempts: attempts, backoff: { initial: "1s", jitter: false } });
  return { options: { ...options, policy } };
}

const START = Date.UTC(2026, 0, 1);

/** The text, after an instant in milliseconds from the start. */
function explained(playbook: Playbook, outcomes: object, more: Partial<RunScenario> = {}): string {
  const { run, progress, steps, events, end } = simulateRun({ playbook, outcomes: outcomeScript(outcomes), ...more });
  return explainRun({ playbook, run, progress, steps, events, now: START + end.totalMs }).text;
}

/** start → fetch → big or small, or rescue after a failure → end. */
const routed = testPlaybook([
  testStep("start", [1], { action: null }),
  testStep("fetch", [], {
    action: HTTP,
    arcs: [
      testArc(2, { when: "{{ result.data.total + 0 > 2 }}" }),
      testArc(3),
      testArc(4, { when: "{{ status_code == 503 }}", on: "always" }),
    ],
    ...retried(3),
  }),
  testStep("big", [5]),
  testStep("small", [5], retried(2)),
  testStep("rescue", [5]),
  testStep("end", [], { action: null }),
]);

const forked = (change: Partial<Playbook> = {}, second: Partial<PlaybookStep> = {}) =>
  testPlaybook(
    [testStep("start", [1, 2], { action: null }), testStep("a", [3]), testStep("b", [3], second), testStep("end")],
    {
      path: "shop/orders",
      ...change,
    },
  );

const looped = (onItemFailure: "fail" | "continue") =>
  testPlaybook([
    testStep("fetch", [1], { action: HTTP }),
    testStep("each", [2], { loop: { ...LOOP, onItemFailure } }),
    testStep("end"),
  ]);

const LIST = { ok: [10, 20, 30, 40] };

it.each<[string, string]>([
  ["succeeded after retries", explained(routed, { fetch: [503, 503, { ok: { total: 3 } }] })],
  ["succeeded after a failure that an arc handled", explained(routed, { fetch: 503 })],
  ["failed: attempts used up", explained(routed, { fetch: { ok: { total: 1 } }, small: "fail:75" })],
  [
    "failed: rejected, and a condition that has no value",
    explained(routed, { fetch: { ok: { total: [1] } }, small: 404 }),
  ],
  [
    "failed: invalid input",
    explained(forked({}, { action: { type: "task", task: "t", data: "{{ start.nope }}" } }), {
      a: { ok: 1, takes: "2s" },
    }),
  ],
  ["failed: timeout of the run", explained(forked({ timeoutMs: 60_000 }), { b: { ok: 1, takes: "2m" } })],
  [
    "failed, and other branches continued",
    explained(forked({ failureMode: "continue" }), { a: "logical:no", b: { ok: 1, takes: "3s" } }),
  ],
  ["failed: an item of a loop", explained(looped("fail"), { fetch: LIST, "each[1]": "exit:3" })],
  ["cancelled", explained(forked({ finally: [3] }), { b: { ok: 1, takes: "10s" } }, { cancelMs: 4_000 })],
  ["running: waits for a join", explained(forked(), { b: { ok: 1, takes: "10s" } }, { untilMs: 4_000 })],
  [
    "running: waits for a time",
    explained(forked({}, { action: { type: "wait", for: "1h", until: null, data: null } }), {}, { untilMs: 60_000 }),
  ],
  ["running: waits for a retry", explained(routed, { fetch: 503 }, { untilMs: 1_500 })],
  [
    "running: a loop",
    explained(looped("continue"), { fetch: LIST, each: { ok: 1, takes: "3s" }, "each[0]": "fail" }, { untilMs: 4_000 }),
  ],
  [
    "running: the steps of finally",
    explained(forked({ finally: [3] }), { a: "fail", end: { ok: 1, takes: "9s" } }, { untilMs: 1 }),
  ],
])("explains a run that has %s", (_, text) => {
  expect(text).toMatchSnapshot();
});

it("explains and draws a run of 10,000 steps in 300 ms", () => {
  const playbook = looped("continue");
  const outcomes = outcomeScript({ fetch: { ok: Array.from({ length: 97 }, (_, i) => i) }, "each[5]": "fail" });
  const short = simulateRun({ playbook, outcomes });
  const items = short.steps.filter(({ item }) => item !== null);
  const steps = [...short.steps];
  for (let n = steps.length; n < 10_000; n++)
    steps.push({ ...(items[n % items.length] as (typeof items)[0]), n, item: n });
  const events = Array.from({ length: 100 }, () => short.events).flat();
  const begun = process.cpuUsage();
  const { text } = explainRun({ playbook, run: short.run, progress: short.progress, steps, events, now: START });
  const graph = graphText(playbook, "ascii", { steps, history: readRunHistory(events), now: START });
  expect(process.cpuUsage(begun).user / 1_000).toBeLessThan(3_000);
  expect(text).toContain("96/97 ✓ 1 ✗");
  expect(graph).toContain("96/97 ✓ 1 ✗");
  expect(text.length).toBeLessThan(3_000);
});
