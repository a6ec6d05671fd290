import { describe, expect, it } from "vitest";
import type { PlaybookStep, StepAction } from "../playbook/playbook.ts";
import { testArc, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import type { InputEdit } from "./run.ts";
import { planStep, type StepPlan } from "./step-job.ts";
import { stored, testSource } from "./testing-scope.ts";

const FIRST = { city: "Oslo", id: 7, list: [1, 2], none: null, hostile: "a'; rm -rf / #" };

interface Given {
  readonly arrived?: Record<string, unknown>;
  readonly edits?: readonly InputEdit[];
  readonly step?: Partial<PlaybookStep>;
  readonly item?: unknown;
}

/** Of a step with this action, after the step `first` with the output above. */
function planned(action: StepAction | null, { arrived, edits = [], step = {}, item }: Given = {}): StepPlan {
  const arcs = [testArc(1, { data: arrived ?? null })];
  const playbook = testPlaybook([testStep("first", [], { arcs }), testStep("second", [], { action, ...step })]);
  const source = testSource(playbook, [stored(1, "first", FIRST)], {
    data: { inputs: {}, workload: { base: "https://x.test" } },
  });
  const at = { at: "start", step: 1, arrivals: [[1, 0, 0]] as const } as const;
  return planStep(source, { ...at, item: item === undefined ? null : { index: 0, size: 1, value: item } }, edits);
}

function payload(plan: StepPlan): unknown {
  return plan.kind === "job" ? JSON.parse(plan.job.payload) : plan;
}

const http = (request: Record<string, unknown>, data: Record<string, unknown> | null = null): StepAction => ({
  type: "http",
  request,
  data,
});
const shell = (command: string, more = {}): StepAction => ({
  type: "shell",
  command,
  data: null,
  env: {},
  cwd: null,
  ...more,
});
const exec = (input: Record<string, unknown>): StepAction => ({ type: "exec", input, data: null });
const postgres = (command: string, more = {}): StepAction => ({
  type: "postgres",
  connection: "shop",
  command,
  data: null,
  maxRows: null,
  maxBytes: null,
  ...more,
});
const task = (data: unknown): StepAction => ({ type: "task", task: "resize", data });
const playbook = (more = {}): StepAction => ({
  type: "playbook",
  path: "shop/orders@2",
  inline: null,
  data: null,
  returnStep: null,
  wait: true,
  ...more,
});
const wait = (more: object): StepAction => ({ type: "wait", for: null, until: null, data: null, ...more });

describe("http", () => {
  const url = "{{ base }}/api";
  it.each<[string, StepAction, Given, object]>([
    ["a GET", http({ url: "{{ base }}/{{ first.city | lower }}" }), {}, { url: "https://x.test/oslo" }],
    [
      "params and data in the query",
      http(
        { url: `${url}?a=1#top`, params: { q: "{{ first.city }}", none: "{{ first.none }}" } },
        { ids: "{{ first.list }}" },
      ),
      {},
      { url: "https://x.test/api?a=1&q=Oslo&ids=1&ids=2#top" },
    ],
    [
      "data as the body",
      http({ url, method: "POST" }, { id: "{{ first.id }}" }),
      {},
      { url: "https://x.test/api", method: "POST", body: { id: 7 } },
    ],
    [
      "a body instead of data",
      http({ url, method: "post", body: ["{{ first.id }}"], params: { "a b": "c&d" } }, { not: "sent" }),
      {},
      { url: "https://x.test/api?a%20b=c%26d", method: "post", body: [7] },
    ],
    [
      "data of the arc over its own",
      http({ url: `${url}/{{ data.id }}`, method: "PUT" }, { id: 1, kept: true }),
      { arrived: { id: "{{ result.id }}" } },
      { url: "https://x.test/api/7", method: "PUT", body: { id: 7, kept: true } },
    ],
    [
      "headers as text",
      http({ url, headers: { "x-id": "{{ first.id }}", accept: "text/plain" }, expect: [200, "4xx"], redirects: 0 }),
      {},
      { url: "https://x.test/api", headers: { "x-id": "7", accept: "text/plain" }, expect: [200, "4xx"], redirects: 0 },
    ],
    [
      "edits of a redrive",
      http({ url, method: "POST" }, { q: { a: 1, b: 2 } }),
      {
        edits: [
          { path: "url", value: "https://y.test/{{ first.city }}" },
          { path: "data.q.b", value: [3] },
        ],
      },
      { url: "https://y.test/{{ first.city }}", method: "POST", body: { q: { a: 1, b: [3] } } },
    ],
  ])("%s", (_, action, given, expected) => {
    expect(planned(action, given)).toMatchObject({ kind: "job", job: { kind: "http", labels: {} } });
    expect(payload(planned(action, given))).toEqual(expected);
  });
});

describe("commands", () => {
  it.each<[string, StepAction, Given, object]>([
    [
      "shell quotes each value by its place",
      shell('echo {{ first.hostile }} "{{ first.city }}"', {
        env: { ID: "{{ first.id }}", L: "{{ first.list }}" },
        cwd: "/srv",
      }),
      {},
      {
        command: `echo 'a'\\''; rm -rf / #' ""'Oslo'""`,
        shell: true,
        env: { ID: "7", L: "[1,2]" },
        cwd: "/srv",
        resultStdout: true,
      },
    ],
    [
      "exec",
      exec({ argv: ["convert", "{{ first.id }}", "{{ first.hostile }}"], input: { a: "{{ first.list }}" } }),
      {},
      { argv: ["convert", "7", "a'; rm -rf / #"], input: { a: [1, 2] }, resultStdout: true },
    ],
    [
      "the item of a loop",
      exec({ argv: ["echo", "{{ n }}-{{ loop.index }}"] }),
      { item: 5, step: { loop: { iterator: "n" } as never } },
      { argv: ["echo", "5-0"], resultStdout: true },
    ],
  ])("%s", (_, action, given, expected) => {
    expect(planned(action, given)).toMatchObject({ kind: "job", job: { kind: "exec", labels: {} } });
    expect(payload(planned(action, given))).toEqual(expected);
  });

  it("python: the code is an asset, and the data its input", () => {
    const code = "0".repeat(64);
    const action: StepAction = { type: "python", code, data: { id: "{{ first.id }}" }, env: { MODE: "x" } };
    const plan = planned(action, { arrived: { city: "{{ result.city }}" } });
    expect(plan).toMatchObject({ job: { kind: "exec", labels: { "runtime/python": "yes" } } });
    expect(payload(plan)).toMatchObject({
      assets: { "task.py": code },
      input: { id: 7, city: "Oslo" },
      env: { MODE: "x" },
    });
  });
});

describe("other types", () => {
  it("postgres: values are parameters, and the connection is a label", () => {
    const plan = planned(
      postgres("insert into t values ({{ first.hostile }}); select {{ data.n }}", { data: { n: 3 } }),
    );
    expect(plan).toMatchObject({ job: { kind: "postgres", labels: { "connection/shop": "yes" } } });
    const [insert, select] = (payload(plan) as { statements: { text: string; values: unknown[] }[] }).statements;
    expect(insert).toEqual({ text: expect.stringContaining("$1"), values: [FIRST.hostile] });
    expect(select?.values).toEqual([3]);
  });

  it.each<[string, StepAction | null, Given, object]>([
    ["a task", task({ id: "{{ first.id }}" }), { arrived: { x: 1 } }, { id: 7, x: 1 }],
    ["a task with a list", task(["{{ first.id }}"]), {}, [7]],
    ["a task with text", task("{{ first }}"), { arrived: { city: "Alta" } }, { ...FIRST, city: "Alta" }],
    ["a step that only routes", null, { arrived: { a: "{{ result.id }}" } }, { kind: "route", result: '{"a":7}' }],
    ["one without data", null, {}, { kind: "route", result: null }],
    [
      "a playbook",
      playbook({ data: { id: "{{ first.id }}" }, returnStep: "end" }),
      {},
      {
        kind: "run",
        path: "shop/orders@2",
        data: '{"inputs":{"id":7},"workload":null,"returnStep":"end"}',
        wait: true,
      },
    ],
    [
      "a path from a template",
      playbook({ path: "shop/{{ first.city | lower }}", wait: false }),
      {},
      {
        kind: "run",
        path: "shop/oslo",
        data: '{"inputs":{},"workload":null}',
        wait: false,
      },
    ],
    [
      "an inline playbook",
      playbook({ path: null, inline: testPlaybook([testStep("a")]) }),
      {},
      {
        kind: "run",
        path: "#1",
        data: '{"inputs":{},"workload":null}',
        wait: true,
      },
    ],
    ["a wait", wait({ for: "{{ first.id }}m" }), {}, { kind: "wait", dueAt: Date.UTC(2026, 0, 2, 0, 7) }],
    ["a wait until", wait({ until: "2026-03-01T09:00" }), {}, { kind: "wait", dueAt: Date.UTC(2026, 2, 1, 9) }],
    [
      "a wait until",
      wait({ until: "2026-03-01T09:00:00+02:00" }),
      {},
      { kind: "wait", dueAt: Date.UTC(2026, 2, 1, 7) },
    ],
    ["a wait that is over", wait({ until: "2020-01-01" }), {}, { kind: "wait", dueAt: Date.UTC(2026, 0, 2) }],
  ])("%s", (_, action, given, expected) => {
    expect(payload(planned(action, given))).toEqual(expected);
  });
});

it.each<[string, StepAction | null, Given, string, RegExp]>([
  ["a name without a value", http({ url: "{{ base }}/{{ first.citi }}" }), {}, "undefined", /^url: .*citi/],
  ["None in text", http({ url: "https://x.test/{{ first.none }}" }), {}, "template", /^url: .*None/],
  ["a value that is not a URL", http({ url: "{{ first.city }}" }), {}, "input", /^url: /],
  ["None as an argument", exec({ argv: ["echo", "{{ first.none }}"] }), {}, "undefined", /^argv\[1\]: is None/],
  ["an input above 1 MiB", task({ a: "x".repeat(600_000), b: "y".repeat(600_000) }), {}, "too_large", /1048576/],
  ["a missing key", task({}), { step: { assert: { expects: ["q"], returns: [] } } }, "assert", /has no "q"/],
  ["an edit of an unknown field", task({}), { edits: [{ path: "url", value: 1 }] }, "redrive_set", /cannot set "url"/],
  [
    "an edit that removes the data",
    task({}),
    { edits: [{ path: "data", value: 1 }] },
    "redrive_set",
    /must be an object/,
  ],
  ["a duration that is none", wait({ for: "{{ first.city }}" }), {}, "input", /^for: /],
  ["an instant that is none", wait({ until: "tomorrow" }), {}, "input", /^until: /],
  [
    "a connection that is none",
    postgres("select 1", { connection: "postgres://user:pw@h/db" }),
    {},
    "input",
    /^connection: /,
  ],
  ["a path that is empty", playbook({ path: "{{ first.none | default('') }}" }), {}, "input", /^path: /],
  [
    "data of the arc",
    task({}),
    { arrived: { a: "{{ result.nope }}" } },
    "undefined",
    /^data of the arc from step "first"\.a: /,
  ],
])("fails with the reason invalid: %s", (_, action, given, code, message) => {
  const plan = planned(action, given);
  expect(plan).toMatchObject({ kind: "failed", failure: { kind: "error", class: "invalid", code } });
  expect(plan.kind === "failed" ? plan.failure.message : "").toMatch(message);
});
