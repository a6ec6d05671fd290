/** Branches that meet, in NoETL's words and drawn at random, on a real store in virtual time: the step where they meet runs exactly
 *  once, after all that can still reach it, and nothing hangs. */
import fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { task } from "../../src/index.ts";
import { openTestEngine, type TestEngine } from "../../src/testing/index.ts";
import { rounds } from "../tier.ts";
import { playbook, work } from "./points.ts";

async function open(): Promise<TestEngine> {
  const kit = await openTestEngine();
  onTestFinished(() => kit.close());
  return kit;
}

const weather = {
  ...{ apiVersion: "noetl.io/v1", kind: "Playbook", metadata: { name: "weather", path: "demo/weather" } },
  workload: { temperature: 30 },
  workbook: [
    {
      ...{ name: "compare", tool: "python" },
      code: "def main(temperature):\n    return {'is_hot': float(temperature) >= 25.0}\n",
    },
  ],
  workflow: [
    { step: "start", next: [{ step: "flag" }] },
    {
      ...{ step: "flag", tool: "workbook", name: "compare", args: { temperature: "{{ workload.temperature }}" } },
      next: [
        { when: "{{ result.is_hot == true }}", step: "hot" },
        { when: "{{ result.is_hot == false }}", step: "cold" },
      ],
    },
    { step: "hot", next: [{ step: "a" }, { step: "b" }] },
    { step: "a", tool: "python", code: "def main():\n    return 'A'\n", next: [{ step: "end" }] },
    { step: "b", tool: "python", code: "def main():\n    return 'B'\n", next: [{ step: "end" }] },
    { step: "cold", next: [{ step: "c" }] },
    { step: "c", tool: "python", code: "def main():\n    return 'C'\n", next: [{ step: "end" }] },
    { step: "end" },
  ],
};

it.each([
  [30, true, "start, flag, hot, a, b, end"],
  [20, false, "start, flag, cold, c, end"],
])("at %i degrees the workbook comes to its end once", async (temperature, isHot, order) => {
  const kit = await open();
  const run = await kit.perdure.run(weather, { temperature });
  const info = await kit.runToEnd(run, { outcomes: { flag: { ok: { is_hot: isHot } } } });
  expect(info.state).toBe("succeeded");
  const steps = await run.steps();
  expect(steps.map(({ step }) => step).join(", ")).toBe(order);
  const end = steps.at(-1);
  for (const { endedAt } of steps) expect(end?.startedAt).toBeGreaterThanOrEqual(endedAt as number);
});

/** Of each branch: how long it takes, and whether it is taken and leads to the join. */
const branch = fc.record({
  ms: fc.integer({ min: 0, max: 5_000 }),
  fate: fc.constantFrom("live", "untaken", "dead", "rescued"),
});

it("a diamond with dead branches starts its join once, after the slowest that can reach it", async () => {
  const kit = await open();
  const slow = task("work", async ({ ms = 0, fail = false }: { ms?: number; fail?: boolean }, { signal }) => {
    await kit.clock.sleep(ms, signal);
    if (fail) throw new Error("as asked");
  });
  await kit.perdure.work([slow], { concurrency: 100 });
  await fc.assert(
    fc.asyncProperty(fc.array(branch, { minLength: 1, maxLength: 7 }), async (branches) => {
      const arcs = branches.map(({ fate }, i) =>
        fate === "untaken" ? { step: `b${i}`, when: "{{ 1 == 2 }}" } : { step: `b${i}` },
      );
      const workflow = [
        { step: "start", next: { spec: { mode: "all" }, arcs: [...arcs, { step: "always" }] } },
        work("always", {}, { next: "join" }),
        ...branches.flatMap(({ ms, fate }, i) => {
          const leads = {
            live: "join",
            untaken: "join",
            dead: [{ step: "join", when: "{{ 1 == 2 }}" }],
            rescued: [{ step: `r${i}`, when: "{{ error != None }}" }, { step: "join" }],
          };
          const own = work(`b${i}`, { ms, fail: fate === "rescued" }, { next: leads[fate] });
          return fate === "rescued" ? [own, work(`r${i}`, { ms })] : [own];
        }),
        work("join"),
      ];
      const run = await kit.perdure.run(playbook(workflow));
      expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded" });
      const steps = await run.steps();
      const joins = steps.filter(({ step }) => step === "join");
      expect(joins).toHaveLength(1);
      // A branch that is rescued elsewhere does not lead to the join, and one that is dead not once its arcs were evaluated.
      const start = steps[0]?.startedAt as number;
      const slowest = Math.max(0, ...branches.map(({ ms, fate }) => (fate === "untaken" ? 0 : ms)));
      expect((joins[0]?.startedAt as number) - start).toBe(slowest);
    }),
    { numRuns: rounds(50) },
  );
});
