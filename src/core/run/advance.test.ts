import { describe, expect, it } from "vitest";
import type { Playbook, PlaybookStep, StepAction, StepLoop } from "../playbook/playbook.ts";
import { testArc, testGraph, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { TestRun } from "./testing-run.ts";

const started = (playbook: Playbook, options = {}) => new TestRun(playbook, options).settle();
const task = (data: unknown): StepAction => ({ type: "task", task: "work", data });
const WAIT: StepAction = { type: "wait", for: "10s", until: null, data: null };
const ROUTE = { action: null };

describe("a chain", () => {
  it("starts each step when the one before it has succeeded, and ends with the last output", () => {
    const run = started(testGraph([[1], [2], []]));
    expect(run.states()).toBe("s0: open");
    run.succeed("s0").succeed("s1");
    expect(run.states()).toBe("s0: succeeded, s1: succeeded, s2: open");
    run.succeed("s2", { total: 3 });
    expect(run.job).toMatchObject({ state: "succeeded", reason: null });
    expect(run.run).toMatchObject({ phase: "ended", result: '{"total":3}', failure: null });
  });

  it("fills the input of a step from the outputs of others", () => {
    const steps = [
      testStep("a", [1]),
      testStep("b", [], { action: task({ n: "{{ a.total + 1 }}", city: "{{ city }}" }) }),
    ];
    const run = started(testPlaybook(steps, { workload: { city: "Oslo" } })).succeed("a", { total: 2 });
    expect(run.open("b")[0]?.planned).toMatchObject({
      kind: "work",
      payload: '{"n":3,"city":"Oslo"}',
      name: "test / b",
    });
  });

  it("passes the data of an arc, and sets ctx before the next step", () => {
    const steps = [
      testStep("a", [], {
        set: { page: "{{ result.next }}" },
        arcs: [testArc(1, { when: "{{ ctx.page == 2 }}", on: "success", data: { from: "{{ result.next }}" } })],
      }),
      testStep("b", [], { action: task({ page: "{{ ctx.page }}", from: "{{ data.from }}" }) }),
    ];
    const run = started(testPlaybook(steps)).succeed("a", { next: 2 });
    expect(run.open("b")[0]?.planned.payload).toContain('"page":2');
    expect(run.variables).toEqual({ page: "2" });
  });

  it("fails a step whose input cannot be filled, with the reason in the event", () => {
    const steps = [testStep("a", [], { action: task({ n: "{{ b.total }}" }) }), testStep("b")];
    const run = started(testPlaybook(steps));
    expect(run.states()).toBe("a: failed");
    expect(run.job).toMatchObject({ state: "failed", reason: "step" });
    expect(run.run.failure).toMatchObject({ class: "logical" });
    expect(run.run.failure?.message).toContain('step "a": ');
  });

  it("ignores messages that come late or twice", () => {
    const run = started(testGraph([[1], []])).end("s0", "succeeded");
    run.message("ended", "job_1");
    run.message("ended", "job_99");
    run.message("start");
    run.settle().succeed("s1");
    run.message("ended", "job_1");
    run.message("cancel");
    const events = run.events.length;
    run.settle();
    expect(run.events).toHaveLength(events);
    expect(run.states()).toBe("s0: succeeded, s1: succeeded");
  });
});

describe("arcs", () => {
  const fork = (mode: "match" | "first" | "all", whens: readonly (string | null)[]) =>
    testPlaybook([
      testStep("a", [], { ...ROUTE, mode, arcs: whens.map((when, index) => testArc(index + 1, { when })) }),
      ...whens.map((_, index) => testStep(`to${index}`)),
    ]);
  it.each([
    ["match", ["{{ 1 == 1 }}", null, "{{ 1 == 1 }}"], ["to0", "to2"]],
    ["match", ["{{ 1 == 2 }}", null, "{{ nothing.x > 1 }}"], ["to1"]],
    ["first", ["{{ 1 == 2 }}", null, "{{ 1 == 1 }}"], ["to1"]],
    ["all", ["{{ 1 == 1 }}", null, "{{ 1 == 2 }}"], ["to0", "to1"]],
  ] as const)("by mode %s of %j take %j", (mode, whens, to) => {
    const run = started(fork(mode, whens));
    expect(run.open().map(({ node }) => node)).toEqual(to);
  });

  it("record a condition that cannot be evaluated, which is false", () => {
    const run = started(fork("match", ["{{ 'a' - 1 }}", null]));
    expect(run.open().map(({ node }) => node)).toEqual(["to1"]);
    expect(JSON.stringify(run.events)).toContain('"errors":{"0":');
  });

  it("after a failure are those that ask for it, and then it is handled", () => {
    const arcs = [testArc(1), testArc(2, { when: "{{ error != None }}", on: "always" })];
    const playbook = testPlaybook([testStep("a", [], { arcs }), testStep("b"), testStep("rescue")]);
    const run = started(playbook).fail("a");
    expect(run.states()).toBe("a: handled, rescue: open");
    expect(run.succeed("rescue").job.state).toBe("succeeded");
    expect(started(playbook).succeed("a").states()).toBe("a: succeeded, b: open");
  });

  it("without one that is true end the branch, unless the playbook must take one", () => {
    const arcs = [testArc(1, { when: "{{ 1 == 2 }}" })];
    const steps = [testStep("a", [], { arcs }), testStep("b")];
    expect(started(testPlaybook(steps)).succeed("a").job.state).toBe("succeeded");
    const run = started(testPlaybook(steps, { mustTakeArc: true })).succeed("a");
    expect(run.job).toMatchObject({ state: "failed", reason: "step" });
    expect(run.run.failure?.message).toBe('no arc of step "a" is true');
  });

  it("of a skipped step are evaluated, with the status skipped", () => {
    const steps = [
      testStep("a", [], {
        when: "{{ 1 == 2 }}",
        arcs: [testArc(1, { when: "{{ status == 'skipped' }}", on: "always" })],
      }),
      testStep("b"),
    ];
    expect(started(testPlaybook(steps)).states()).toBe("a: skipped, b: open");
  });

  it("after on_error continue are those of a success, with the output null", () => {
    const steps = [
      testStep("a", [1], { onError: "continue" }),
      testStep("b", [], { action: task({ of: "{{ a is none }}" }) }),
    ];
    const run = started(testPlaybook(steps)).fail("a");
    expect(run.states()).toBe("a: handled, b: open");
    expect(run.succeed("b").job.state).toBe("succeeded");
  });
});

describe("joins", () => {
  it("all wait for every branch that can still come, and start once", () => {
    const run = started(testGraph([[1, 2], [3], [3], []]))
      .succeed("s0")
      .succeed("s1");
    expect(run.open("s3")).toEqual([]);
    expect(run.succeed("s2").states()).toBe("s0: succeeded, s1: succeeded, s2: succeeded, s3: open");
    expect(run.rows.get(4)?.tokens).toEqual([
      [2, 0, 1],
      [3, 0, 2],
    ]);
  });

  it("all do not wait for a branch that was not taken, or whose failure was handled elsewhere", () => {
    const steps = [
      testStep("a", [], { ...ROUTE, arcs: [testArc(1), testArc(2)] }),
      testStep("b", [], { arcs: [testArc(3, { when: "{{ 1 == 2 }}" })] }),
      testStep("c", [], { arcs: [testArc(3), testArc(4, { on: "failure" })] }),
      testStep("join"),
      testStep("rescue"),
    ];
    const run = started(testPlaybook(steps)).succeed("b").fail("c").succeed("rescue");
    expect(run.states()).toBe("a: succeeded, b: succeeded, c: handled, rescue: succeeded");
    expect(run.job.state).toBe("succeeded");
  });

  it("wait for a join above them", () => {
    // s1 and s2 meet in s3, which leads to s4; s5 leads to s4 at once.
    const run = started(testGraph([[1, 2, 5], [3], [3], [4], [], [4]]))
      .succeed("s0")
      .succeed("s5")
      .succeed("s1");
    expect(run.open().map(({ node }) => node)).toEqual(["s2"]);
    run.succeed("s2");
    expect(run.open().map(({ node }) => node)).toEqual(["s3"]);
    expect(
      run
        .succeed("s3")
        .open()
        .map(({ node }) => node),
    ).toEqual(["s4"]);
  });

  it.each([
    ["any", 1],
    [2, 2],
  ] as const)("of %s branches start with the first, and absorb the others", (join, count) => {
    const steps = [
      testStep("a", [1, 2, 3]),
      ...["b", "c", "d"].map((name) => testStep(name, [4])),
      testStep("join", [], { join }),
    ];
    const run = started(testPlaybook(steps)).succeed("a");
    for (const name of ["d", "c", "b"].slice(0, count)) run.succeed(name);
    expect(run.open("join")).toHaveLength(1);
    for (const name of ["d", "c", "b"].slice(count)) run.succeed(name);
    run.succeed("join");
    expect([...run.rows.values()].filter(({ node }) => node === "join")).toHaveLength(1);
    expect(run.job.state).toBe("succeeded");
    expect(JSON.stringify(run.events)).toContain('"absorb"');
  });

  it("of more branches than can arrive fail", () => {
    const steps = [testStep("a", [1]), testStep("join", [], { join: 2 })];
    const run = started(testPlaybook(steps)).succeed("a");
    expect(run.states()).toBe("a: succeeded, join: failed");
    expect(run.run.failure?.message).toContain("only 1 of the branches");
  });
});

describe("cycles", () => {
  it("number the visits, and each arrival is one", () => {
    const steps = [
      testStep("page", [], { arcs: [testArc(0, { when: "{{ result.next > 0 }}" }), testArc(1)] }),
      testStep("end"),
    ];
    const run = started(testPlaybook(steps))
      .succeed("page", { next: 1 })
      .succeed("page", { next: 2 })
      .succeed("page", { next: 0 });
    expect(run.states()).toBe("page: succeeded, page#2: succeeded, page#3: succeeded, end: open");
  });

  it("end after 1,000 visits of a step", () => {
    const steps = [testStep("page", [0])];
    const run = started(testPlaybook(steps));
    for (let visit = 1; visit <= 1_000; visit++) run.endById(`job_${visit}`, "succeeded").settle();
    expect(run.job).toMatchObject({ state: "failed", reason: "step" });
    expect(run.run.failure?.message).toContain("at most 1000 visits");
    expect(JSON.stringify(run.run.state).length).toBeLessThan(1_000);
  });
});

describe("ctx", () => {
  it("fails the step that would make it too large, once what it holds is counted", () => {
    const big = "x".repeat(1_000_000);
    const names = ["a", "b", "c", "d", "e"];
    const steps = names.map((name, index) =>
      testStep(name, index < 4 ? [index + 1] : [], { set: { [name]: "{{ result }}" } }),
    );
    const run = started(testPlaybook(steps)).succeed("a", big).succeed("b", big).succeed("c", big).succeed("d", big);
    expect(run.job.state).toBe("blocked");
    expect(run.succeed("e", big).states()).toContain("e: failed");
    expect(run.run.failure?.message).toContain("4194304 characters");
    expect(Object.keys(run.variables)).toEqual(["a", "b", "c", "d"]);
  });
});

describe("a wait", () => {
  it("holds no job, and ends at its time", () => {
    const run = started(testPlaybook([testStep("pause", [1], { action: WAIT }), testStep("next")]));
    expect(run.states()).toBe("pause: waiting");
    expect(run.jobs.size).toBe(0);
    expect(run.wait(9_999).states()).toBe("pause: waiting");
    expect(run.wait(1).states()).toBe("pause: succeeded, next: open");
    expect(run.timers.size).toBe(0);
  });
});

describe("limits", () => {
  it("start at most `parallel` steps at a time", () => {
    const run = started(testGraph([[1, 2, 3], [], [], []], { parallel: 2 })).succeed("s0");
    expect(run.open()).toHaveLength(2);
    expect(run.succeed("s1").open()).toHaveLength(2);
    expect(run.succeed("s2").succeed("s3").job.state).toBe("succeeded");
  });

  it("end a run that makes more than maxSteps steps, and still run finally", () => {
    const steps = [testStep("a", [1]), testStep("b", [2]), testStep("c"), testStep("clean")];
    const run = started(testPlaybook(steps, { maxSteps: 2, finally: [3] }))
      .succeed("a")
      .succeed("b");
    expect(run.states()).toBe("a: succeeded, b: succeeded, clean: open");
    expect(run.succeed("clean").job).toMatchObject({ state: "failed", reason: "step" });
    expect(run.run.failure?.message).toContain("maxSteps");
  });

  it("start 500 steps in one advance, and go on by a message", () => {
    const count = 800;
    const steps = [
      testStep("s", [], { ...ROUTE, arcs: Array.from({ length: count }, (_, index) => testArc(index + 1)) }),
      ...Array.from({ length: count }, (_, index) => testStep(`x${index}`)),
    ];
    const run = new TestRun(testPlaybook(steps, { parallel: 10_000 }));
    run.advance();
    expect(run.rows.size).toBe(500);
    expect(run.messages.map(({ kind }) => kind)).toEqual(["continue"]);
    expect(run.settle().rows.size).toBe(count + 1);
  });
});

describe("a failure that nothing handles", () => {
  // a forks into b and c; c leads to d.
  const forked = (change: Partial<Playbook>) => testGraph([[1, 2], [], [3], []], change);

  it.each([
    ["drain", "s0: succeeded, s1: failed, s2: succeeded", "failed"],
    ["cancel", "s0: succeeded, s1: failed, s2: cancelled", "failed"],
    ["continue", "s0: succeeded, s1: failed, s2: succeeded, s3: succeeded", "failed"],
  ] as const)("with %s ends in %s", (failureMode, states, state) => {
    const run = started(forked({ failureMode })).succeed("s0").fail("s1", "boom");
    if (failureMode !== "cancel") run.succeed("s2");
    if (failureMode === "continue") run.succeed("s3");
    expect(run.states()).toBe(states);
    expect(run.job).toMatchObject({ state, reason: "step" });
    expect(run.run.failure?.message).toBe('step "s1": boom');
    expect(run.events.at(-1)).toMatchObject({ name: "run.ended", data: { step: "s1", state: "failed" } });
  });

  it("is followed by onFailure and finally, one after another", () => {
    const steps = ["a", "notify", "page", "clean"].map((name) => testStep(name));
    const run = started(testPlaybook(steps, { onFailure: [1, 2], finally: [3] })).fail("a");
    expect(run.open().map(({ node }) => node)).toEqual(["notify"]);
    run.succeed("notify").fail("page").succeed("clean");
    expect(run.states()).toBe("a: failed, notify: succeeded, page: failed, clean: succeeded");
    expect(run.events.at(-1)).toMatchObject({ name: "run.ended", data: { step: "a" } });
  });

  it("in finally fails a run that succeeded otherwise", () => {
    const run = started(testPlaybook([testStep("a"), testStep("clean")], { finally: [1] }))
      .succeed("a", 1)
      .fail("clean");
    expect(run.job).toMatchObject({ state: "failed", reason: "step" });
    expect(run.run.result).toBeNull();
  });

  it("ends waits at once, which are no work", () => {
    const steps = [
      testStep("s", [1, 2], ROUTE),
      testStep("pause", [3], { action: WAIT }),
      testStep("a"),
      testStep("b"),
    ];
    const run = started(testPlaybook(steps)).fail("a");
    expect(run.states()).toBe("s: succeeded, pause: cancelled, a: failed");
    expect(run.job.state).toBe("failed");
  });

  it("cancels more than 200 open steps in batches", () => {
    const count = 450;
    const steps = [
      testStep("s", [], { ...ROUTE, arcs: Array.from({ length: count }, (_, index) => testArc(index + 1)) }),
      ...Array.from({ length: count }, (_, index) => testStep(`x${index}`)),
    ];
    const run = started(testPlaybook(steps, { parallel: 10_000, failureMode: "cancel" }), { running: true }).fail("x0");
    expect(run.open().filter(({ isAsked }) => isAsked)).toHaveLength(count - 1);
    for (const { node } of run.open()) run.end(node, "cancelled");
    expect(run.settle().job.state).toBe("failed");
  });
});

describe("a cancel", () => {
  const steps = [testStep("a", [1]), testStep("b"), testStep("notify"), testStep("clean")];
  const playbook = testPlaybook(steps, { onFailure: [2], finally: [3] });

  it("starts nothing new, asks open steps to end, runs finally, and then ends the run", () => {
    const run = started(playbook, { running: true }).cancel().settle();
    expect(run.open("a")).toMatchObject([{ isAsked: true }]);
    run.end("a", "succeeded").settle();
    expect(run.states()).toBe("a: succeeded, clean: open");
    expect(run.succeed("clean").job).toMatchObject({ state: "cancelled", reason: null });
  });

  it("that comes twice ends finally too", () => {
    const run = started(playbook).cancel().settle();
    expect(run.states()).toBe("a: cancelled, clean: open");
    expect(run.cancel().settle().states()).toBe("a: cancelled, clean: cancelled");
    expect(run.job.state).toBe("cancelled");
  });

  it("that is repeated before the steps have ended changes nothing", () => {
    const run = started(playbook, { running: true }).cancel().cancel().settle();
    run.end("a", "cancelled").settle();
    expect(run.open().map(({ node }) => node)).toEqual(["clean"]);
  });

  it("before the start starts nothing but finally", () => {
    const run = new TestRun(playbook).cancel().settle();
    expect(run.states()).toBe("clean: open");
  });

  it("of a single step is a failure that its arcs may handle", () => {
    const arcs = [testArc(1, { when: "{{ status == 'cancelled' }}", on: "always" })];
    const run = started(testPlaybook([testStep("a", [], { arcs }), testStep("b")]))
      .end("a", "cancelled")
      .settle();
    expect(run.states()).toBe("a: handled, b: open");
    expect(
      started(testPlaybook([testStep("a")]))
        .end("a", "cancelled")
        .settle().job,
    ).toMatchObject({ state: "failed" });
  });
});

describe("the timeout of a run", () => {
  it("ends open steps, runs the handlers, and fails the run", () => {
    const steps = [testStep("a", [1]), testStep("b"), testStep("clean")];
    const run = started(testPlaybook(steps, { timeoutMs: 60_000, finally: [2] })).wait(60_000);
    expect(run.states()).toBe("a: cancelled, clean: open");
    expect(run.succeed("clean").job).toMatchObject({ state: "failed", reason: "timeout" });
  });

  it("also ends the steps of a run that drains", () => {
    const run = started(testGraph([[1, 2], [], []], { timeoutMs: 60_000 }))
      .succeed("s0")
      .fail("s1")
      .wait(60_000);
    expect(run.states()).toBe("s0: succeeded, s1: failed, s2: cancelled");
    expect(run.job.reason).toBe("step");
  });
});

describe("loops", () => {
  const looping = (loop: Partial<StepLoop>, change: Partial<Playbook> = {}) =>
    testPlaybook(
      [
        testStep("each", [1], {
          action: task({ of: "{{ item }}", at: "{{ loop.index }}" }),
          loop: {
            ...{ in: "{{ list }}", iterator: "item", concurrency: 2, where: null, limit: null },
            ...{ onItemFailure: "fail", maxFailures: null, ...loop },
          },
        }),
        testStep("sum", [], { action: task({ results: "{{ each.results }}", failed: "{{ each.errors | length }}" }) }),
      ],
      { workload: { list: [10, 20, 30, 40] }, ...change },
    );

  it("start as many items as may run at a time, and return the results in order", () => {
    const run = started(looping({}));
    expect(run.states()).toBe("each: looping, each[0]: open, each[1]: open");
    run.succeed("each[1]", "b").succeed("each[2]", "c").succeed("each[0]", "a").succeed("each[3]", "d");
    expect(run.open("sum")[0]?.planned.payload).toBe('{"results":["a","b","c","d"],"failed":0}');
    expect(run.run.state.loops).toEqual({});
    expect(run.open("sum")[0]?.n).toBe(6);
  });

  it("of no items succeed with an empty list, and take their arcs once", () => {
    const run = started(looping({}, { workload: { list: [] } }));
    expect(run.states()).toBe("each: succeeded, sum: open");
    expect(run.open("sum")[0]?.planned.payload).toBe('{"results":[],"failed":0}');
  });

  it("filter their list, and cut it", () => {
    const run = started(looping({ where: "{{ item > 10 }}", limit: 2 }));
    expect(run.open().map(({ planned }) => planned.payload)).toEqual(['{"of":20,"at":0}', '{"of":30,"at":1}']);
  });

  it("that are not over a list fail", () => {
    expect(started(looping({}, { workload: { list: 3 } })).states()).toBe("each: failed");
  });

  it("stop at the first failed item, and let the others end", () => {
    const run = started(looping({})).fail("each[0]");
    expect(run.states()).toBe("each: looping, each[0]: failed, each[1]: open");
    run.succeed("each[1]");
    expect(run.states()).toBe("each: failed, each[0]: failed, each[1]: succeeded");
    expect(run.run.failure?.message).toContain("1 of 4 items failed");
  });

  it("with failureMode cancel end the running items too", () => {
    const run = started(looping({}, { failureMode: "cancel" })).fail("each[0]");
    expect(run.states()).toBe("each: failed, each[0]: failed, each[1]: cancelled");
    expect(run.job.state).toBe("failed");
  });

  it.each([
    [{ count: 1 }, 1, "succeeded"],
    [{ count: 1 }, 2, "failed"],
    [{ percent: 50 }, 2, "succeeded"],
    [{ percent: 50 }, 3, "failed"],
    [null, 4, "succeeded"],
  ] as const)("with maxFailures %j and %i failed items have %s", (maxFailures, count, state) => {
    const run = started(looping({ onItemFailure: "continue", maxFailures }));
    for (let item = 0; item < 4; item++) {
      if (item < count) run.fail(`each[${item}]`);
      else run.succeed(`each[${item}]`, item);
    }
    expect(run.rows.get(1)?.state).toBe(state);
    if (state === "succeeded") expect(run.open("sum")[0]?.planned.payload).toContain(`"failed":${count}`);
  });

  it("fail items whose input cannot be filled, without a job", () => {
    const run = started(looping({ onItemFailure: "continue" }, { workload: { list: [{ a: 1 }, 2] } }));
    expect(run.states()).toContain("each[1]: open");
    const strict = looping({ onItemFailure: "continue" }, { workload: { list: [{ a: 1 }, { b: 2 }] } });
    const [each, sum] = strict.steps as [Playbook["steps"][number], Playbook["steps"][number]];
    const other = started({ ...strict, steps: [{ ...each, action: task({ of: "{{ item.a }}" }) }, sum] });
    expect(other.states()).toBe("each: looping, each[0]: open, each[1]: failed");
    // Its last items end in the advance that fails them: their errors are read all the same.
    const late = started({
      ...strict,
      workload: { list: [{ b: 1 }, { b: 2 }, { b: 3 }] },
      steps: [{ ...each, action: task({ of: "{{ item.a }}" }) }, sum],
    });
    expect(late.open("sum")[0]?.planned.payload).toBe('{"results":[null,null,null],"failed":3}');
    other.succeed("each[0]", 5);
    expect(other.open("sum")[0]?.planned.payload).toBe('{"results":[5,null],"failed":1}');
  });

  it("start no more items once the run drains, and go on after a redrive", () => {
    const base = looping({});
    const steps = [
      testStep("s", [1, 3], ROUTE),
      ...base.steps.map((step) => ({ ...step, arcs: step.arcs.map((arc) => ({ ...arc, to: 2 })) })),
      testStep("other"),
    ];
    const run = started({ ...base, steps })
      .fail("other")
      .succeed("each[0]", 1)
      .succeed("each[1]", 2);
    expect(run.states()).toBe("s: succeeded, each: cancelled, other: failed, each[0]: succeeded, each[1]: succeeded");
    run.redrive().settle();
    expect(run.states()).toContain("other~2: open, each[2]: open, each[3]: open");
    run.succeed("each[2]", 3).succeed("each[3]", 4).succeed("other").succeed("sum");
    expect(run.job.state).toBe("succeeded");
  });

  it("of 10,000 items take linear time, and 500 at a time", () => {
    const list = Array.from({ length: 10_000 }, (_, index) => index);
    const run = started(looping({ concurrency: 500 }, { workload: { list }, parallel: 1_000, maxSteps: 20_000 }));
    while (run.open("each").length > 0) {
      for (const { job } of run.open("each")) run.endById(job as string, "succeeded", 1);
      run.settle();
    }
    expect(run.open("sum")).toHaveLength(1);
    expect(Math.max(...run.plans.map(({ made }) => made.length))).toBe(500);
    expect(run.plans.length).toBeLessThan(60);
  });

  it("start a few at a time if their inputs are large, so that no advance holds gigabytes", () => {
    const list = Array.from({ length: 20 }, (_, index) => index);
    const playbook = looping({ concurrency: 500 }, { workload: { list, text: "x".repeat(800_000) }, parallel: 1_000 });
    const [each, sum] = playbook.steps as [PlaybookStep, PlaybookStep];
    const large = { ...each, action: task({ of: "{{ item }}", text: "{{ text }}" }) };
    const run = started({ ...playbook, steps: [large, sum] });
    expect(run.open("each")).toHaveLength(20);
    const made = run.plans.map(({ jobs }) => jobs.reduce((chars, { payload }) => chars + payload.length, 0));
    expect(Math.max(...made)).toBeLessThan(6_000_000);
  });

  it("start a few at a time if their templates cost much, and share the work for `where`", () => {
    const list = Array.from({ length: 30_000 }, (_, index) => index);
    const items = Array.from({ length: 500 }, (_, index) => index);
    const playbook = looping({ concurrency: 500, in: items }, { workload: { list }, parallel: 1_000 });
    const [each, sum] = playbook.steps as [PlaybookStep, PlaybookStep];
    const costly = { ...each, action: task({ of: "{{ list | sum }}" }) };
    const run = started({ ...playbook, steps: [costly, sum] });
    expect(run.open("each")).toHaveLength(500);
    expect(Math.max(...run.plans.map(({ jobs }) => jobs.length))).toBeLessThan(300);
    const loop = { ...(each.loop as StepLoop), where: "{{ (list | sum) > item }}" };
    const filtered = started({ ...playbook, steps: [{ ...each, loop }, sum] });
    expect(filtered.run.failure?.message).toContain("the values are too large for a template");
  });
});

describe("runs below", () => {
  const below = testGraph([[]]);
  const action = (wait: boolean): StepAction => ({
    ...{ type: "playbook", path: "shop/below", inline: null, data: { n: 1 }, returnStep: null, wait },
  });

  it("are jobs of the kind playbook, whose end is a message like any other", () => {
    const steps = [
      testStep("call", [1], { action: action(true) }),
      testStep("next", [], { action: task({ of: "{{ call.x }}" }) }),
    ];
    const run = started(testPlaybook(steps), { paths: { "shop/below": below } });
    expect(run.open("call")[0]?.planned).toMatchObject({
      ...{ kind: "playbook", payload: '{"n":1}', isChild: true },
      run: { hash: "hash of shop/below", data: '{"inputs":{"n":1},"workload":null}', timeoutMs: null },
    });
    expect(run.succeed("call", { x: 7 }).open("next")[0]?.planned.payload).toBe('{"of":7}');
  });

  it("that nobody waits for are independent, and their id is the output", () => {
    const steps = [
      testStep("call", [1], { action: action(false) }),
      testStep("next", [], { action: task({ of: "{{ call.id }}" }) }),
    ];
    const run = started(testPlaybook(steps), { paths: { "shop/below": below } });
    expect(run.states()).toBe("call: succeeded, next: open");
    expect(run.plans[0]?.jobs[0]).toMatchObject({ isChild: false, n: 1 });
    expect(run.open("next")[0]?.planned.payload).toBe('{"of":"job_1"}');
  });

  it("of a playbook that does not exist, or too deep, fail", () => {
    const steps = [testStep("call", [], { action: action(true) })];
    expect(started(testPlaybook(steps)).run.failure?.message).toContain("shop/below does not exist");
    const deep = started(testPlaybook(steps), { paths: { "shop/below": below }, depth: 16 });
    expect(deep.run.failure?.message).toContain("at most 16");
  });

  it("whose output is to be that of a step which does not exist fail, and never begin", () => {
    const steps = [testStep("call", [], { action: { ...action(true), returnStep: "summ" } as StepAction })];
    const run = started(testPlaybook(steps), { paths: { "shop/below": below } });
    expect(run.run.failure?.message).toContain('return_step: the playbook shop/below has no step "summ"');
    expect(run.open("call")).toEqual([]);
  });
});
