import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Playbook, PlaybookStep, StepAction } from "../playbook/playbook.ts";
import { testArc, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { resolvePolicy } from "../policy/resolve-policy.ts";
import { outcomeScript } from "./outcome-script.ts";
import { type RunScenario, simulateRun, timelineLines } from "./simulate-run.ts";
import { simulateRuns } from "./simulate-runs.ts";

const HTTP = { type: "http", request: { url: "https://x.test" }, data: null } as const;

function retried(attempts: number, jitter: number | false = false): Pick<PlaybookStep, "options"> {
  const policy = resolvePolicy({ maxAttempts: attempts, backoff: { initial: "1s", factor: 2, jitter } });
  return { options: { ...testStep("any").options, policy } };
}

const playbook = testPlaybook([
  testStep("fetch_data", [], {
    action: HTTP,
    arcs: [
      testArc(1, { when: "{{ result.data.total > 2 }}", data: { n: "{{ result.data.total }}" } }),
      testArc(2, { when: "{{ error != None }}", on: "always" }),
    ],
    ...retried(3, 0.5),
  }),
  testStep("process_data", [], { action: { type: "task", task: "work", data: { twice: "{{ data.n * 2 }}" } } }),
  testStep("rescue"),
]);

function play(of: Playbook, outcomes: object, more: Partial<RunScenario> = {}) {
  return simulateRun({ playbook: of, outcomes: outcomeScript(outcomes), ...more });
}

describe("a simulated run", () => {
  it("plays the script through the real decisions, with ranges of delays and the arcs", () => {
    const simulation = play(playbook, { fetch_data: [503, 503, { ok: { total: 3 } }], "*": "ok" }, { takesMs: 100 });
    expect(timelineLines(simulation).join("\n")).toMatchInlineSnapshot(`
      "  0 ms  fetch_data    started
      100 ms  fetch_data    attempt 1: http:503; retrying in 1 s (500 ms to 1.5 s): no rule matched; unknown failures are retried (onUnknown: retry)
       1.2 s  fetch_data    attempt 2: http:503; retrying in 2 s (1 s to 3 s): no rule matched; unknown failures are retried (onUnknown: retry)
       3.3 s  fetch_data    attempt 3: ok
       3.3 s  fetch_data    succeeded
       3.3 s  fetch_data    → process_data when result.data.total > 2: taken
       3.3 s  fetch_data    → rescue when error != None: not taken
       3.3 s  process_data  started
       3.4 s  process_data  attempt 1: ok
       3.4 s  process_data  succeeded
       3.4 s  run           succeeded"
    `);
    expect(simulation.end).toMatchObject({ state: "succeeded", totalMs: 3_400, steps: 2, attempts: 4, stopped: null });
    expect(simulation.timeline.flatMap(({ delayRangeMs }) => (delayRangeMs ? [delayRangeMs] : []))).toEqual([
      [500, 1_500],
      [1_000, 3_000],
    ]);
  });

  it("repeats the last outcome, and takes the branch of the failure", () => {
    const { end, timeline } = play(playbook, { fetch_data: 503 });
    expect(end).toMatchObject({ state: "succeeded", attempts: 4 });
    expect(timeline.at(-1)?.text).toBe("succeeded");
    expect(timeline.some(({ step, text }) => step === "rescue" && text === "succeeded")).toBe(true);
  });

  it("ends where the playbook does not fit the data", () => {
    const wrong = testPlaybook([testStep("a", [1]), testStep("b", [], { action: task("{{ a.total }}") })]);
    const { end } = play(wrong, { a: { ok: { sum: 1 } } });
    expect(end).toMatchObject({
      state: "failed",
      reason: "step",
      step: "b",
      message: expect.stringMatching(/a\.total/),
    });
  });

  it("continues a list over the visits of a cycle", () => {
    const pages = testPlaybook(
      [
        testStep("page", [], {
          action: task({ at: "{{ ctx.next | default(1) }}" }),
          set: { next: "{{ result.next }}" },
          arcs: [testArc(0, { when: "{{ result.next != None }}" }), testArc(1)],
        }),
        testStep("end", [], { action: null }),
      ],
      { result: { value: "{{ page.last }}" } },
    );
    const { end, steps } = play(pages, {
      page: [{ ok: { next: 2 } }, { ok: { next: 3 } }, { ok: { next: null, last: 9 } }],
    });
    expect(end).toMatchObject({ state: "succeeded", result: 9 });
    expect(steps.filter(({ step }) => step === "page").map(({ visit }) => visit)).toEqual([1, 2, 3]);
  });

  it("plays each item of a loop by itself, no more at a time than its concurrency", () => {
    const looped = testPlaybook([
      testStep("each", [], { loop: { ...LOOP, in: [10, 20, 30, 40], concurrency: 2 }, ...retried(2) }),
    ]);
    const outcomes = { each: ["fail", { ok: 1, takes: "2s" }], "each[3]": { ok: 4, takes: "5s" } };
    const { end, steps } = play(looped, outcomes);
    expect(end).toMatchObject({ state: "succeeded", result: [1, 1, 1, 4], attempts: 7 });
    const items = steps.filter(({ item }) => item !== null);
    const begin = items[0]?.startedAt ?? 0;
    expect(items.map(({ startedAt, endedAt }) => [startedAt - begin, (endedAt ?? 0) - begin])).toEqual([
      [0, 3_000],
      [0, 3_000],
      [3_000, 6_000],
      [3_000, 8_000],
    ]);
  });

  it("plays runs below step by step where their playbook is known, and else as one step", () => {
    const below = testPlaybook([testStep("inner"), testStep("end")], { timeoutMs: null, entry: 0 });
    const action = { ...BELOW, path: "shop/below", returnStep: "inner" } as const;
    const above = testPlaybook([testStep("outer", [], { action })]);
    const known = play(above, { "outer/inner": { ok: "from inner" } }, { playbooks: () => below });
    expect(known.end).toMatchObject({ state: "succeeded", result: "from inner" });
    expect(known.timeline.some(({ step }) => step === "outer/inner")).toBe(true);
    expect(play(above, { outer: { ok: "as one" } }).end).toMatchObject({ state: "succeeded", result: "as one" });
    const failed = play(above, { "outer/inner": "logical:no" }, { playbooks: () => below });
    expect(failed.end).toMatchObject({ state: "failed", step: "outer" });
  });

  it("waits, and stops at an instant", () => {
    const waits = testPlaybook([testStep("sleep", [1], { action: { ...WAIT, for: "1h" } }), testStep("end")]);
    expect(play(waits, {}).end).toMatchObject({ state: "succeeded", totalMs: 3_600_000 });
    expect(play(waits, {}, { untilMs: 60_000 }).end).toMatchObject({
      state: "running",
      stopped: "until",
      totalMs: 60_000,
    });
  });

  it("is cancelled by its timeout or by a person, and its finally runs", () => {
    const timed = testPlaybook([testStep("slow"), testStep("cleanup")], { timeoutMs: 5_000, finally: [1] });
    const late = play(timed, { slow: { ok: 1, takes: "1h" } });
    expect(late.end).toMatchObject({ state: "failed", reason: "timeout", totalMs: 5_000 });
    expect(late.steps.map(({ step, state }) => [step, state])).toEqual([
      ["slow", "cancelled"],
      ["cleanup", "succeeded"],
    ]);
    const stopped = play(timed, { slow: { ok: 1, takes: "1h" } }, { cancelMs: 1_000 });
    expect(stopped.end).toMatchObject({ state: "cancelled", totalMs: 1_000, steps: 2 });
  });

  it("counts the ends of many, the same for the same random numbers", () => {
    const flaky = () =>
      simulateRuns(
        { playbook, failureRate: 0.3, random: numbers(7), outcomes: outcomeScript({ "*": { ok: { total: 3 } } }) },
        200,
      );
    const { runs, succeeded, ends, attempts } = flaky();
    expect(runs).toBe(200);
    expect(ends.reduce((sum, { count }) => sum + count, 0)).toBe(200);
    expect(succeeded).toBeGreaterThan(100);
    expect(ends.find(({ state }) => state === "failed")?.step).toMatch(/process_data|rescue/);
    expect(attempts.most).toBeGreaterThan(2);
    expect(flaky()).toEqual(flaky());
  });

  it("ends, whatever the playbook and the outcomes", () => {
    const word = fc.constantFrom<unknown>("ok", "fail", 503, "lost", "timeout", "cancel", "interrupted", "logical", {
      ok: 1,
      takes: "7s",
    });
    const spec = fc.record({
      to: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 2 }),
      kind: fc.constantFrom("task", "route", "loop", "wait"),
      onError: fc.constantFrom("fail", "continue"),
      outcomes: fc.array(word, { minLength: 1, maxLength: 3 }),
    });
    const mode = fc.constantFrom("drain", "cancel", "continue");
    fc.assert(
      fc.property(fc.array(spec, { minLength: 1, maxLength: 6 }), mode, fc.boolean(), (specs, failureMode, isTimed) => {
        const steps = specs.map(({ to, kind, onError }, i) => {
          const arcs = to.flatMap((far) =>
            i + far < specs.length ? [testArc(i + far, { on: far === 3 ? "always" : "success" })] : [],
          );
          const made = { arcs, onError, ...retried(2) } as const;
          if (kind === "route") return testStep(`s${i}`, [], { ...made, action: null });
          if (kind === "wait") return testStep(`s${i}`, [], { ...made, action: { ...WAIT, for: "5s" } });
          return testStep(`s${i}`, [], kind === "loop" ? { ...made, loop: { ...LOOP, in: [1, 2, 3] } } : made);
        });
        const outcomes = Object.fromEntries(specs.map((each, i) => [`s${i}`, each.outcomes]));
        const of = testPlaybook(steps, { failureMode: failureMode as "drain", timeoutMs: isTimed ? 9_000 : null });
        const { end, progress } = play(of, outcomes);
        expect(end.stopped).toBe(null);
        expect(end.state).not.toBe("running");
        expect(progress).toMatchObject({ phase: "ended", open: 0 });
      }),
      { numRuns: 150 },
    );
  });
});

describe("a script of outcomes", () => {
  it.each<[unknown, string]>([
    [{ a: "exlode" }, "outcomes.a: "],
    [{ a: [] }, "outcomes.a: "],
    [{ a: [503, 99] }, "outcomes.a[1]: "],
    [{ a: { okay: 1 } }, "outcomes.a.okay: "],
    [{ a: { ok: 1, outcome: "fail" } }, "outcomes.a.outcome: "],
    [{ a: { ok: 1, takes: "soon" } }, "outcomes.a.takes: "],
    [{ a: true }, "outcomes.a: "],
    ["ok", "outcomes: "],
  ])("refuses %j", (given, place) => {
    expect(() => outcomeScript(given)).toThrow(place);
  });
});

const LOOP = {
  in: [],
  iterator: "n",
  concurrency: 3,
  where: null,
  limit: null,
  onItemFailure: "fail",
  maxFailures: null,
} as const;
const BELOW = { type: "playbook", path: null, inline: null, data: null, returnStep: null, wait: true } as const;
const WAIT = { type: "wait", for: null, until: null, data: null } as const;

function task(data: unknown): StepAction {
  return { type: "task", task: "work", data };
}

function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
