import { describe, expect, it } from "vitest";
import type { PlaybookStep } from "../playbook/playbook.ts";
import { testArc, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { fillText } from "../template/fill.ts";
import { arcIsTrue, arrivedData, fillSet, guardOf, loopList, runResult } from "./step-fill.ts";
import { needsOf, type ScopeSource, scopeOf } from "./step-scope.ts";
import { failed, stored, testSource } from "./testing-scope.ts";

const STRICT = { undefined: "strict" } as const;

/** Before the last step of the playbook. */
function startText(source: ScopeSource, text: string, data: Record<string, unknown> | null = null): unknown {
  const place = { at: "start", step: source.playbook.steps.length - 1, arrivals: [], item: null } as const;
  return fillText(text, scopeOf(source, place, data), STRICT);
}

function steps(first: Partial<PlaybookStep> = {}) {
  return testPlaybook([testStep("first", [1], first), testStep("second")]);
}

const HTTP = { type: "http", request: { url: "http://x.test" }, data: null } as const;
const PYTHON = { type: "python", code: "a".repeat(64), data: null, env: {} } as const;
const SHELL = { type: "shell", command: "true", data: null, env: {}, cwd: null } as const;

describe("what a step is in a template", () => {
  const http = { status_code: 200, headers: {}, body: { items: [1, 2], status: "of the body" } };
  const exec = (output: unknown, text = "") => ({ exitCode: 0, output, stdout: { text } });
  it.each([
    ["task", undefined, { total: 3 }, "{{ first.total }}", 3],
    ["task", undefined, { total: 3 }, "{{ first.data.total }}", 3],
    ["task", undefined, { total: 3 }, "{{ first.result.total }}", 3],
    ["task", undefined, { total: 3 }, "{{ first.result.data.total }}", 3],
    ["task", undefined, { total: 3 }, "{{ first }}", { total: 3 }],
    ["task with its own data", undefined, { data: { total: 4 } }, "{{ first.data.total }}", 4],
    ["task with its own data", undefined, { data: { total: 4 } }, "{{ first.result.data.total }}", 4],
    ["task with its own status", undefined, { status: "mine" }, "{{ first.status }}", "mine"],
    ["task with its own result", undefined, { result: { a: 1 } }, "{{ first.result.a }}", 1],
    ["task that returned a list", undefined, [5, 6], "{{ first[1] }}", 6],
    ["task that returned a list", undefined, [5, 6], "{{ first.status }}", "succeeded"],
    ["task that returned null", undefined, null, "{{ first }}", null],
    ["how it ended", undefined, 1, "{{ first.status }} {{ first.attempt }} {{ first.visits }}", "succeeded 1 1"],
    ["times", undefined, 1, "{{ first.ended_at }}", "2026-01-01T00:00:05.000Z"],
    ["http", HTTP, http, "{{ first.data.items }}", [1, 2]],
    ["http", HTTP, http, "{{ first.body.items[0] }}", 1],
    ["http", HTTP, http, "{{ first.status_code }}", 200],
    ["http", HTTP, http, "{{ first.result.data.status }}", "of the body"],
    ["http", HTTP, http, "{{ first.status }}", "succeeded"],
    ["python", PYTHON, exec({ status: "success", data: { n: 7 } }), "{{ first.data.n }}", 7],
    ["python", PYTHON, exec({ status: "success" }), "{{ first.status }}", "success"],
    ["python, None", PYTHON, exec(null, "printed"), "{{ first }}", null],
    ["shell, a verdict", SHELL, exec({ ok: true }, "text"), "{{ first.ok }}", true],
    ["shell, JSON", SHELL, exec(null, '{"a": [1]}\n'), "{{ first.a }}", [1]],
    ["shell, text", SHELL, exec(null, "two words\n\n"), "{{ first }}", "two words"],
    ["shell, text", SHELL, exec(null, "two words\n"), "{{ first.stdout }}", "two words\n"],
    [
      "shell, cut JSON",
      SHELL,
      { exitCode: 0, output: null, stdout: { text: "[1]", textCut: true } },
      "{{ first }}",
      "[1]",
    ],
    ["shell", SHELL, exec(null, "x"), "{{ first.exit_code }}", 0],
  ])("%s", (_, action, result, text, expected) => {
    const playbook = steps(action === undefined ? {} : { action });
    expect(startText(testSource(playbook, [stored(1, "first", result)]), text)).toEqual(expected);
  });

  it("has no value after a failure, and what it failed of", () => {
    const source = testSource(steps(), [failed(1, "first", { message: "503 from x.test", status: 503 })]);
    expect(startText(source, "{{ first }}")).toBe(null);
    expect(startText(source, "{{ first.status }}: {{ first.error }}")).toBe("failed: 503 from x.test");
  });

  it("does not exist before it has ended", () => {
    expect(() => startText(testSource(steps()), "{{ first.total }}")).toThrow(/first/);
    expect(startText(testSource(steps()), "{{ first.total | default(0) }}")).toBe(0);
  });

  it("of a loop is the list of its results, with the errors of its items", () => {
    const loop = {
      in: [],
      iterator: "city",
      concurrency: 1,
      where: null,
      limit: null,
      onItemFailure: "continue",
    } as const;
    const playbook = steps({ loop: { ...loop, maxFailures: null } });
    const items = [
      stored(2, "first", { t: 1 }, { item: 0 }),
      failed(3, "first", { kind: "http", message: "HTTP 500" }, { item: 1, state: "failed" }),
      stored(4, "first", { t: 3 }, { item: 2 }),
    ];
    const source = testSource(playbook, [stored(1, "first", null)], { itemsOf: { 1: items } });
    expect(startText(source, "{{ first }}")).toEqual([{ t: 1 }, null, { t: 3 }]);
    expect(startText(source, "{{ first.data[2].t }} {{ first.results | length }}")).toBe("3 3");
    expect(startText(source, "{{ first.errors }}")).toEqual([{ index: 1, reason: "http", message: "HTTP 500" }]);
  });
});

describe("other names", () => {
  const playbook = testPlaybook([testStep("city"), testStep("second")], {
    aliases: { vars: "ctx", "job.uuid": "run.id", loop_index: "loop.index" },
  });
  const source = testSource(playbook, [stored(1, "city", { name: "step" })], {
    data: { inputs: { city: "input" }, workload: { city: "workload", base: "http://x.test", data: 1 } },
    variables: { page: 2 },
  });
  it.each([
    ["{{ inputs.city }}", "input"],
    ["{{ workload.city }}", "workload"],
    ["{{ city.name }}", "step"],
    ["{{ base }}/{{ ctx.page }}", "http://x.test/2"],
    ["{{ vars.page }}", 2],
    ["{{ job.uuid }}", "job_run"],
    ["{{ run.id }} {{ execution_id }}", "job_run job_run"],
    ["{{ now }}", "2026-01-02T00:00:00.000Z"],
    ["{{ data.n }}", 9],
  ])("%s", (text, expected) => {
    expect(startText(source, text, { n: 9 })).toEqual(expected);
  });

  it("the item of a loop comes before everything else", () => {
    const loop = { in: "{{ city.list }}", iterator: "city", concurrency: 1, where: null, limit: null } as const;
    const looped = testPlaybook([
      testStep("city", [1]),
      testStep("second", [], { loop: { ...loop, onItemFailure: "fail", maxFailures: null } }),
    ]);
    const place = { at: "start", step: 1, arrivals: [], item: { index: 1, size: 2, value: "Oslo" } } as const;
    const scope = scopeOf(testSource(looped, [stored(1, "city", {})]), place);
    expect(fillText("{{ city }} {{ loop.index }} {{ loop.last }}", scope, STRICT)).toBe("Oslo 1 true");
    // The list itself is of the step.
    expect(needsOf({ ...testSource(looped), latest: { 0: 1 } }, { ...place, item: null })?.outputs).toEqual([1]);
    expect(needsOf({ ...testSource(looped), latest: { 0: 1 } }, place)).toBe(null);
  });
});

describe("needsOf", () => {
  const loop = { in: [], iterator: "x", concurrency: 1, where: null, limit: null, onItemFailure: "fail" } as const;
  const looped = { loop: { ...loop, maxFailures: null } } as const;
  const task = (data: unknown) => ({ action: { type: "task", task: "t", data } }) as const;
  const at = { at: "start", step: 1, arrivals: [], item: null } as const;
  const source = (first: Partial<PlaybookStep>, second: Partial<PlaybookStep>, loaded = false) => {
    const playbook = testPlaybook([testStep("first", [1], first), testStep("second", [], second)]);
    const all = testSource(playbook, [stored(7, "first", 1)]);
    return loaded ? { ...all, variables: null } : { ...all, variables: null, output: () => undefined };
  };
  it.each([
    ["nothing", source({}, task({ a: "text" })), null],
    ["an output", source({}, task({ a: ["{{ first.x }}"] })), { outputs: [7], items: [], variables: false }],
    ["a guard", source({}, { when: "first == 1" }), { outputs: [7], items: [], variables: false }],
    ["ctx", source({}, task("{{ ctx.page }}")), { outputs: [], items: [], variables: true }],
    ["items", source(looped, task("{{ first }}"), true), { outputs: [], items: [7], variables: false }],
    ["how a loop ended", source(looped, task("{{ first.status }}"), true), null],
    ["a step that has not ended", { ...source({}, task("{{ first }}")), latest: {} }, null],
    ["a template that does not parse", source({}, task("{{ first ")), null],
  ])("%s", (_, from, expected) => {
    expect(needsOf(from, at)).toEqual(expected);
  });

  it("asks for the output of a step that reads itself by name, and not for that of its last visit", () => {
    const end = { status: "succeeded", failure: null, attempt: 1 } as const;
    const playbook = testPlaybook([testStep("a", [], { set: { page: "{{ a.next }}" } })]);
    const source = { ...testSource(playbook), latest: { 0: 3 }, output: () => undefined };
    expect(needsOf(source, { at: "after", step: 0, n: 7, end })).toMatchObject({ outputs: [7] });
  });

  it("asks for the output of a step after it only if something reads it", () => {
    const end = { status: "succeeded", failure: null, attempt: 1 } as const;
    const needsAfter = (when: string) => {
      const playbook = testPlaybook([testStep("first", [], { arcs: [testArc(1, { when })] }), testStep("second")]);
      return needsOf({ ...testSource(playbook), output: () => undefined }, { at: "after", step: 0, n: 7, end });
    };
    expect(needsAfter("error != None")).toBe(null);
    expect(needsAfter("result.total > 3")).toEqual({ outputs: [7], items: [], variables: false });
  });

  it("asks for the output of `end`, and if that is empty for the last one", () => {
    const playbook = testPlaybook([testStep("first", [1]), testStep("end", [], { action: null })]);
    const result = { at: "result", last: 7 } as const;
    const all = testSource(playbook, [stored(7, "first", { n: 1 }), stored(8, "end", null)]);
    const without = (rows: number[]) => ({
      ...all,
      output: (n: number) => (rows.includes(n) ? undefined : all.output(n)),
    });
    expect(needsOf(without([7, 8]), result)?.outputs).toEqual([8]);
    expect(needsOf(without([7]), result)?.outputs).toEqual([7]);
    expect(needsOf(all, result)).toBe(null);
    expect(runResult(all, result)).toEqual({ ok: true, value: { n: 1 } });
  });
});

it("adds members by aliases to the output of a step, after its own", () => {
  const aliases = {
    "list.command_0": "list",
    "list.count": "list.rowCount",
    "list.own": "list.rowCount",
    "other.x": "list",
  };
  const playbook = { ...testPlaybook([testStep("list"), testStep("next")]), aliases };
  const source = testSource(playbook, [stored(1, "list", { rows: [1, 2], rowCount: 2, own: 7 })]);
  const scope = scopeOf(source, { at: "start", step: 1, arrivals: [], item: null });
  const filled = (text: string) => fillText(text, scope, { undefined: "strict" });
  expect(filled("{{ list.command_0.rows }}")).toEqual([1, 2]);
  expect([filled("{{ list.count }}"), filled("{{ list.own }}"), filled("{{ list.rows[1] }}")]).toEqual([2, 7, 2]);
});

describe("after a step", () => {
  const end = (status: "succeeded" | "failed" | "skipped", failure: object | null = null) =>
    ({ status, failure: failure as never, attempt: 2 }) as const;
  const failure503 = failed(1, "first", { kind: "http", message: "HTTP 503", status: 503 });
  it.each([
    ["result.total > 2", stored(1, "first", { total: 3 }), end("succeeded"), true],
    ["first.total > 2", stored(1, "first", { total: 3 }), end("succeeded"), true],
    ["data.total > 2 and success and status == 'succeeded'", stored(1, "first", { total: 3 }), end("succeeded"), true],
    ["data.n == 1", stored(1, "first", { data: { n: 1 } }), end("succeeded"), true],
    ["error != None and status_code == 503", failure503, end("failed", failure503.failure), true],
    ["failure.kind == 'http' and not success", failure503, end("failed", failure503.failure), true],
    ["result.status_code == 503 and attempt == 2", failure503, end("failed", failure503.failure), true],
    ["status == 'skipped' and result == None", stored(1, "first", null, { state: "skipped" }), end("skipped"), true],
    ["missing.total > 2", stored(1, "first", 1), end("succeeded"), false],
    ["{{ result | length }}", stored(1, "first", [1, 2, 3]), end("succeeded"), true],
  ])("%s", (when, output, ended, expected) => {
    const playbook = testPlaybook([testStep("first", [], { arcs: [testArc(1, { when })] }), testStep("second")]);
    const place = { at: "after", step: 0, n: 1, end: ended } as const;
    const answer = arcIsTrue(testSource(playbook, [output]), place, playbook.steps[0]?.arcs[0] as never);
    expect(answer).toEqual({ value: expected, error: null });
  });

  it("fills values of ctx, and reports the one that cannot be", () => {
    const playbook = steps();
    const source = testSource(playbook, [stored(1, "first", { next: 2 })]);
    const place = { at: "after", step: 0, n: 1, end: end("succeeded") } as const;
    expect(fillSet(source, place, { page: "{{ result.next }}" })).toEqual({ ok: true, value: { page: 2 } });
    const refused = fillSet(source, place, { page: { deep: "{{ result.nxt }}" } });
    expect(refused).toMatchObject({ ok: false, failure: { class: "invalid", code: "undefined" } });
    expect(refused.ok ? "" : refused.failure.message).toMatch(/^set\.page\.deep: .*nxt/);
  });
});

describe("before a step", () => {
  it("the data of the arcs is merged in the order of the file", () => {
    const arc = (data: Record<string, unknown>) => [testArc(2, { data })];
    const playbook = testPlaybook([
      testStep("a", [], { arcs: arc({ x: "{{ result.n }}", from: "a" }) }),
      testStep("b", [], { arcs: arc({ y: "{{ a.n }}", from: "b" }) }),
      testStep("join", [], { when: "data.x == 1" }),
    ]);
    const source = testSource(playbook, [stored(1, "b", { n: 2 }), stored(2, "a", { n: 1 })]);
    const arrivals = [
      [1, 0, 1],
      [2, 0, 0],
    ] as const;
    const place = { at: "start", step: 2, arrivals, item: null } as const;
    expect(arrivedData(source, place)).toEqual({ ok: true, value: { x: 1, y: 1, from: "b" } });
    expect(guardOf(source, place)).toEqual({ value: true, error: null });
    // The step `b` has only texts and another step's output in its data.
    const unknown = { ...source, output: () => undefined };
    expect(needsOf(unknown, place)?.outputs).toEqual([2]);
  });

  const list = (loop: object, outputs = [stored(1, "first", { cities: ["Oslo", "Bergen", "Alta"] })]) => {
    const full = {
      iterator: "city",
      concurrency: 1,
      where: null,
      limit: null,
      onItemFailure: "fail",
      maxFailures: null,
    };
    const looped = { loop: { ...full, ...loop } as never };
    const playbook = testPlaybook([testStep("first", [1]), testStep("second", [], looped)]);
    return loopList(testSource(playbook, outputs), { at: "start", step: 1, arrivals: [], item: null });
  };
  it.each([
    ["a template", { in: "{{ first.cities }}" }, ["Oslo", "Bergen", "Alta"]],
    ["a list with templates", { in: ["{{ first.cities[0] }}", 5] }, ["Oslo", 5]],
    ["where", { in: "{{ first.cities }}", where: "city != 'Oslo' and loop.index < 2" }, ["Bergen"]],
    ["limit", { in: "{{ first.cities }}", limit: 1 }, ["Oslo"]],
    ["nothing", { in: [] }, []],
  ])("the list of a loop: %s", (_, loop, expected) => {
    expect(list(loop)).toEqual({ ok: true, value: expected });
  });
  it.each([
    ["text", { in: "{{ first.cities[0] }}" }, "not_a_list", "loop.in: must be a list; got text"],
    ["None", { in: "{{ first.none }}" }, "undefined", "none"],
    ["10,001 items", { in: Array(10_001).fill(1) }, "too_large", "has 10001 items"],
    ["a where without a value", { in: [1], where: "city.x + 1" }, "template", "loop.where: item 0"],
  ])("a loop over %s fails", (_, loop, code, message) => {
    const refused = list(loop);
    expect(refused).toMatchObject({ ok: false, failure: { class: "invalid", code } });
    expect(refused.ok ? "" : refused.failure.message).toContain(message);
  });

  it("a condition for each item may read the results of another loop", () => {
    const loop = { iterator: "n", concurrency: 1, where: null, limit: null, onItemFailure: "fail", maxFailures: null };
    const list = Array.from({ length: 3_000 }, (_, i) => i);
    const looped = (change: object) => ({ loop: { ...loop, in: list, ...change } as never });
    const playbook = testPlaybook([
      testStep("first", [1], looped({})),
      testStep("second", [], looped({ where: "first[n] == 1" })),
    ]);
    const items = list.map((item) => stored(item + 2, "first", item % 2, { item }));
    const source = testSource(playbook, [stored(1, "first", null)], { itemsOf: { 1: items } });
    const begun = process.cpuUsage();
    const filled = loopList(source, { at: "start", step: 1, arrivals: [], item: null });
    expect(filled.ok && filled.value.length).toBe(1_500);
    expect(process.cpuUsage(begun).user / 1_000).toBeLessThan(5_000);
  });

  it("outputs that are too large together are not read", () => {
    const large = stored(1, "first", "x".repeat(9 * 1_048_576));
    const playbook = testPlaybook([testStep("first", [1]), testStep("second", [], { when: "first == 1" })]);
    const { value, error } = guardOf(testSource(playbook, [large]), { at: "start", step: 1, arrivals: [], item: null });
    expect(value).toBe(false);
    expect(error).toMatch(/longer than 8388608 characters/);
  });
});

it("a run below returns the output of the step that was asked for", () => {
  const playbook = testPlaybook([testStep("a", [1]), testStep("end")], { result: { value: "{{ end }}" } });
  const outputs = [stored(1, "a", "of a"), stored(2, "end", "of end")];
  const place = { at: "result", last: 2 } as const;
  const data = { inputs: {}, workload: {} };
  expect(runResult(testSource(playbook, outputs), place)).toEqual({ ok: true, value: "of end" });
  const asked = testSource(playbook, outputs, { data: { ...data, returnStep: "a" } });
  expect(runResult(asked, place)).toEqual({ ok: true, value: "of a" });
});
