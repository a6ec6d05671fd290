/** Whole playbooks of NoETL, of its versions: what they are compiled to, and what is refused. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Playbook, StepAction } from "../../../core/playbook/playbook.ts";
import type { ReadPlaybook } from "../../../core/playbook/problem.ts";
import { readYaml } from "../../../yaml/read.ts";
import { isPlaybookDocument, readAnyPlaybook } from "../../playbooks.ts";
import { isNoetlPlaybook } from "./read.ts";

const context = {
  sha256: (text: string) => createHash("sha256").update(text).digest("hex"),
  tools: { duckdb: "my-duckdb" },
};
const HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: { name: demo, path: tests/demo }\n";

function read(text: string, head = HEAD): ReadPlaybook {
  return readAnyPlaybook(readYaml(head + text, "test.yaml").value, context);
}

function good(text: string, head = HEAD): Playbook {
  const { playbook, problems } = read(text, head);
  expect(problems.filter(({ severity }) => severity === "error")).toEqual([]);
  return playbook as Playbook;
}

function stepOf(playbook: Playbook, name: string) {
  const step = playbook.steps.find((each) => each.name === name);
  if (step === undefined) throw new Error(`no step ${name}`);
  return step;
}

/** Code and the path of each error. */
function errors(text: string, head = HEAD): string[] {
  const { playbook, problems } = read(text, head);
  expect(playbook).toBeNull();
  return problems.filter(({ severity }) => severity === "error").map(({ code, path }) => `${code} ${path.join(".")}`);
}

describe("version 1", () => {
  const BRANCHES = `
workload: { temperature: 30 }
workbook:
  - name: compute
    type: python
    assert: { expects: [temperature], returns: [is_hot] }
    code: |
      def main(temperature):
          return {"is_hot": temperature >= 25}
workflow:
  - step: start
    next: [{ step: check }]
  - step: check
    type: workbook
    name: compute
    args: { temperature: "{{ workload.temperature }}" }
    next:
      - { when: "{{ result.is_hot == true }}", step: hot }
      - { when: "{{ result.is_hot == false }}", step: cold }
  - step: hot
    tool: router
    next: [{ step: a }, { step: b }]
  - { step: a, type: python, code: "def main():\\n    return 1\\n", next: end }
  - { step: b, type: python, code: "def main():\\n    return 2\\n", next: end }
  - { step: cold, type: shell, command: "echo cold", next: [end] }
  - step: end
`;

  it("compiles branches, the workbook and a fan-out", () => {
    const playbook = good(BRANCHES);
    expect(playbook.steps.map(({ name, action }) => [name, action?.type ?? null])).toEqual([
      ["start", null],
      ["check", "python"],
      ["hot", null],
      ["a", "python"],
      ["b", "python"],
      ["cold", "shell"],
      ["end", null],
    ]);
    expect(playbook).toMatchObject({ name: "demo", path: "tests/demo", entry: 0, workload: { temperature: 30 } });
    const check = stepOf(playbook, "check");
    expect(check).toMatchObject({ mode: "match", assert: { expects: ["temperature"], returns: ["is_hot"] } });
    expect(check.action).toMatchObject({ data: { temperature: "{{ workload.temperature }}" } });
    expect(check.arcs.map(({ to, when, on }) => [to, when, on])).toEqual([
      [2, "result.is_hot == true", "success"],
      [5, "result.is_hot == false", "success"],
    ]);
    expect(stepOf(playbook, "hot").arcs.map(({ to, when }) => [to, when])).toEqual([
      [3, null],
      [4, null],
    ]);
  });

  it("reads the example of the document on retries, with its second step", () => {
    const playbook = good(
      `
workflow:
  - step: fetch_data
    type: http
    url: https://api.example.com/data
    retry:
      max_attempts: 5
      initial_delay: 1.0
      backoff_multiplier: 2.0
      max_delay: 60.0
      jitter: true
      retry_when: "{{ status_code >= 500 or error != None }}"
      stop_when: "{{ status_code == 200 and success == True }}"
    next:
      - step: process_data
  - step: process_data
    type: python
    code: |
      def main(): return {"ok": True}
`,
      "",
    );
    const { policy } = stepOf(playbook, "fetch_data").options;
    expect(policy).toMatchObject({
      maxAttempts: 5,
      backoff: { type: "exponential", initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.5 },
    });
    expect(policy.retryWhen).toBe("status_code >= 500 or error != None");
    expect(stepOf(playbook, "fetch_data").arcs).toMatchObject([{ to: 1, when: null }]);
  });

  it("reads loops of an iterator, and their options", () => {
    const playbook = good(`
workload: { cities: [{ name: Oslo }] }
workflow:
  - step: start
    type: iterator
    collection: "{{ workload.cities }}"
    element: city
    mode: async
    concurrency: 3
    where: "{{ city.name != '' }}"
    limit: 5
    task: { tool: http, url: "https://x.test/{{ city.name }}", params: { n: "{{ loop_index }}" } }
    next: end
`);
    expect(stepOf(playbook, "start")).toMatchObject({
      loop: { in: "{{ workload.cities }}", iterator: "city", concurrency: 3, where: "city.name != ''", limit: 5 },
      action: { type: "http", request: { url: "https://x.test/{{ city.name }}", params: { n: "{{ loop_index }}" } } },
    });
    // The step that is not in the file is added.
    expect(playbook.steps.map(({ name }) => name)).toEqual(["start", "end"]);
  });

  it("reads postgres steps with a connection", () => {
    const playbook = good(`
workload: { pg_auth: pg_local }
workflow:
  - step: start
    type: postgres
    auth: "{{ workload.pg_auth }}"
    command: insert into t values ('{{ execution_id }}')
    next: [{ step: count }]
  - { step: count, type: postgres, auth: { credential: pg_local }, query: select 1 as one, next: [{ step: shown }] }
  - { step: shown, type: python, args: { n: "{{ count.command_0.rows[0].one }}" }, code: "def main(n): return n" }
`);
    const actions = playbook.steps.map(({ action }) => action as StepAction);
    expect(actions[0]).toMatchObject({ type: "postgres", connection: "{{ workload.pg_auth }}" });
    expect(actions[1]).toMatchObject({ type: "postgres", connection: "pg_local", command: "select 1 as one" });
    expect(playbook.aliases["count.command_0"]).toBe("count");
  });

  it.each([
    ["a comparison with a word", "{{ x }} == word", "((x) ~ '' == 'word')"],
    ["a comparison with a number", "{{ x }} == 3", "((x) ~ '' == '3')"],
    ["two templates", "{{ x }} == 'a' and {{ y }}", "((x) ~ '' == 'a') and (y)"],
    ["a comparison with a template in quotes", "{{ x }} == '{{ y }}'", "((x) ~ '' == ((y) ~ ''))"],
    ["a comparison with true", "{{ x }} == true", "(x) == true"],
    ["without braces", "x > 2", "x > 2"],
  ])("reads conditions: %s", (_, when, expected) => {
    const playbook = good(
      `workload: { x: 1, y: 2 }\nworkflow:\n  - { step: start, next: [{ step: end, when: ${JSON.stringify(when)} }] }\n`,
    );
    expect(stepOf(playbook, "start").arcs[0]?.when).toBe(expected);
  });

  it("skips a step by `pass`, and takes `then` and `else`", () => {
    const playbook = good(`
workload: { skip: false, n: 1 }
workflow:
  - step: start
    next:
      - when: "{{ workload.n > 0 }}"
        then: [{ step: a, data: { n: 1 } }, b]
      - else: [{ step: c }]
  - { step: a, pass: "{{ workload.skip }}", type: shell, command: "true" }
  - { step: b, type: shell, command: "true" }
  - { step: c, type: shell, command: "true" }
`);
    expect(stepOf(playbook, "a").when).toBe("not (workload.skip)");
    expect(stepOf(playbook, "start").arcs.map(({ to, when, data }) => [to, when, data])).toEqual([
      [1, "workload.n > 0", { n: 1 }],
      [2, "workload.n > 0", null],
      [3, null, null],
    ]);
  });
});

describe("version 2", () => {
  const V2 = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: demo }\n";

  it("compiles cases to arcs and a policy", () => {
    const playbook = good(
      `
workload: { url: "http://x.test" }
workflow:
  - step: start
    tool: { kind: http, method: GET, endpoint: "{{ workload.url }}" }
    case:
      - when: "{{ event.name == 'call.error' and error.status in [500, 503] }}"
        then: { retry: { max_attempts: 4, initial_delay: 0.5 } }
      - when: "{{ event.name == 'step.exit' and response is defined and response.data.more == true }}"
        then: { next: [{ step: more, args: { page: "{{ response.data.page }}" } }] }
      - when: "{{ event.name == 'call.error' }}"
        then: { next: [{ step: rescue }] }
    next: end
  - { step: more, tool: { kind: python, code: "result = 1" }, args: { page: "{{ args.page }}" }, next: end }
  - { step: rescue, tool: { kind: noop }, next: end }
  - { step: end }
`,
      V2,
    );
    const start = stepOf(playbook, "start");
    expect(start.options.policy).toMatchObject({ maxAttempts: 4, retryWhen: "status_code in [500, 503]" });
    expect(start.mode).toBe("match");
    expect(start.arcs.map(({ to, on }) => [playbook.steps[to]?.name, on])).toEqual([
      ["more", "always"],
      ["rescue", "failure"],
      ["end", "success"],
    ]);
  });

  it("compiles arcs with modes, loops and rules", () => {
    const playbook = good(
      `
workload: { items: [1, 2] }
executor: { spec: { entry_step: begin, no_next_is_error: true } }
workflow:
  - step: begin
    loop: { in: "{{ workload.items }}", iterator: n, spec: { mode: parallel, max_in_flight: 4 } }
    tool:
      - double:
          kind: python
          args: { n: "{{ iter.n }}" }
          code: result = n * 2
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.error.retryable }}"
                  then: { do: retry, attempts: 3, delay: 0.2 }
                - else: { then: { do: continue, set_ctx: { last: "{{ outcome.result }}" } } }
    next: { spec: { mode: exclusive }, arcs: [{ step: end, when: "{{ ctx.last != None }}", args: { a: 1 } }] }
  - step: end
`,
      V2,
    );
    const begin = stepOf(playbook, "begin");
    expect(playbook).toMatchObject({ entry: 0, mustTakeArc: true });
    expect(begin).toMatchObject({
      mode: "first",
      loop: { concurrency: 4, iterator: "n" },
      set: { last: "{{ outcome.result }}" },
    });
    expect(begin.action).toMatchObject({ type: "python", data: { n: "{{ iter.n }}" } });
    expect(begin.options.policy.maxAttempts).toBe(3);
    expect(begin.options.policy.retryWhen).toContain("status_code in [408, 425, 429]");
  });

  it("makes a playbook within of several tools, with the names around it as data", () => {
    const playbook = good(
      `
workload: { base: "http://x.test" }
workflow:
  - step: start
    loop: { in: [1, 2], iterator: n }
    tool:
      - { name: fetch, kind: http, url: "{{ workload.base }}/{{ n }}" }
      - { name: store, kind: python, args: { got: "{{ _prev.body }}", n: "{{ iter.n }}" }, code: "result = got" }
`,
      V2,
    );
    const { action } = stepOf(playbook, "start");
    if (action?.type !== "playbook" || action.inline === null) throw new Error("not inline");
    expect(action.data).toMatchObject({ outer_workload: "{{ workload }}", n: "{{ n }}" });
    expect(action.inline.steps.map(({ name }) => name)).toEqual(["fetch", "store"]);
    expect(action.inline.steps[0]?.action).toMatchObject({ request: { url: "{{ outer_workload.base }}/{{ n }}" } });
    expect(action.inline.steps[1]?.action).toMatchObject({ data: { got: "{{ fetch.body }}", n: "{{ n }}" } });
  });
});

describe("what playbooks of version 2 write in several ways", () => {
  const step = (tool: string, more = "") => `workflow:\n  - { step: start, tool: ${tool}${more} }\n`;

  it("sets values as lists, in tools, and for one iteration only", () => {
    const list = good(
      step("{ kind: noop }", ", case: [{ then: { set: [{ name: a, value: 1 }], next: [{ step: end }] } }]"),
    );
    expect(stepOf(list, "start").arcs[0]?.set).toEqual({ a: 1 });
    const tool = good(step('{ kind: shell, cmds: [x], set: { ctx.b: "{{ output }}" } }'));
    expect(stepOf(tool, "start").set).toEqual({ b: "{{ output }}" });
    const { playbook, notes } = read(step("{ kind: shell, cmds: [x], set: { iter.c: 1 } }"));
    expect([playbook?.steps[0]?.set, notes]).toEqual([{}, [expect.stringContaining("one iteration")]]);
  });

  it("passes what a tool of a pipeline sets to the tools after it", () => {
    const set = 'set: { iter.got: "{{ output }}" }';
    const { action } = stepOf(
      good(
        step(
          `[{ name: a, kind: shell, cmds: [x], ${set} }, { name: b, kind: shell, cmds: ['echo {{ iter.got }} {{ n }}'] }]`,
        ),
      ),
      "start",
    );
    if (action?.type !== "playbook" || action.inline === null) throw new Error("not inline");
    expect(action.data).toEqual({ n: "{{ n }}" });
    expect(action.inline.steps[0]?.set).toEqual({ got: "{{ output }}" });
    expect(action.inline.steps[1]?.action).toMatchObject({ command: "set -e\necho {{ got }} {{ n }}" });
    expect(action.inline.aliases).toMatchObject({ got: "ctx.got" });
  });

  const ruled = (rules: string) =>
    stepOf(good(step(`{ kind: http, url: "http://x.test", spec: { policy: { rules: ${rules} } } }`)), "start");

  it("makes one policy of several rules that retry", () => {
    const { policy } = ruled(
      `[{ when: "{{ output.error.kind == 'rate_limit' }}", then: { do: retry, attempts: 5, delay: 2.0 } },
        { when: "{{ output.error.kind == 'server_error' }}", then: { do: retry } },
        { when: "{{ output.status == 'error' }}", then: { do: fail } }, { else: { then: { do: continue } } }]`,
    ).options;
    expect(policy).toMatchObject({ maxAttempts: 5, backoff: { initialMs: 2_000 } });
    expect(policy.retryWhen).toBe(
      "((status_code == 429)) or ((not ((status_code == 429))) and ((status_code >= 500)))",
    );
  });

  it("lets a failure pass only where a rule names it", () => {
    const onError = (rules: string) => ruled(rules).onError;
    const otherwise = "{ else: { then: { do: continue } } }";
    expect(onError(`[{ when: "{{ output.status == 'error' }}", then: { do: continue } }]`)).toBe("continue");
    expect(onError(`[{ when: "{{ output.error.kind == 'auth' }}", then: { do: fail } }, ${otherwise}]`)).toBe("fail");
    expect(onError(`[${otherwise}]`)).toBe("continue");
  });

  it("reads what `end` saves as the result of the run", () => {
    const text = "workflow:\n  - { step: end, type: end, save: { type: event_log, args: { a: 1 } } }\n";
    expect(good(text).result).toEqual({ value: { a: 1 } });
  });

  it("fills arguments that are null from others", () => {
    const workbook = "workbook: [{ name: w, type: python, code: x, input: { a: null, b: 2 } }]\n";
    const text = `${workbook}workflow:\n  - { step: start, type: workbook, name: w, data: { a: 1 } }\n`;
    expect(stepOf(good(text), "start").action).toMatchObject({ data: { a: 1, b: 2 } });
  });
});

it("finds the place of a problem in the tool, and in the step around it", () => {
  const { problems } = read(`
workflow:
  - step: start
    tool: { kind: python, code: x, args: { a: "{{ nobody }}" } }
    input: { b: "{{ nobody_else }}" }
    next: [{ step: sql }]
  - { step: sql, tool: { kind: postgres, auth: pg }, command: "insert into {{ ctx.t }} values (1)" }
`);
  expect(problems.map(({ path, offset }) => [path.join("."), offset])).toEqual([
    ["workflow.0.input.b", 3],
    ["workflow.0.tool.args.a", 3],
    ["workflow.1.command", 15],
  ]);
});

describe("more of version 2", () => {
  it("takes events in the conditions of arcs", () => {
    const arcs = `[{ step: a, when: "{{ event.name == 'loop.done' }}" }, { step: b, when: "{{ event.name == 'call.error' and ctx.x }}" }]`;
    const playbook = good(`workflow:
  - { step: start, loop: { in: [1], iterator: n }, tool: { kind: shell, cmds: [x] }, next: { arcs: ${arcs} } }
  - { step: a }
  - { step: b }
`);
    expect(stepOf(playbook, "start").arcs).toMatchObject([
      { when: null, on: "success" },
      { when: "ctx.x", on: "failure" },
    ]);
    expect(errors("workflow: [{ step: s, next: [{ step: end, when: \"{{ event.name == 'odd' }}\" }] }]")).toEqual([
      "case_action workflow.0.next.0.when",
    ]);
  });

  it("reads the last tool's output by its name, and refuses those before it", () => {
    const text = (tool: string) => `workflow:
  - step: start
    tool: [{ name: a, kind: shell, cmds: [x] }, { name: b, kind: shell, cmds: [x] }]
    next: [{ step: end, when: "{{ start.results.${tool}.more }}" }]
`;
    expect(stepOf(good(text("b")), "start").arcs[0]?.when).toBe("start.more");
    expect(errors(text("a"))).toEqual(["keyword_refused workflow.0"]);
  });

  it("does not double quotes of values that are bound, and reads rows by their longer path", () => {
    const playbook = good(`workflow:
  - { step: start, tool: { kind: postgres, auth: pg, command: "insert into t values ('{{ ctx.x | tojson | replace(\\"'\\", \\"''\\") }}'::jsonb)" }, next: end }
  - { step: end, tool: { kind: python, code: x, args: { rows: "{{ start.data.command_0.rows }}" } } }
`);
    expect(stepOf(playbook, "start").action).toMatchObject({
      command: "insert into t values ('{{ ctx.x | tojson  }}'::jsonb)",
    });
    expect(stepOf(playbook, "end").action).toMatchObject({ data: { rows: "{{ start.command_0.rows }}" } });
  });

  it("reads rows of a query in a pipeline, and of one that ends it", () => {
    const playbook = good(`workflow:
  - step: start
    tool:
      - { name: a, kind: postgres, auth: pg, query: select 1 as one }
      - { name: b, kind: postgres, auth: pg, query: "select {{ a.command_0.rows[0].one }}" }
    next: [{ step: end, when: "{{ start.command_0.rows | length > 0 }}" }]
`);
    const { action } = stepOf(playbook, "start");
    expect(action?.type === "playbook" && action.inline?.aliases).toMatchObject({ "a.command_0": "a" });
    expect(playbook.aliases).toMatchObject({ "start.row_count": "start.rowCount" });
  });

  it("finds the place of a problem in a tool of a pipeline", () => {
    const tools = `[{ name: a, kind: shell, cmds: [x] }, { b: { kind: postgres, auth: pg, query: "insert into {{ ctx.t }}.x values (1)" } }]`;
    expect(errors(`workflow: [{ step: s, tool: ${tools} }]`)).toEqual(["sql_place workflow.0.tool.1.b.query"]);
  });

  it("takes a last step that saves as the result", () => {
    const { playbook } = read("workflow:\n  - { step: end, type: save, data: { a: 1 } }\n");
    expect(playbook?.result).toEqual({ value: { a: 1 } });
    expect(errors("workflow: [{ step: end, type: save, storage: postgres }]")).toEqual([
      "save_storage workflow.0.storage",
    ]);
  });

  it("refuses a cursor, once", () => {
    const loop = "{ cursor: { kind: postgres }, iterator: n, spec: { mode: cursor, frame: {} } }";
    expect(errors(`workflow: [{ step: s, loop: ${loop}, tool: { kind: shell, cmds: [x] } }]`)).toEqual([
      "keyword_refused workflow.0.loop.cursor",
    ]);
  });
});

it("takes tools that workers serve, with all their fields", () => {
  const playbook = good(`workflow:\n  - { step: start, type: duckdb, command: "select 1" }\n`);
  expect(playbook.steps[0]?.action).toEqual({ type: "task", task: "my-duckdb", data: { command: "select 1" } });
});

it.each([
  ["an unknown tool", "workflow: [{ step: s, type: snowflake, command: x }]", ["tool_unknown workflow.0.type"]],
  ["a misspelt tool", "workflow: [{ step: s, type: htp, url: x }]", ["tool_unknown workflow.0.type"]],
  [
    "an unknown step",
    "workflow: [{ step: s, type: shell, command: x, next: [{ step: nd }] }]",
    ["unknown_step workflow.0.next.0.step"],
  ],
  [
    "two steps of one name",
    "workflow: [{ step: s, type: shell, command: x }, { step: s }]",
    ["duplicate_step workflow.1.step"],
  ],
  [
    "results stored elsewhere",
    "workflow: [{ step: s, type: shell, command: x, save: { storage: postgres } }]",
    ["save_storage workflow.0.save"],
  ],
  [
    "database fields",
    "workflow: [{ step: s, type: postgres, auth: a, command: select 1, db_host: h }]",
    ["credential workflow.0.db_host"],
  ],
  ["no connection", "workflow: [{ step: s, type: postgres, command: select 1 }]", ["credential workflow.0.auth"]],
  [
    "credentials of http",
    "workflow: [{ step: s, type: http, url: http://x, auth: { type: bearer } }]",
    ["credential workflow.0.auth"],
  ],
  [
    "a statement in a condition",
    'workflow: [{ step: s, next: [{ step: end, when: "{% if x %}" }] }]',
    ["template_statement workflow.0.next.0.when"],
  ],
  [
    "loop options",
    "workflow: [{ step: s, loop: { in: [1], chunk: 2 }, type: shell, command: x }]",
    ["loop_option workflow.0.loop.chunk"],
  ],
  [
    "actions of cases",
    "workflow: [{ step: s, tool: { kind: shell, cmds: [x] }, case: [{ then: { collect: { into: a } } }] }]",
    ["case_action workflow.0.case.0.then.collect"],
  ],
  [
    "jumps",
    "workflow: [{ step: s, tool: { kind: shell, cmds: [x], spec: { policy: { rules: [{ do: jump }] } } } }]",
    ["keyword_refused workflow.0.tool.spec.policy.rules.0.do"],
  ],
  [
    "results of items that are stored elsewhere",
    "workflow: [{ step: s, type: iterator, in: [1], task: { type: shell, command: x, sink: { tool: postgres, table: t } } }]",
    ["save_storage workflow.0.task.sink"],
  ],
  [
    "an unknown tool, without its fields",
    "workflow: [{ step: s, tool: { kind: agent, framework: f } }]",
    ["tool_unknown workflow.0.tool.kind"],
  ],
  [
    "a kind of error that is not known",
    `workflow: [{ step: s, tool: { kind: shell, cmds: [x] }, next: [{ step: end, when: "{{ output.error.kind == 'odd' }}" }] }]`,
    ["keyword_refused workflow.0.next.0.when"],
  ],
  ["a keychain", "keychain: []\nworkflow: [{ step: s }]", ["keyword_refused keychain"]],
  ["no steps", "workflow: []", ["not_a_playbook workflow"]],
  [
    "several at once",
    "workflow: [{ step: s, type: nats, nxt: e }, { step: s }]",
    ["unknown_field workflow.0.nxt", "tool_unknown workflow.0.type", "duplicate_step workflow.1.step"],
  ],
])("refuses %s", (_, text, expected) => {
  expect(errors(text)).toEqual(expected);
});

it("recognises whole playbooks, and leaves single tasks and excerpts to the reader of jobs", () => {
  const task = { step: "a", type: "http", url: "https://x.test" };
  expect(isNoetlPlaybook({ apiVersion: "noetl.io/v1", kind: "Playbook", workflow: [task] })).toBe(true);
  expect(isNoetlPlaybook({ workflow: [task, { ...task, step: "b" }] })).toBe(true);
  expect(isNoetlPlaybook({ workflow: [{ step: "start" }, task, { step: "end" }] })).toBe(false);
  expect(isNoetlPlaybook(task)).toBe(false);
  const own = { apiVersion: "perdure/v1", kind: "Playbook", workflow: [task] };
  expect([isNoetlPlaybook(own), isPlaybookDocument(own)]).toEqual([false, true]);
});
