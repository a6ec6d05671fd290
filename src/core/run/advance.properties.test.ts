/** Random playbooks, with random ends of their steps in random order: every run ends, and what must hold holds after every advance
 *  (`TestRun` checks it). */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { graphOf } from "../playbook/graph.ts";
import type { FailureMode, Playbook, PlaybookArc, PlaybookStep, StepAction } from "../playbook/playbook.ts";
import { testArc, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { isOpen, type StepRow } from "./run.ts";
import { TestRun } from "./testing-run.ts";

const WAIT: StepAction = { type: "wait", for: "10s", until: null, data: null };

interface StepSpec {
  readonly kind: "task" | "route" | "wait" | "loop" | "below";
  readonly arcs: readonly { readonly to: number; readonly on: PlaybookArc["on"]; readonly when: number }[];
  readonly back: number | null;
  readonly join: "all" | "any" | number;
  readonly mode: PlaybookStep["mode"];
  readonly skipped: boolean;
  readonly onError: PlaybookStep["onError"];
  readonly items: number;
  readonly tolerant: boolean;
}

const stepSpec: fc.Arbitrary<StepSpec> = fc.record({
  kind: fc.constantFrom("task", "task", "task", "route", "wait", "loop", "below"),
  arcs: fc.array(
    fc.record({
      to: fc.integer({ min: 1, max: 4 }),
      on: fc.constantFrom("success", "success", "success", "failure", "always"),
      when: fc.integer({ min: 0, max: 5 }),
    }),
    { maxLength: 3 },
  ),
  back: fc.option(fc.integer({ min: 0, max: 8 }), { freq: 6 }),
  join: fc.constantFrom<StepSpec["join"]>("all", "all", "all", "any", 2),
  mode: fc.constantFrom("match", "match", "first", "all"),
  skipped: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  onError: fc.constantFrom("fail", "fail", "fail", "continue"),
  items: fc.integer({ min: 0, max: 5 }),
  tolerant: fc.boolean(),
});

const CONDITIONS = [null, null, null, "{{ 1 == 1 }}", "{{ 1 == 2 }}", "{{ status == 'succeeded' }}"];

/** `back`: a step may lead to an earlier one, while its result asks for it. */
function playbookOf(specs: readonly StepSpec[], hasCycles: boolean, change: Partial<Playbook>): Playbook {
  const count = specs.length;
  const steps = specs.map((spec, index) => {
    const arcs = spec.arcs
      .filter(({ to }) => index + to < count)
      .map(({ to, on, when }) => testArc(index + to, { on, when: CONDITIONS[when] ?? null }));
    // A cycle needs a step that works.
    if (hasCycles && spec.back !== null && spec.back <= index && spec.kind === "task") {
      arcs.unshift(testArc(spec.back, { when: "{{ result.back }}" }));
    }
    return testStep(`s${index}`, [], {
      arcs,
      action: actionOf(spec),
      ...{ join: spec.join, mode: spec.mode, onError: spec.onError, when: spec.skipped ? "{{ 1 == 2 }}" : null },
      loop:
        spec.kind === "loop"
          ? {
              ...{ in: Array.from({ length: spec.items }, (_, n) => n), iterator: "item", concurrency: 2, where: null },
              ...{ limit: null, onItemFailure: spec.tolerant ? "continue" : "fail", maxFailures: { count: 1 } },
            }
          : null,
    });
  });
  // Handlers, which no arc reaches.
  return testPlaybook([...steps, testStep("notify"), testStep("clean")], {
    ...{ onFailure: [count], finally: [count + 1], ...change },
  });
}

function actionOf({ kind }: StepSpec): StepAction | null {
  if (kind === "route") return null;
  if (kind === "wait") return WAIT;
  if (kind === "below") return { type: "playbook", path: "b", inline: null, data: null, returnStep: null, wait: true };
  return { type: "task", task: "work", data: null };
}

interface Schedule {
  readonly seed: number;
  /** Of a hundred steps, how many fail. */
  readonly failing: number;
  readonly cancelAt: number;
  /** A cancel only asks a step to end. */
  readonly running: boolean;
  readonly reversed: boolean;
}

/** The same for the same place, in whatever order steps end. */
function hash(...parts: readonly (string | number)[]): number {
  let value = 2_166_136_261;
  for (const char of parts.join("|")) value = Math.imul(value ^ char.charCodeAt(0), 16_777_619);
  value = Math.imul(value ^ (value >>> 15), 2_246_822_507);
  return (value ^ (value >>> 13)) >>> 0;
}

/** Ends steps, in rounds, until the run has ended. */
function finish(run: TestRun, { seed, failing, cancelAt, reversed }: Schedule): void {
  for (let round = 0; run.run.phase !== "ended"; round++) {
    if (round > 2_000) throw new Error(`no end: ${run.states()}`);
    if (round === cancelAt) run.cancel();
    const open = run.open();
    const chosen = open.filter(({ node, visit, item }) => hash(seed, round, node, visit, item) % 3 === 0);
    const ending = chosen.length > 0 ? chosen : open.slice(0, 1);
    for (const row of reversed ? [...ending].reverse() : ending) endStep(run, row, seed, failing);
    if (open.length === 0 && run.messages.length === 0) {
      const next = Math.min(...run.timers.values());
      if (!Number.isFinite(next)) throw new Error(`it hangs: ${run.states()}`);
      run.now = next;
    }
    run.settle();
  }
}

function endStep(
  run: TestRun,
  { node, visit, item, try: attempt, job, isAsked }: StepRow & { isAsked: boolean },
  seed: number,
  failing: number,
): void {
  const luck = hash(seed, node, visit, item, attempt) % 100;
  if (isAsked && luck % 2 === 0) run.endById(job as string, "cancelled");
  else if (luck < failing) run.endById(job as string, "failed");
  else run.endById(job as string, "succeeded", { back: visit < 4 && luck % 3 > 0 });
}

const rowsText = (run: TestRun) =>
  [...run.rows.values()]
    .map(({ node, visit, item, try: attempt, state }) => `${node}.${visit}.${item}.${attempt} ${state}`)
    .sort();

const schedule: fc.Arbitrary<Schedule> = fc.record({
  seed: fc.integer(),
  failing: fc.constantFrom(0, 10, 40),
  cancelAt: fc.constantFrom(-1, -1, -1, 0, 2, 4),
  running: fc.boolean(),
  reversed: fc.constant(false),
});
const change: fc.Arbitrary<Partial<Playbook>> = fc.record({
  failureMode: fc.constantFrom<FailureMode>("drain", "cancel", "continue"),
  parallel: fc.constantFrom(1, 3, 100),
  mustTakeArc: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  maxSteps: fc.constantFrom(10_000, 10_000, 10_000, 7),
});
const specs = fc.array(stepSpec, { minLength: 2, maxLength: 9 });
const PATHS = { b: testPlaybook([testStep("x")]) };

describe("any playbook", () => {
  it("ends, and again after each redrive", () => {
    fc.assert(
      fc.property(specs, fc.boolean(), change, schedule, (all, hasCycles, fields, plan) => {
        const run = new TestRun(playbookOf(all, hasCycles, fields), { running: plan.running, paths: PATHS });
        finish(run, plan);
        expect(run.job.state).toMatch(/succeeded|failed|cancelled/);
        for (let times = 0; times < 2 && run.job.state !== "succeeded"; times++) {
          const before = [...run.rows.values()].filter(({ state }) => state === "succeeded").map(({ job }) => job);
          finish(run.redrive().settle(), {
            ...plan,
            seed: plan.seed + 1,
            failing: times === 0 ? plan.failing : 0,
            cancelAt: -1,
          });
          const kept = new Set(
            [...run.rows.values()].filter(({ state }) => state === "succeeded").map(({ job }) => job),
          );
          expect(before.filter((job) => !kept.has(job))).toEqual([]);
        }
      }),
      { numRuns: 300 },
    );
  }, 60_000);

  it("comes to the same states in whichever order messages are read at once", () => {
    fc.assert(
      fc.property(specs, fc.boolean(), change, schedule, (all, hasCycles, fields, plan) => {
        const playbook = playbookOf(all, hasCycles, { ...fields, maxSteps: 10_000 });
        const [one, other] = [false, true].map((reversed) => {
          const run = new TestRun(playbook, { running: plan.running, paths: PATHS });
          finish(run, { ...plan, reversed });
          return run;
        }) as [TestRun, TestRun];
        expect(rowsText(other)).toEqual(rowsText(one));
        expect(other.job.state).toBe(one.job.state);
      }),
      { numRuns: 200 },
    );
  }, 60_000);
});

describe("a diamond with dead branches", () => {
  it("starts its join once, after all that are alive, and never hangs", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 8 }), fc.integer(), (width, seed) => {
        const dead = (index: number) => hash(seed, index) % 3;
        const join = width + 1;
        const steps = [
          testStep("fork", [], {
            ...{ action: null, mode: "all" },
            arcs: Array.from({ length: width }, (_, index) =>
              testArc(index + 1, { when: index > 0 && dead(index) === 0 ? "{{ 1 == 2 }}" : null }),
            ),
          }),
          ...Array.from({ length: width }, (_, index) =>
            testStep(`b${index}`, [], {
              arcs: [testArc(join, { when: index > 0 && dead(index) === 1 ? "{{ 1 == 2 }}" : null })],
            }),
          ),
          testStep("join"),
        ];
        const playbook = testPlaybook(steps);
        expect(graphOf(playbook).canReach(0, join)).toBe(true);
        const run = new TestRun(playbook).settle();
        while (run.open().some(({ node }) => node !== "join")) {
          expect(run.open("join")).toEqual([]);
          const open = run.open();
          run.end((open[hash(seed, open.length) % open.length] as StepRow).node, "succeeded").settle();
        }
        expect(run.open("join")).toHaveLength(1);
        expect(run.succeed("join").job.state).toBe("succeeded");
        expect([...run.rows.values()].some(({ state }) => isOpen(state))).toBe(false);
      }),
      { numRuns: 50 },
    );
  });
});
