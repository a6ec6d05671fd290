import { describe, expect, it } from "vitest";
import { readTest, readText, TEST_CONTEXT } from "../../../test/playbook-text.ts";
import { readPlaybook } from "./read-playbook.ts";

/** The compiled playbook; its problems if it has errors. */
function compiled(body: string) {
  const { playbook, shown } = readTest(body);
  if (playbook === null) throw new Error(shown.join("\n"));
  return playbook;
}
const stepOf = (body: string) => compiled(`workflow:\n${body}`).steps[0];

const ORDERS = `
inputs: { city: { type: string, required: true }, days: { type: integer, default: 3, min: 1 } }
workload: { base: "https://api.example.com", id: "{{ run.id }}", u: "{{ base }}/{{ city }}" }
defaults: { retry: { maxAttempts: 3 }, timeout: 5m, labels: { a: b } }
timeout: 2h
failureMode: cancel
onFailure: notify
finally: [cleanup]
result: { total: "{{ sum.data.total }}", page: "{{ ctx.page }}" }
workbook:
  - { name: fetch, type: http, url: "{{ base }}/{{ data.q }}", data: { q: x, r: 1 }, timeout: 10s }
workflow:
  - { step: begin, next: start }
  - { step: start, next: fetch_data }
  - step: fetch_data
    type: workbook
    name: fetch
    data: { q: "{{ inputs.city }}" }
    labels: { a: c }
    set: { page: "{{ result.next }}" }
    next:
      - { step: sum, when: "{{ result.total > 100 }}", data: { n: "{{ result.total }}" } }
      - { step: rescue, when: "{{ error != None }}" }
      - { step: rescue, when: "{{ result.error }}", on: failure }
      - { step: fetch_data }
  - step: sum
    type: python
    code: "def main(n, i): return n"
    loop: { in: "{{ fetch_data.items }}", iterator: it, where: "{{ it.ok }}", onItemFailure: continue, maxFailures: "10%" }
    data: { n: "{{ it.x }}", i: "{{ loop.index }}" }
  - { step: rescue, tool: { kind: shell, command: "echo {{ fetch_data.error }}", env: { N: 5 } }, join: any }
  - { step: notify, type: task, task: mail, data: [1] }
  - { step: cleanup, type: exec, argv: [rm, "{{ run.id }}"] }
`;

describe("a playbook", () => {
  it("is compiled: steps by index, tools of the workbook, defaults, arcs by what their condition names", () => {
    const playbook = compiled(ORDERS);
    expect(playbook).toMatchObject({
      ...{ format: 1, name: "test", path: null, timeoutMs: 7_200_000, maxSteps: 10_000, parallel: 100 },
      ...{ undefined: "strict", failureMode: "cancel", onFailure: [5], finally: [6], entry: 1, mustTakeArc: false },
      result: { value: { total: "{{ sum.data.total }}", page: "{{ ctx.page }}" } },
    });
    const [begin, , fetch, sum, rescue, notify, cleanup] = playbook.steps;
    expect(begin).toMatchObject({
      action: null,
      mode: "match",
      arcs: [{ to: 1, when: null, on: "success", data: null }],
    });
    expect(begin?.options).toMatchObject({ timeoutMs: null, labels: {}, policy: { maxAttempts: 1 } });
    expect(fetch?.action).toEqual({
      type: "http",
      request: { url: "{{ base }}/{{ data.q }}" },
      data: { q: "{{ inputs.city }}", r: 1 },
    });
    expect(fetch?.options).toMatchObject({ timeoutMs: 10_000, labels: { a: "c" }, policy: { maxAttempts: 3 } });
    expect(fetch?.arcs.map(({ to, on }) => [to, on])).toEqual([
      [3, "success"],
      [4, "always"],
      [4, "failure"],
      [2, "success"],
    ]);
    expect(sum?.loop).toEqual({
      ...{ in: "{{ fetch_data.items }}", iterator: "it", concurrency: 10, where: "{{ it.ok }}", limit: null },
      ...{ onItemFailure: "continue", maxFailures: { percent: 10 } },
    });
    expect(rescue?.action).toMatchObject({ type: "shell", env: { N: "5" }, cwd: null, data: null });
    expect(notify?.action).toEqual({ type: "task", task: "mail", data: [1] });
    expect(cleanup?.action).toMatchObject({ type: "exec", input: { argv: ["rm", "{{ run.id }}"] } });
  });

  it("keeps the code of python as an asset", () => {
    const { playbook, assets } = readTest(ORDERS);
    const action = playbook?.steps[3]?.action;
    const code = action?.type === "python" ? action.code : "";
    expect(code).toMatch(/^[0-9a-f]{64}$/);
    expect(assets.get(code)).toBe("def main(n, i): return n");
  });

  it("is frozen in its text: the same document gives the same playbook", () => {
    expect(compiled(ORDERS)).toEqual(compiled(ORDERS));
  });

  it.each([
    ["next: b", [[1, null]]],
    [
      "next: [b, { step: c, when: x }]",
      [
        [1, null],
        [2, "x"],
      ],
    ],
    ["next: { step: b }", [[1, null]]],
    ["next: { spec: { mode: first }, arcs: [{ step: b, when: true }] }", [[1, "true"]]],
    ["next:", []],
  ])("has arcs by %s", (next, arcs) => {
    const { playbook } = readTest(`workload: { x: 1 }\nworkflow: [{ step: a, ${next} }, { step: b }, { step: c }]`);
    expect(playbook?.steps[0]?.arcs.map(({ to, when }) => [to, when])).toEqual(arcs);
    expect(playbook?.steps[0]?.mode).toBe(next.includes("mode") ? "first" : "match");
  });

  it("uses a type of the setting as a task, with its other fields as data", () => {
    const type = stepOf("  - { step: a, type: duckdb, commands: select 1, data: { x: 1 }, retry: 3 }");
    expect(type?.action).toEqual({ type: "task", task: "my-duckdb", data: { commands: "select 1", x: 1 } });
    const tool = stepOf("  - { step: a, tool: { kind: duckdb, commands: select 1 } }");
    expect(tool?.action).toEqual({ type: "task", task: "my-duckdb", data: { commands: "select 1" } });
  });

  it.each([
    ["type: wait, for: 10m", { type: "wait", for: "10m", until: null, data: null }],
    [
      "type: playbook, path: shop/pay@3, data: { a: 1 }, return_step: x, wait: false",
      {
        ...{ type: "playbook", path: "shop/pay@3", inline: null, data: { a: 1 }, returnStep: "x", wait: false },
      },
    ],
    ["type: playbook, path: ./pay.yaml", { path: "./pay.yaml", wait: true, returnStep: null }],
    [
      "type: postgres, connection: pg, command: select 1, maxRows: 10",
      {
        ...{ type: "postgres", connection: "pg", command: "select 1", data: null, maxRows: 10, maxBytes: null },
      },
    ],
    ["type: noop", null],
    [
      "type: iterator, loop: { in: [1] }, task: { type: task, task: t, data: '{{ item }}' }",
      {
        ...{ type: "task", task: "t", data: "{{ item }}" },
      },
    ],
  ])("has a step with %s", (fields, action) => {
    const found = stepOf(`  - { step: a, ${fields} }`)?.action;
    if (action === null) expect(found).toBeNull();
    else expect(found).toMatchObject(action);
  });
});

describe("a document with mistakes is refused with all of them:", () => {
  it.each(readBad())("%s", (_, body, problems) => {
    const { playbook, shown } = readTest(body);
    expect(shown).toEqual(problems);
    expect(playbook).toBeNull();
  });

  it.each([
    [
      "a: 1",
      "1:1 not_a_playbook: a playbook must have apiVersion: perdure/v1 and a workflow; got an object without apiVersion, kind and workflow",
    ],
    ["[1]", "1:1 not_a_playbook: a playbook must have apiVersion: perdure/v1 and a workflow; got [1]"],
    ["~", "1:1 not_a_playbook: a playbook must have apiVersion: perdure/v1 and a workflow; got null"],
    ["apiVersion: noetl.io/v1\nworkflow: []", '1:1 not_a_playbook: apiVersion: must be perdure/v1; got "noetl.io/v1"'],
  ])("%s", (source, problem) => {
    expect(readText(source).shown).toEqual([problem]);
  });
});

function readBad(): [string, string, string[]][] {
  return [
    [
      "steps and their names",
      `workflow:
  - { step: start, next: proces }
  - { step: process, type: htpp, next: [{ step: end, when: "{{ process.x > }}" }] }
  - { step: process, type: noop }
  - { step: result, type: task, task: work, data: { a: "{{ proces.y }}" } }
  - { step: a b, type: task, task: playbook, queue: "{{ q }}", priority: 11, labels: { "resource/cpu": "1" } }
  - { step: end, url: "http://x/", retry: 3 }
  - 5
  - { type: noop }
`,
      [
        '5:20 unknown_step: unknown step "proces"; did you mean "process"?',
        '6:22 tool_unknown: unknown type "htpp"; did you mean "http"?',
        "6:76 template_syntax: unexpected end of the expression",
        '7:7 duplicate_step: two steps are called "process"',
        '8:7 reserved_name: step: "result" means something else in templates; choose another name',
        '8:60 unknown_name: unknown name "proces"; did you mean "process"?',
        '9:7 invalid_value: step: the name "a b" must be letters, digits, "_", "." and "-", at most 100, beginning with a letter or "_"',
        '9:30 invalid_value: task: "playbook" is not the kind of a task; write type: playbook',
        '9:46 invalid_value: queue: must be a name, without a template; got "{{ q }}"',
        "9:64 invalid_value: priority: must be a whole number from 0 to 9; got 11",
        '9:88 invalid_value: resource/cpu: "resource/cpu" is reserved; use resources',
        '10:18 unknown_field: unknown field "url" of a step without a type; it is a field of the type http',
        "10:36 invalid_value: retry: has no effect on a step without a type",
        "11:5 invalid_value: a step must be an object; got 5",
        "11:5 invalid_value: step: is missing; must be text of 1 to 1000 characters, not only spaces, without NUL",
        "12:5 invalid_value: step: is missing; must be text of 1 to 1000 characters, not only spaces, without NUL",
      ],
    ],
    [
      "terms of other systems",
      `workflow:
  - { step: a, type: bash, run: ls, next: b }
  - { step: b, type: shell, cmd: ls, retries: 3, next: c }
  - { step: c, type: if, next: d }
  - { step: d, type: task, task: t, foreach: [1], onFailure: e }
  - { step: e, type: sql }
`,
      [
        "5:16 keyword_refused: type: bash is not a type; write shell",
        "6:5 invalid_value: command: is missing; must be text of 1 to 131072 characters, without NUL",
        '6:29 unknown_field: unknown field "cmd" of a shell step; write command, with type: shell',
        '6:38 unknown_field: unknown field "retries" of a shell step; write retry',
        "7:16 keyword_refused: type: if is not a type; leave it out, and write arcs in next",
        '8:37 unknown_field: unknown field "foreach" of a task step; write loop',
        '8:51 unknown_field: unknown field "onFailure" of a task step; write an arc in next with when: "{{ error != None }}"',
        '9:7 (warning) unreachable: no arc leads to the step "e"; it is never started',
        "9:16 keyword_refused: type: sql is not a type; write postgres",
      ],
    ],
    [
      "what is not there yet, or is a form of another system",
      `budget: { tokens: 5 }
workflow:
  - { step: a, type: approval, compensate: { type: http } }
  - { step: b, tool: [{ kind: http }] }
  - { step: c, type: python, code: "x = 1", packages: [requests], url: "http://x" }
  - { step: d, type: http, url: "http://x", auth: { type: bearer } }
  - { step: e, type: wait, signal: go, timeout: 5m }
  - { step: f, type: container, image: x }
  - { step: g, type: task, task: t, data: { key: "{{ secret.KEY }}" }, args: { a: 1 }, next: [{ then: { step: a } }] }
`,
      [
        "4:1 keyword_refused: budget: is not available yet; set retry.budget for a step",
        "6:16 keyword_refused: type: approval is not available yet",
        '7:7 (warning) unreachable: no arc leads to the step "b"; it is never started',
        "7:16 keyword_refused: tool: a list of tools is not a form of perdure/v1; write steps, one after another",
        '8:7 (warning) unreachable: no arc leads to the step "c"; it is never started',
        "8:45 keyword_refused: packages: is not available; install packages for the workers, or run a container with exec",
        '8:67 unknown_field: unknown field "url" of a python step; it is a field of the type http',
        '9:7 (warning) unreachable: no arc leads to the step "d"; it is never started',
        "9:45 keyword_refused: auth: is not available yet; send what the server needs in headers",
        '10:7 (warning) unreachable: no arc leads to the step "e"; it is never started',
        "10:28 keyword_refused: signal: is not available yet; a wait is for a time",
        "10:40 invalid_value: timeout: has no effect on a wait",
        '11:7 (warning) unreachable: no arc leads to the step "f"; it is never started',
        '11:16 keyword_refused: type: container is not built in; run it with exec, as in argv: ["docker", "run", …]',
        '12:7 (warning) unreachable: no arc leads to the step "g"; it is never started',
        "12:54 keyword_refused: secrets are not available yet; a worker resolves connections, and can have environment variables of its own",
        '12:72 unknown_field: unknown field "args" of a task step; write data',
        "12:95 invalid_value: step: is missing; must be text of 1 to 1000 characters, not only spaces, without NUL",
        "12:97 keyword_refused: then: is not a form of perdure/v1; write { when, step }",
      ],
    ],
    [
      "the head",
      `pth: 1
timeout: 30
maxSteps: 1000000
undefined: maybe
inputs:
  days: { type: integer, min: 5, max: 2, default: "x" }
  2x: { type: strng }
  list: { type: array, items: { type: string }, default: [1], minimum: 2 }
defaults: { retry: { maxAttempts: 0, backof: 1, backoff: { initial: -1 } }, timeot: 3 }
onFailure: clean
finally: [cleen, s1, s1]
workbook: [{ name: t, type: task, task: t }, { name: t, type: workbook }, { type: http }]
workflow:
  - { step: s1, type: workbook, name: u }
  - { step: clean, type: task, task: t }
`,
      [
        '4:1 unknown_field: unknown field "pth" of a playbook; known: apiVersion, kind, metadata, inputs, workload, defaults, result, workbook, workflow, timeout, maxSteps, parallel, …',
        '5:1 invalid_value: timeout: must be a duration with a unit, such as "30s", "5m" or "2h"; got 30',
        "6:1 invalid_value: maxSteps: must be a whole number from 1 to 100000; got 1000000",
        '7:1 invalid_value: undefined: must be "strict" or "empty"; got "maybe"',
        "9:26 invalid_value: min: is above max; got 5 and 2",
        '9:42 invalid_value: default: must be a whole number; got "x"',
        '10:3 invalid_value: inputs: the name "2x" must be letters, digits and _, at most 100, not beginning with a digit',
        '10:9 invalid_value: type: must be one of "string", "integer", "number", "boolean", "object", "array"; got "strng"; did you mean "string"?',
        "11:59 invalid_value: default: item 1 must be text; got 1",
        '11:63 unknown_field: unknown field "minimum" of the rule of an input; write min',
        "12:22 invalid_value: maxAttempts: must be a whole number from 1 to 1000000; got 0",
        '12:38 unknown_field: unknown field "backof"; did you mean "backoff"?',
        '12:60 invalid_value: initial: must be a number of milliseconds, or text like "1500ms", "30s", "5m", "2h" or "1d", up to 3650d; got -1',
        '12:77 unknown_field: unknown field "timeot" of defaults; did you mean "timeout"?',
        '14:11 unknown_step: unknown step "cleen"; did you mean "clean"?',
        '14:18 invalid_value: finally: "s1" is the first step of the workflow',
        '14:22 invalid_value: finally: "s1" is the first step of the workflow',
        '14:22 invalid_value: finally: "s1" is named twice',
        '15:48 invalid_value: the workbook has two tools "t"',
        "15:57 keyword_refused: type: workbook is not for tools of the workbook",
        "15:75 invalid_value: name: is missing; must be text of 1 to 100 characters, not only spaces, without NUL",
        "15:75 invalid_value: url: is missing; must be an address",
        '17:33 tool_unknown: the workbook has no tool "u"; known: t',
      ],
    ],
    [
      "the fields of types",
      `workflow:
  - { step: a, type: http, method: GET, url: "ftp://x", body: { a: 1 }, headers: { "content type": x }, next: b }
  - { step: b, tool: { kind: postgres, comand: select 1 }, on_error: foo, next: c }
  - { step: c, type: exec, argv: echo, stdin: 5, limits: { memory: much }, next: d }
  - { step: d, type: playbook, path: a b, retry: 3, next: e }
  - { step: e, type: wait, for: 10, until: tomorrow, next: f }
  - { step: f, type: shell, command: "", env: { "a b": x }, next: g }
  - { step: g, type: iterator, next: h }
  - { step: h, type: task, task: t, loop: { in: a, concurrency: 0, mode: sequential, maxFailures: 3, iterator: result, foo: 1 } }
  - { step: i, type: postgres, connection: "postgres://u:secret@h/db", command: select 1 }
`,
      [
        "5:41 invalid_value: url: must be an http or https address of at most 8192 characters; got an address of ftp:",
        "5:57 invalid_value: body: cannot be used with GET",
        "5:84 invalid_value: headers: must be a name of letters, digits and -, as in content-type; got a name that cannot be sent",
        "6:16 invalid_value: connection: is missing; must be a name that workers have a connection for: letters, digits, _ and -, beginning with a letter",
        "6:16 invalid_value: command: is missing; must be text of 1 to 262144 characters, without NUL",
        '6:40 unknown_field: unknown field "comand" of a postgres step; did you mean "command"?',
        '6:60 invalid_value: on_error: must be "fail" or "continue"; got "foo"',
        '7:28 invalid_value: argv: must be a list; got "echo"',
        "7:40 invalid_value: stdin: must be text; got 5",
        '7:50 invalid_value: limits: must be bytes, or text such as "512m" or "2g", at most 1024t; got "much"',
        '8:32 invalid_value: path: must be a path of the catalog, as in "shop/orders" or "shop/orders@3", or of a file, as in "./pay.yaml"; got "a b"',
        "8:43 invalid_value: retry: has no effect on a sub-playbook; set it there",
        '9:28 invalid_value: for: must be a duration with a unit, such as "30s", "5m" or "2h"; got 10',
        '9:37 invalid_value: until: must be a time with its zone, as in "2026-11-20T09:00:00Z", or a template that gives one; got "tomorrow"',
        "9:37 invalid_value: until: cannot be used together with for",
        '10:29 invalid_value: command: must be text of 1 to 131072 characters, without NUL; got ""',
        '10:49 invalid_value: env: must be a name of letters, digits and _, not starting with a digit; got "a b"',
        "11:5 invalid_value: loop: is missing; an iterator is the loop of another tool",
        "11:5 invalid_value: task: is missing; must be a tool such as { type: http, url: … }, or the name of one in the workbook",
        '12:45 invalid_value: in: must be a list of at most 10000 items, or a template that gives one; got "a"',
        "12:52 invalid_value: concurrency: must be a whole number from 1 to 10000; got 0",
        "12:86 invalid_value: maxFailures: requires onItemFailure: continue",
        '12:102 reserved_name: iterator: "result" means something else in templates; choose another name',
        '12:120 unknown_field: unknown field "foo" of loop; known: mode, concurrency, onItemFailure, maxFailures, in, iterator, where, limit',
        '13:7 (warning) unreachable: no arc leads to the step "i"; it is never started',
        "13:32 invalid_value: connection: must be a name that workers have a connection for: letters, digits, _ and -, beginning with a letter; got an address",
      ],
    ],
    [
      "names in templates",
      `inputs: { days: { type: integer } }
workload: { a: "{{ b }}", b: "{{ days }}", c: "{{ ctx.x }}" }
result: "{{ result }}"
workflow:
  - { step: start, next: one, set: { x-y: 1, page: 2 } }
  - { step: one, type: task, task: t, when: "{{ error }}", data: { a: "{{ ctx.pag }} {{ inputs.dais }}", b: "{{ workload.d }}" }, next: two }
  - { step: two, type: task, task: t, data: ["{{ three }} {{ onee.x }}", "{{ loop.index }}", "{{ run.idd }}"], next: three }
  - { step: three, type: task, task: t, loop: { in: "{{ item }}" }, data: "{{ item }} {{ loop.indx }}", next: [{ step: four, when: "{{ item > 1 }}" }] }
  - { step: four, type: task, task: t, data: "{{ three.results | default(ctx.none) }} {{ ctx.none | default(1) }} {{ tow | default(1) }}" }
`,
      [
        '5:20 unknown_name: unknown name "b"; the workload is filled at the start, from the inputs and the keys above',
        '5:51 unknown_name: unknown name "ctx"; the workload is filled at the start, from the inputs and the keys above',
        '6:13 unknown_name: unknown name "result"; write the name of a step',
        '8:38 invalid_value: set: the name "x-y" must be letters, digits and "_"',
        '9:49 unknown_name: unknown name "error"; it exists after the step, in set and next',
        '9:75 unknown_name: unknown name "ctx.pag"; did you mean "ctx.page"?',
        '9:89 unknown_name: unknown name "inputs.dais"; did you mean "inputs.days"?',
        '9:113 unknown_name: unknown name "workload.d"; did you mean "workload.a"?',
        '10:50 (warning) unknown_name: "three" is not before "two" in the workflow, so it may have no output there',
        '10:62 unknown_name: unknown name "onee"; did you mean "one"?',
        '10:78 unknown_name: unknown name "loop"; it exists in the items of a loop only',
        '10:98 unknown_name: unknown name "run.idd"; did you mean "run.id"?',
        '11:57 unknown_name: unknown name "item"; it exists in the items of a loop only',
        '11:90 unknown_name: unknown name "loop.indx"; did you mean "loop.index"?',
        '11:136 unknown_name: unknown name "item"; it exists in the items of a loop only',
        '12:74 unknown_name: unknown name "ctx.none"; did you mean "ctx.page"?',
        '12:118 unknown_name: unknown name "tow"; did you mean "two"?',
      ],
    ],
    [
      "templates",
      `workflow:
  - step: a
    type: http
    url: "http://x/{{ ctx. }}"
    headers: { a: "{% if x %}", b: "{{ f(1) }}", c: "{{ 1 }" }
    body: "{{ 1 | raw }}"
    method: POST
    next: [{ step: b, when: "{{ a }} == 1" }]
  - { step: b, type: exec, argv: [bash, -ec, "echo {{ a }}"] }
`,
      [
        "7:28 template_syntax: unexpected end of the expression; expected the name of a member",
        "8:20 template_statement: {% if %} is not supported; write {{ a if condition else b }}",
        "8:40 template_call: f() is not supported, templates have no calls; use a filter, such as x | default('')",
        '8:56 template_syntax: missing "}}"',
        "9:12 template_syntax: | raw is for the command of a shell step only",
        "11:38 template_syntax: a condition is one expression, such as {{ a == 'b' }}",
        "12:46 shell_place: a template in the script of a shell; pass the value as an argument after it, or write type: shell",
      ],
    ],
    [
      "arcs",
      `workflow:
  - { step: r1, next: r2 }
  - { step: r2, next: [r1, c] }
  - { step: c, type: task, task: t, next: [d, e] }
  - { step: d, type: task, task: t, next: f }
  - { step: e, type: task, task: t, next: f }
  - { step: f, type: task, task: t, next: [{ step: c, whn: x }, g] }
  - { step: g, type: task, task: t, join: 5, next: h }
  - { step: h, type: task, task: t, join: all, next: g }
  - { step: lost, type: task, task: t }
`,
      [
        '5:7 inline_cycle: a cycle of steps that only route: "r1", "r2"; add a step with a type, such as a wait',
        '10:5 join_in_cycle: "f" is in a cycle, and two branches from "c" can reach it at once; set mode: first there, join: any to start it for each of them, or move the branches into a sub-playbook',
        '10:55 unknown_field: unknown field "whn" of an arc; did you mean "when"?',
        '11:37 invalid_value: join: is 5, but 2 arcs lead to "g"',
        '11:37 join_in_cycle: join: "g" is in a cycle, where each arrival starts it again; write join: any',
        '12:37 join_in_cycle: join: "h" is in a cycle, where each arrival starts it again; write join: any',
        '13:7 (warning) unreachable: no arc leads to the step "lost"; it is never started',
      ],
    ],
    [
      "handlers",
      `onFailure: [a, b]
finally: [c, c]
workflow:
  - { step: a, type: task, task: t, next: b }
  - { step: b, type: task, task: t, next: d }
  - { step: c, type: task, task: t }
  - { step: d, type: task, task: t }
`,
      [
        '4:13 invalid_value: onFailure: "a" is the first step of the workflow',
        '5:14 invalid_value: finally: "c" is named twice',
        '7:37 invalid_value: next: "a" is in onFailure, whose steps run one after another; put the next step there',
        '8:37 invalid_value: next: "b" is in onFailure, whose steps run one after another; put the next step there',
      ],
    ],
    [
      "commands and SQL",
      `inputs: { x: { type: string } }
workflow:
  - { step: a, type: shell, command: "echo {{ inputs.x }} '{{ inputs.x }}' \\"{{ inputs.x }}\\"; echo \`echo {{ inputs.x }}\`", next: b }
  - { step: b, type: shell, command: "sh -c {{ inputs.x }}", next: c }
  - { step: c, type: shell, command: "ls {{ inputs.x | raw }}", next: d }
  - { step: d, type: postgres, connection: pg, command: "select {{ inputs.x }}, '{{ inputs.x }}'; select \\"{{ inputs.x }}\\"", next: e }
  - { step: e, type: postgres, connection: pg, command: "{{ inputs.x }}", next: f }
  - { step: f, type: postgres, connection: pg, command: "drop table {{ inputs.y }}", next: g }
  - { step: g, type: exec, argv: [sleep, 5, [x], "{{ run.id }}"], stdin: ["{{ run.id }}"], input: 1, next: h }
  - { step: h, type: http, url: ["{{ run.id }}"], headers: { a: ["{{ run.id }}"] } }
`,
      [
        "6:107 shell_place: a value cannot be quoted in backticks; use $(…)",
        "7:45 shell_place: a value cannot be quoted in the code of a shell",
        "8:42 (warning) shell_raw: | raw pastes the value into the command as it is, so a value can run other commands",
        "9:108 sql_place: a value cannot be in a name in quotes",
        "10:58 sql_place: a value cannot be a whole statement, or begin one",
        "11:69 sql_place: a value cannot be in a statement that begins with drop; only in select, insert, update, delete, merge, values, with",
        '11:72 unknown_name: unknown name "inputs.y"; did you mean "inputs.x"?',
        '12:45 invalid_value: argv: must be text; got ["x"]',
        '12:67 invalid_value: stdin: must be text; got ["{{ run.id }}"]',
        "12:92 invalid_value: input: cannot be used together with stdin",
        '13:28 invalid_value: url: must be text; got ["{{ run.id }}"]',
        '13:62 invalid_value: headers: must be text; got ["{{ run.id }}"]',
      ],
    ],
  ];
}

describe("a hostile document is refused, in bounded time:", () => {
  const head = { apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "x" } };
  const step = (name: string) => ({ step: name, type: "task", task: "t" });
  const cyclic: Record<string, unknown> = { ...head };
  cyclic.workflow = [cyclic];
  const wide = (depth: number): unknown => {
    let value: unknown = "x";
    for (let i = 0; i < depth; i++) value = [value, value, value, value];
    return value;
  };
  const trap = new Proxy(head, {
    ownKeys() {
      throw new Error("no");
    },
  });
  const reversed = Object.assign(Object.create({ workflow: [step("a")] }), head);

  it.each<[string, unknown, string[]]>([
    ["one that contains itself", cyclic, ["too_large"]],
    ["aliases that grow", { ...head, workflow: wide(12) }, ["too_large"]],
    ["a deep one", { ...head, workload: { a: JSON.parse("[".repeat(90) + "]".repeat(90)) } }, ["too_large"]],
    ["long text", { ...head, workflow: ["x".repeat(5_000_000)] }, ["too_large"]],
    ["too many steps", { ...head, workflow: Array.from({ length: 1_001 }, (_, i) => step(`s${i}`)) }, ["too_large"]],
    ["too many arcs", { ...head, workflow: [{ ...step("a"), next: Array(101).fill("a") }] }, ["too_large"]],
    ["an array with holes", { ...head, workflow: Array(1e9) }, ["too_large"]],
    [
      "functions and dates",
      { ...head, workflow: [step("a")], workload: { f: () => 1, d: new Date() } },
      ["invalid_value", "invalid_value"],
    ],
    ["a proxy", trap, ["not_a_playbook"]],
    ["fields of a prototype", reversed, ["invalid_value", "not_a_playbook"]],
    [
      "names of JavaScript",
      { ...head, workflow: [{ ...step("constructor"), next: ["toString", "__proto__"] }] },
      ["unknown_step", "unknown_step"],
    ],
    [
      "types of JavaScript",
      {
        ...head,
        workflow: [
          { step: "a", type: "constructor" },
          { step: "b", type: "toString" },
        ],
      },
      ["tool_unknown", "tool_unknown", "unreachable"],
    ],
  ])("%s", (_, document, codes) => {
    const { playbook, problems } = readPlaybook(document, TEST_CONTEXT);
    expect(playbook).toBeNull();
    expect(problems.map(({ code }) => code)).toEqual(codes);
  });

  it("thousands of mistakes are counted, and 500 are reported", () => {
    const workflow = Array.from({ length: 1_000 }, (_, i) => ({
      ...step(`s${i}`),
      data: Array.from({ length: 5 }, (_, k) => `{{ unknown_name_${i}_${k} }}`),
    }));
    const { problems } = readPlaybook({ ...head, workflow }, TEST_CONTEXT);
    expect(problems.length).toBeLessThanOrEqual(501);
    expect(problems.at(-1)?.message).toMatch(/more problems$/);
  });
});
