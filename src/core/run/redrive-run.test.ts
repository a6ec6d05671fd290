import { describe, expect, it } from "vitest";
import type { Playbook, StepAction, StepLoop } from "../playbook/playbook.ts";
import { testArc, testGraph, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { redriveTrouble } from "./redrive-trouble.ts";
import { TestRun } from "./testing-run.ts";

const started = (playbook: Playbook, options = {}) => new TestRun(playbook, options).settle();
const task = (data: unknown): StepAction => ({ type: "task", task: "work", data });
const CHAIN = testGraph([[1], [2], [3], []]);

describe("a redrive", () => {
  it("repeats what failed, keeps what succeeded, and goes on", () => {
    const run = started(CHAIN).succeed("s0").succeed("s1").fail("s2").redrive().settle();
    expect(run.states()).toBe("s0: succeeded, s1: succeeded, s2: failed, s2~2: open");
    expect(run.open("s2")[0]?.tokens).toEqual([[2, 0, 1]]);
    expect(run.succeed("s2").succeed("s3").job.state).toBe("succeeded");
    expect(run.run).toMatchObject({ failure: null, result: "null" });
  });

  it("may be repeated, with another try each time", () => {
    const run = started(CHAIN).fail("s0").redrive().settle().fail("s0").redrive().settle();
    expect(run.states()).toBe("s0: failed, s0~2: failed, s0~3: open");
  });

  it("after a cancel starts what was cancelled, and what never began", () => {
    const run = started(testGraph([[1, 2], [3], [3], []]))
      .succeed("s0")
      .succeed("s1")
      .cancel()
      .settle();
    expect(run.states()).toBe("s0: succeeded, s1: succeeded, s2: cancelled");
    run.redrive().settle().succeed("s2");
    expect(run.states()).toBe("s0: succeeded, s1: succeeded, s2: cancelled, s2~2: succeeded, s3: open");
    expect(run.open("s3")[0]?.tokens).toEqual([
      [2, 0, 1],
      [4, 0, 2],
    ]);
  });

  it("takes the arcs of steps that ended while the run drained", () => {
    const run = started(testGraph([[1, 2], [3], [3], []]))
      .succeed("s0")
      .fail("s1")
      .succeed("s2");
    expect(run.job.state).toBe("failed");
    run.redrive().settle().succeed("s1");
    expect(run.open().map(({ node, tokens }) => [node, tokens.length])).toEqual([["s3", 2]]);
  });

  it("does not repeat a failure that was handled, and repeats the handlers of the run", () => {
    const steps = [
      testStep("a", [], { arcs: [testArc(1, { on: "always" })] }),
      testStep("b"),
      testStep("notify"),
      testStep("clean"),
    ];
    const run = started(testPlaybook(steps, { onFailure: [2], finally: [3] }))
      .fail("a")
      .fail("b");
    run.fail("notify").succeed("clean").redrive().settle();
    expect(run.states()).toBe("a: handled, b: failed, notify: failed, clean: succeeded, b~2: open");
    run.succeed("b").succeed("clean");
    expect(run.states()).toContain("b~2: succeeded, clean#2: succeeded");
    expect(run.job.state).toBe("succeeded");
  });

  it("repeats only the failed items of a loop", () => {
    const loop: StepLoop = {
      ...{ in: "{{ list }}", iterator: "item", concurrency: 100, where: null, limit: null },
      ...{ onItemFailure: "continue", maxFailures: { count: 0 } },
    };
    const list = Array.from({ length: 100 }, (_, index) => index);
    const run = started(
      testPlaybook(
        [testStep("each", [1], { loop }), testStep("sum", [], { action: task("{{ each.results | length }}") })],
        { workload: { list } },
      ),
    );
    for (const { item } of run.open("each"))
      run.end(`each[${item}]`, [3, 50, 99].includes(item) ? "failed" : "succeeded", item);
    expect(run.settle().job.state).toBe("failed");
    run.redrive().settle();
    expect(run.open().map(({ item, try: attempt }) => [item, attempt])).toEqual([
      [3, 2],
      [50, 2],
      [99, 2],
    ]);
    run.succeed("each[50]").fail("each[3]").succeed("each[99]");
    expect(run.job.state).toBe("failed");
    run.redrive().settle();
    expect(run.open().map(({ item, try: attempt }) => [item, attempt])).toEqual([[3, 3]]);
    run.succeed("each[3]");
    expect(run.open("sum")[0]?.planned.payload).toBe("100");
  });

  it("redrives a run below in its place", () => {
    const action: StepAction = {
      type: "playbook",
      path: "below",
      inline: null,
      data: null,
      returnStep: null,
      wait: true,
    };
    const run = started(testPlaybook([testStep("call", [1], { action }), testStep("b")]), { paths: { below: CHAIN } });
    run.fail("call").redrive().settle();
    expect(run.redriven).toEqual(["job_1"]);
    expect(run.states()).toBe("call: open");
    expect(run.succeed("call").states()).toBe("call: succeeded, b: open");
  });

  it("whose run below was redriven and ended before it was written reads the end that counts", () => {
    const action: StepAction = {
      type: "playbook",
      path: "below",
      inline: null,
      data: null,
      returnStep: null,
      wait: true,
    };
    const playbook = testPlaybook([testStep("call", [1], { action }), testStep("b")]);
    const again = (state: "succeeded" | "failed") => {
      const run = started(playbook, { paths: { below: CHAIN } })
        .fail("call")
        .redrive();
      const job = run.jobs.get("job_1") as { state: string; failure: unknown };
      // Redriven by an engine that was killed before it wrote its advance.
      job.state = "blocked";
      job.failure = null;
      return run.endById("job_1", state).settle();
    };
    expect(again("succeeded").states()).toBe("call: succeeded, b: open");
    expect(again("failed").states()).toBe("call: open");
  });

  it("repeats a step, with all that it can reach, from a step on", () => {
    const run = started(testGraph([[1, 2], [3], [3], [4], []]))
      .succeed("s0")
      .succeed("s1")
      .succeed("s2")
      .succeed("s3")
      .fail("s4");
    run.redrive({ from: ["s1"] }).settle();
    expect(run.states()).toContain("s4: failed, s1~2: open");
    expect(run.open()).toHaveLength(1);
    run.succeed("s1");
    expect(run.open().map(({ node, try: attempt, visit, tokens }) => [node, attempt, visit, tokens])).toEqual([
      [
        "s3",
        2,
        1,
        [
          [6, 0, 1],
          [3, 0, 2],
        ],
      ],
    ]);
    expect(run.succeed("s3").succeed("s4").job.state).toBe("succeeded");
  });

  it("in a cycle repeats the visit that failed", () => {
    const steps = [
      testStep("page", [], { arcs: [testArc(0, { when: "{{ result.more }}" }), testArc(1)] }),
      testStep("end"),
    ];
    const run = started(testPlaybook(steps)).succeed("page", { more: true }).fail("page").redrive().settle();
    expect(run.states()).toBe("page: succeeded, page#2: failed, page#2~2: open");
    run.succeed("page", { more: true }).succeed("page", { more: false });
    expect(run.states()).toContain("page#2~2: succeeded, page#3: succeeded, end: open");
  });

  it("takes a step as done, with an output", () => {
    const steps = [testStep("a", [1]), testStep("b", [], { action: task({ n: "{{ a.total }}" }) })];
    const run = started(testPlaybook(steps))
      .fail("a")
      .redrive({ skip: [{ step: "a", output: { total: 4 } }] })
      .settle();
    expect(run.states()).toBe("a: failed, a~2: succeeded, b: open");
    expect(run.open("b")[0]?.planned.payload).toBe('{"n":4}');
  });

  it("takes a step of any type as done, also a loop", () => {
    const python: StepAction = { type: "python", code: "0".repeat(64), data: null, env: {} };
    const loop: StepLoop = {
      ...{ in: [1, 2], iterator: "item", concurrency: 2, where: null, limit: null },
      ...{ onItemFailure: "fail", maxFailures: null },
    };
    for (const change of [{ action: python }, { action: python, loop }]) {
      const steps = [testStep("a", [1], change), testStep("b", [], { action: task({ n: "{{ a.total }}" }) })];
      const run = started(testPlaybook(steps)).end("a", "failed");
      while (run.settle().open("a").length > 0) run.end("a", "failed");
      run.redrive({ skip: [{ step: "a", output: { total: 4 } }] }).settle();
      expect(run.open("b")[0]?.planned.payload).toBe('{"n":4}');
    }
  });

  it("replaces parts of a filled input, and of the workload", () => {
    const steps = [
      testStep("a", [1], { action: task({ url: "{{ base }}/x", n: 1 }) }),
      testStep("b", [], { action: task("{{ base }}") }),
    ];
    const run = started(testPlaybook(steps, { workload: { base: "old" } })).fail("a");
    run.redrive({ set: [{ step: "a", path: "data.n", value: 2 }], workload: { base: "new" } }).settle();
    expect(run.open("a")[0]?.planned.payload).toBe('{"url":"new/x","n":2}');
    expect(run.succeed("a").open("b")[0]?.planned.payload).toBe('"new"');
    expect(run.run.state.edits).toEqual({});
  });

  it("takes another definition, whose steps may have moved", () => {
    const steps = [testStep("a", [1]), testStep("b", [2]), testStep("c")];
    const run = started(testPlaybook(steps)).succeed("a").fail("b");
    const other = testPlaybook(
      [testStep("first"), testStep("c", [3]), testStep("b", [1]), testStep("d"), testStep("a", [2])],
      { entry: 4 },
    );
    run.redrive({}, other).settle();
    expect(run.states()).toBe("a: succeeded, b: failed, b~2: open");
    run.succeed("b").succeed("c").succeed("d");
    expect(run.states()).toBe("a: succeeded, b: failed, b~2: succeeded, c: succeeded, d: succeeded");
    expect(run.run.playbook).toBe("another");
  });

  it("gives the run its whole timeout again", () => {
    const run = started({ ...CHAIN, timeoutMs: 60_000 }).wait(60_000);
    expect(run.job.reason).toBe("timeout");
    run
      .wait(30 * 86_400_000)
      .redrive()
      .settle();
    expect(run.timers.get(0)).toBe(run.now + 60_000);
    expect(run.states()).toBe("s0: cancelled, s0~2: open");
  });

  it("of a run whose workload could not be filled begins again", () => {
    const run = started(
      testPlaybook([testStep("a"), testStep("notify")], { workload: { x: "{{ inputs.y }}" }, onFailure: [1] }),
    );
    expect(run.succeed("notify").job).toMatchObject({ state: "failed", reason: "invalid" });
    run.redrive({}, testPlaybook([testStep("a"), testStep("notify")], { onFailure: [1] })).settle();
    expect(run.states()).toBe("notify: succeeded, a: open");
  });
});

describe("redriveTrouble", () => {
  const failing = () => started(CHAIN).succeed("s0").fail("s1");
  const troubleOf = (run: TestRun, redrive: object, playbook = CHAIN, before: Playbook | null = null) =>
    redriveTrouble({ run: run.run, rows: [...run.rows.values()], playbook, before, redrive });

  it("is null for a redrive that can be done", () => {
    expect(troubleOf(failing(), {})).toBeNull();
    expect(troubleOf(failing(), { from: ["s0"] })).toBeNull();
    expect(troubleOf(failing(), { skip: [{ step: "s1", output: 1 }] })).toBeNull();
  });

  it.each([
    [{ from: ["s9"] }, 'the playbook has no step "s9"'],
    [
      { skip: [{ step: "s0", output: 1 }] },
      'step "s0" cannot be taken as done: it has not failed, and was not cancelled',
    ],
    [{ set: [{ step: "s7", path: "data", value: 1 }] }, 'the playbook has no step "s7"'],
    [{ from: ["s1"], skip: [{ step: "s1", output: 1 }] }, 'step "s1" cannot be taken as done and repeated'],
  ])("refuses %j", (redrive, trouble) => {
    expect(troubleOf(failing(), redrive)).toBe(trouble);
  });

  it("refuses a definition without a step that must go on, or that reads one which never ran", () => {
    const run = failing();
    const without = testPlaybook([testStep("s0"), testStep("x")]);
    expect(troubleOf(run, {}, without, CHAIN)).toBe('the definition has no step "s1", which the run must repeat');
    const reads = testPlaybook([
      testStep("s0", [1]),
      testStep("s1", [], { action: task("{{ fresh.x }}") }),
      testStep("fresh"),
    ]);
    expect(troubleOf(run, {}, reads, CHAIN)).toBe(
      'step "s1" reads "fresh", which has no output and cannot run any more',
    );
    const runs = testPlaybook([
      testStep("s0", [2]),
      testStep("s1", [2]),
      testStep("fresh", [3]),
      testStep("s2", [], { action: task("{{ fresh.x }}") }),
    ]);
    expect(troubleOf(run, {}, runs, CHAIN)).toBeNull();
  });
});
