/** What went wrong in other systems, each as a small run on a real store in virtual time. */
import { describe, expect, it, onTestFinished } from "vitest";
import { task } from "../../src/index.ts";
import { openTestEngine, type StepOutcomes, type TestEngine } from "../../src/testing/index.ts";
import { playbook, work } from "./points.ts";

async function open(): Promise<TestEngine> {
  const kit = await openTestEngine();
  onTestFinished(() => kit.close());
  return kit;
}

interface Trap {
  readonly workflow: readonly object[];
  readonly more?: object;
  readonly input?: Record<string, unknown>;
  readonly outcomes?: StepOutcomes;
  /** Steps in the order in which they were made, with their states; `end` is the run's. */
  readonly steps: string;
  readonly result?: unknown;
}

const echo = (value: unknown) => ({ ok: value });

const TRAPS: Readonly<Record<string, Trap>> = {
  "a condition that gives a number is true": {
    workflow: [
      work("list", {}, { next: [{ step: "many", when: "{{ list | length }}" }, { step: "empty" }] }),
      work("many"),
      work("empty"),
    ],
    outcomes: { list: echo([1, 2, 3]) },
    steps: "list succeeded, many succeeded, end succeeded",
  },
  "a condition that gives the text False is false": {
    workflow: [
      work("ask", {}, { next: [{ step: "yes", when: "{{ ask }}" }, { step: "no" }] }),
      work("yes"),
      work("no"),
    ],
    outcomes: { ask: echo("False") },
    steps: "ask succeeded, no succeeded, end succeeded",
  },
  "a join below a cycle waits for its last visit": {
    workflow: [
      { step: "start", next: ["page", "other"] },
      work("page", {}, { next: [{ step: "page", when: "{{ result.more }}" }, { step: "join" }] }),
      work("other", {}, { next: "join" }),
      work("join", { pages: "{{ page.visits }}" }),
    ],
    outcomes: { page: [echo({ more: true }), echo({ more: true }), echo({ more: false })] },
    steps:
      "start succeeded, page succeeded, other succeeded, page#2 succeeded, page#3 succeeded, join succeeded, end succeeded",
  },
  "a join whose other branch failed, which is handled elsewhere, does not wait for it": {
    workflow: [
      { step: "start", next: ["good", "bad"] },
      work("good", {}, { next: "join" }),
      work("bad", {}, { next: [{ step: "rescue", when: "{{ error != None }}" }, { step: "join" }] }),
      work("rescue"),
      work("join"),
    ],
    outcomes: { bad: "fail" },
    steps: "start succeeded, good succeeded, bad handled, rescue succeeded, join succeeded, end succeeded",
  },
  "a join behind a failure that leads back to it waits for the detour": {
    workflow: [
      { step: "start", next: ["good", "bad"] },
      work("good", {}, { next: "join" }),
      work("bad", {}, { next: [{ step: "rescue", when: "{{ error != None }}" }, { step: "join" }] }),
      work("rescue", {}, { next: "join" }),
      work("join", { value: "{{ rescue }}" }),
    ],
    outcomes: { bad: "fail", rescue: echo(1) },
    steps: "start succeeded, good succeeded, bad handled, rescue succeeded, join succeeded, end succeeded",
  },
  "a step named like a key of the workload is the step": {
    workflow: [work("city", {}, { next: "two" }), work("two", { value: "{{ city }} {{ workload.city }}" })],
    more: { workload: { city: "Oslo" }, result: "{{ city }} {{ workload.city }}" },
    outcomes: { city: echo("Rome") },
    steps: "city succeeded, two succeeded, end succeeded",
    result: "Rome Oslo",
  },
  "an output with the keys data, result and status keeps them": {
    workflow: [work("one", {}, { next: "two" }), work("two")],
    more: { result: ["{{ one.data }}", "{{ one.result }}", "{{ one.status }}", "{{ one }}"] },
    outcomes: { one: echo({ data: 1, result: 2, status: "mine" }) },
    steps: "one succeeded, two succeeded, end succeeded",
    result: [1, 2, "mine", { data: 1, result: 2, status: "mine" }],
  },
  "an output without them has them as the output itself": {
    workflow: [work("one", {}, { next: "two" }), work("two")],
    more: { result: ["{{ one.data.x }}", "{{ one.result.data.x }}", "{{ one.x }}", "{{ one.status }}"] },
    outcomes: { one: echo({ x: 5 }) },
    steps: "one succeeded, two succeeded, end succeeded",
    result: [5, 5, 5, "succeeded"],
  },
  "a result that states a success or a failure is only a result": {
    workflow: [
      { step: "python", type: "python", code: "def main():\n    return {'status': 'error'}", next: "after" },
      work("after"),
    ],
    more: { result: "{{ python.status }}" },
    outcomes: { python: echo({ status: "error" }) },
    steps: "python succeeded, after succeeded, end succeeded",
    result: "error",
  },
  "a loop over nothing succeeds with nothing, and its arcs are taken once": {
    workflow: [
      work(
        "each",
        {},
        {
          loop: { in: "{{ workload.items }}", iterator: "one" },
          next: [{ step: "empty", when: "{{ result | length == 0 }}" }, { step: "some" }],
        },
      ),
      work("empty", { value: "{{ each }}" }),
      work("some"),
    ],
    more: { workload: { items: [] }, result: "{{ each }}" },
    steps: "each succeeded, empty succeeded, end succeeded",
    result: [],
  },
  "a skipped step does not skip what follows it": {
    workflow: [
      work("one", {}, { when: "{{ 1 == 2 }}", next: "two" }),
      work("two", {}, { next: "three" }),
      work("three"),
    ],
    steps: "one skipped, two succeeded, three succeeded, end succeeded",
  },
  "a failing branch lets the others end, and nothing new starts": {
    workflow: [
      { step: "start", next: ["bad", "good"] },
      work("bad"),
      work("good", {}, { next: "later" }),
      work("later"),
    ],
    outcomes: { bad: "fail" },
    steps: "start succeeded, bad failed, good succeeded, end failed",
  },
  "with failureMode continue the other branches go on": {
    workflow: [
      { step: "start", next: ["bad", "good"] },
      work("bad"),
      work("good", {}, { next: "later" }),
      work("later"),
    ],
    more: { failureMode: "continue" },
    outcomes: { bad: "fail" },
    steps: "start succeeded, bad failed, good succeeded, later succeeded, end failed",
  },
};

describe("a trap:", () => {
  it.each(Object.entries(TRAPS))("%s", async (_, trap) => {
    const { workflow, more = {}, input = {}, outcomes = {}, steps, result } = trap;
    const kit = await open();
    const run = await kit.perdure.run(playbook(workflow, more), input);
    const info = await kit.runToEnd(run, { outcomes });
    const made = (await run.steps()).map(({ step, visit, state }) => `${step}${visit > 1 ? `#${visit}` : ""} ${state}`);
    expect([...made, `end ${info.state}`].join(", ")).toBe(steps);
    if (result !== undefined) expect(info.result).toEqual(result);
  });

  it("with failureMode cancel the other branches end at once", async () => {
    const kit = await open();
    const step = task("work", async ({ ms = 0, fail = false }: { ms?: number; fail?: boolean }, { signal }) => {
      await kit.clock.sleep(ms, signal);
      if (fail) throw new Error("as asked");
    });
    await kit.perdure.work([step], { concurrency: 5 });
    const workflow = [
      { step: "start", next: ["bad", "good", "pause"] },
      work("bad", { ms: 1_000, fail: true }),
      work("good", { ms: 3_600_000 }, { next: "later" }),
      { step: "pause", type: "wait", for: "2h", next: "later" },
      work("later"),
    ];
    const run = await kit.perdure.run(playbook(workflow, { failureMode: "cancel" }));
    const before = kit.clock.now();
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed", failedStep: "bad" });
    expect(kit.clock.now() - before).toBeLessThan(60_000);
    const made = (await run.steps()).map(({ step: name, state }) => `${name} ${state}`);
    expect(made).toEqual(["start succeeded", "bad failed", "good cancelled", "pause cancelled"]);
  });

  it("an hour in which the wall clock is shown again does not repeat a timer, and does not lose it", async () => {
    // Both Sundays of 2030 on which clocks in Oslo change.
    for (const [startAt, until] of [
      ["2030-03-31T00:30:00Z", "2030-03-31T03:30:00+02:00"],
      ["2030-10-27T00:30:00Z", "2030-10-27T02:30:00+01:00"],
    ] as const) {
      const kit = await openTestEngine({ startAt: new Date(startAt) });
      onTestFinished(() => kit.close());
      const run = await kit.perdure.run(playbook([{ step: "pause", type: "wait", until }, work("never")]));
      const info = await kit.runToEnd(run);
      expect([info.state, info.finishedAt]).toEqual(["succeeded", Date.parse(until)]);
      expect(await run.steps()).toHaveLength(1);
    }
  });

  it("a late success of an attempt that timed out moves nothing once the arc of the failure was taken", async () => {
    let finish: (value: string) => void = () => {};
    const slow = task(
      "slow",
      () =>
        new Promise<string>((resolve) => {
          finish = resolve;
        }),
    );
    const note = task("work", ({ value }: { value?: string }) => value ?? null);
    const kit = await open();
    await kit.perdure.work([slow, note], { concurrency: 5, stopGrace: "1s" });
    const run = await kit.perdure.run(
      playbook([
        {
          ...{ step: "slow", type: "task", task: "slow", timeout: "10s" },
          next: [{ step: "rescue", when: "{{ status == 'failed' }}" }, { step: "good" }],
        },
        work("rescue", { value: "rescued" }, { next: "wait" }),
        { step: "wait", type: "wait", for: "1h", next: "last" },
        work("last", { value: "{{ slow.error }}" }),
        work("good"),
      ]),
    );
    await kit.advance("10m");
    finish("too late");
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded" });
    const steps = await run.steps();
    expect(steps.map(({ step, state }) => `${step} ${state}`)).toEqual([
      "slow handled",
      "rescue succeeded",
      "wait succeeded",
      "last succeeded",
    ]);
  });
});
