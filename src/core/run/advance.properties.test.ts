/** Random playbooks, with random ends of their steps in random order: every run ends, and what must hold holds after every advance
 *  (`TestRun` checks it). */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { graphOf } from "../playbook/graph.ts";
import type { FailureMode, Playbook } from "../playbook/playbook.ts";
import { testArc, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { isOpen, type StepRow } from "./run.ts";
import {
  finishRandomly,
  RANDOM_PATHS,
  type RandomSchedule,
  type RandomStep,
  randomPlaybook,
  randomPlaybookOf,
  rowsText,
  seeded,
} from "./testing-random.ts";
import { TestRun } from "./testing-run.ts";

const randomStep: fc.Arbitrary<RandomStep> = fc.record({
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
  join: fc.constantFrom<RandomStep["join"]>("all", "all", "all", "any", 2),
  mode: fc.constantFrom("match", "match", "first", "all"),
  skipped: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  onError: fc.constantFrom("fail", "fail", "fail", "continue"),
  items: fc.integer({ min: 0, max: 5 }),
  tolerant: fc.boolean(),
});

const randomSchedule: fc.Arbitrary<RandomSchedule> = fc.record({
  seed: fc.integer(),
  failing: fc.constantFrom(0, 10, 40),
  cancelAt: fc.constantFrom(-1, -1, -1, 0, 2, 4),
  running: fc.boolean(),
  reversed: fc.constant(false),
});
const randomFields: fc.Arbitrary<Partial<Playbook>> = fc.record({
  failureMode: fc.constantFrom<FailureMode>("drain", "cancel", "continue"),
  parallel: fc.constantFrom(1, 3, 100),
  mustTakeArc: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  maxSteps: fc.constantFrom(10_000, 10_000, 10_000, 7),
});
const randomSteps = fc.array(randomStep, { minLength: 2, maxLength: 9 });

describe("any playbook", () => {
  it("ends, and again after each redrive", () => {
    fc.assert(
      fc.property(
        ...([randomSteps, fc.boolean(), randomFields, randomSchedule, fc.nat(), fc.boolean()] as const),
        (all, hasCycles, fields, plan, from, isFrom) => {
          const playbook = randomPlaybookOf(all, hasCycles, fields);
          const run = new TestRun(playbook, { running: plan.running, paths: RANDOM_PATHS });
          finishRandomly(run, plan);
          expect(run.job.state).toMatch(/succeeded|failed|cancelled/);
          for (let times = 0; times < 3 && run.job.state !== "succeeded"; times++) {
            const before = succeeded(run);
            const step = playbook.steps[from % all.length]?.name as string;
            run.redrive(isFrom && times === 1 ? { from: [step] } : {}).settle();
            const failing = times === 2 ? 0 : plan.failing;
            finishRandomly(run, { ...plan, seed: plan.seed + times + 1, failing, cancelAt: -1 });
            const kept = new Set(succeeded(run));
            expect(before.filter((n) => !kept.has(n))).toEqual([]);
          }
        },
      ),
      { numRuns: 300 },
    );
  }, 60_000);

  it("made from a seed ends too", () => {
    for (let seed = 0; seed < 50; seed++) {
      const run = new TestRun(randomPlaybook(seed), { paths: RANDOM_PATHS });
      finishRandomly(run, { seed, failing: 10, cancelAt: -1, running: false, reversed: false });
    }
  });

  it("comes to the same states in whichever order messages are read at once", () => {
    fc.assert(
      fc.property(randomSteps, fc.boolean(), randomFields, randomSchedule, (all, hasCycles, fields, plan) => {
        const playbook = randomPlaybookOf(all, hasCycles, { ...fields, maxSteps: 10_000 });
        const [one, other] = [false, true].map((reversed) => {
          const run = new TestRun(playbook, { running: plan.running, paths: RANDOM_PATHS });
          finishRandomly(run, { ...plan, reversed });
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
        const dead = (index: number) => seeded(seed, index) % 3;
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
          run.end((open[seeded(seed, open.length) % open.length] as StepRow).node, "succeeded").settle();
        }
        expect(run.open("join")).toHaveLength(1);
        expect(run.succeed("join").job.state).toBe("succeeded");
        expect([...run.rows.values()].some(({ state }) => isOpen(state))).toBe(false);
      }),
      { numRuns: 50 },
    );
  });
});

function succeeded(run: TestRun): number[] {
  return [...run.rows.values()].filter(({ state }) => state === "succeeded").map(({ n }) => n);
}
