/** NoETL's tasks with a real worker: requests to a server in this process, commands, Python. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import type { JobEvent } from "../../src/core/job/event.ts";
import { noetl } from "../../src/dialects/noetl/dialect.ts";
import type { NoetlEvent } from "../../src/dialects/noetl/events.ts";
import { exec, http, Perdure } from "../../src/index.ts";
import { readYaml } from "../../src/yaml/read.ts";
import { all, tempFile } from "../kit.ts";
import { readContext } from "./kit.ts";
import { line } from "./noetl-kit.ts";

interface Ran {
  readonly timeline: readonly NoetlEvent[];
  readonly result: unknown;
  readonly failure: string | null;
}

async function run(document: string | object): Promise<Ran> {
  const perdure = await Perdure.open({ url: tempFile() });
  onTestFinished(() => perdure.close());
  await perdure.work([exec, http], { allowAddresses: ["127.0.0.1"], runtimes: ["python"] });
  const value = typeof document === "string" ? readYaml(document, "task.yaml").value : document;
  const [entry] = noetl.read(value, readContext()).jobs;
  const { task, input, options } = entry as NonNullable<typeof entry>;
  const handle = await perdure.submit(task, input, options);
  await handle.result().catch(() => {});
  const [job, attempts, events] = [await handle.get(), await handle.attempts(), await all(handle.events())];
  const parts = { job, attempts, events: events as JobEvent[], workerName: () => null };
  const failure = job.failure?.message ?? null;
  return { timeline: noetl.events?.(parts) as readonly NoetlEvent[], result: job.result, failure };
}

/** A server that returns these statuses in turn, then repeats the last one. */
async function serve(...statuses: readonly number[]): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += String(chunk);
    });
    request.on("end", () => {
      asked.push(`${request.method} ${request.url} ${body}`.trimEnd());
      response.statusCode = statuses[Math.min(asked.length, statuses.length) - 1] as number;
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ asked: asked.length }));
    });
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/data`, asked };
}

const QUICK = { max_attempts: 3, initial_delay: 0.01, jitter: false };

it("a request that meets 503 twice", async () => {
  const { url, asked } = await serve(503, 503, 200);
  const retry = { ...QUICK, retry_when: "{{ status_code >= 500 or error != None }}" };
  const task = { step: "fetch_data", type: "http", url, method: "POST", params: { page: 2 }, data: { a: 1 }, retry };
  const { timeline, result } = await run(task);
  expect(asked).toEqual(Array(3).fill('POST /data?page=2 {"a":1}'));
  expect(result).toMatchObject({ status_code: 200, body: { asked: 3 } });
  expect(timeline.map(({ event_type }) => event_type)).toEqual([
    ...["action_started", "action_error", "step_retry", "action_started", "action_error", "step_retry"],
    ...["action_started", "action_completed", "step_completed"],
  ]);
  expect(timeline[1]).toMatchObject({ context: { status_code: 503 }, error: expect.stringContaining("503") });
  expect(timeline.filter(({ event_type }) => event_type === "step_retry").map(({ context }) => context)).toMatchObject([
    { delay_seconds: 0.01 },
    { delay_seconds: 0.02 },
  ]);
});

it("a request that polls while it is answered 202", async () => {
  const { url, asked } = await serve(202, 202, 200);
  const retry = { ...QUICK, retry_when: "{{ status_code == 202 }}" };
  const { timeline } = await run({ step: "poll", type: "http", url, retry });
  expect(asked).toHaveLength(3);
  expect(timeline.at(-1)).toMatchObject({ event_type: "step_completed", result: { body: { asked: 3 } } });
});

const noPython = spawnSync("python3", ["--version"]).status !== 0;

it.skipIf(noPython)("Python", async () => {
  const code = "import os, sys\nif os.environ['PERDURE_ATTEMPT'] == '1': sys.exit('busy')\nprint(os.environ['WHO'])\n";
  const { timeline } = await run({ step: "p", type: "python", code, env: { WHO: "ada" }, retry: { ...QUICK } });
  expect(timeline.map(line)).toEqual([
    "action_started (attempt=1)",
    'action_error (attempt=1, error="exit code 1: busy")',
    "step_retry (attempt=1, delay=0.01s)",
    "action_started (attempt=2)",
    "action_completed (attempt=2, success=True)",
    "step_completed",
  ]);
});

/** A playbook of one python step, as in NoETL's own repository. */
const playbook = (code: string, more = "") => `
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: hello_world, path: examples/hello_world }
workflow:
  - step: start
    type: python
    code: |
${code.replaceAll(/^/gm, "      ")}
${more}
    next: [{ step: end }]
  - step: end
`;

const CALLED: readonly (readonly [what: string, code: string, args: string, output: unknown])[] = [
  [
    "def main(input_data), as in its examples",
    "def main(input_data):\n    print('Message', input_data)\n    return {'status': 'success', 'message': input_data.get('message')}",
    "data: { message: Hello }",
    { status: "success", message: "Hello" },
  ],
  ["nothing passed to it", "def main(input_data):\n    return {'success': not input_data}", "", { success: true }],
  ["input_data by name", "def main(input_data):\n    return input_data", "args: { input_data: 5, more: 6 }", 5],
  ["names and defaults", "def main(a, b=2):\n    return [a, b]", "input: { a: 1, unknown: 3 }", [1, 2]],
  ["**kwargs", "async def main(a, /, **rest):\n    return [a, rest]", "with: { a: 1, c: [x] }", [1, { c: ["x"] }]],
  [
    "no parameter",
    "from __future__ import annotations\nif True:\n\tmain = lambda: 'ä\\udc80'",
    "args: { a: 1 }",
    "ä\udc80",
  ],
  ["its own guard", "def main():\n    print('x')\n    return 1\nif __name__ == '__main__':\n    main(); main()", "", 1],
  [
    "no main",
    "class A:\n    def main(self): raise SystemExit(9)\n'main()'\nresult = [n + 1, __name__]",
    "args: { n: 1 }",
    [2, "__main__"],
  ],
  ["a return without main", "n = n + 1\nreturn [n, input_data['m']]", "args: { n: 1, m: 2 }", [2, 2]],
  ["a call of its own", "import sys\ndef main():\n    return 3\nresult = main()\nsys.exit(0)", "", 3],
];

it.skipIf(noPython).each(CALLED)(
  "a python step with def main(...) is executed, as in its own examples: %s",
  async (_, code, args, output) => {
    const { timeline, result } = await run(playbook(code, args === "" ? "" : `    ${args}`));
    expect(result).toMatchObject({ exitCode: 0, output });
    expect(timeline.at(-1)).toMatchObject({ event_type: "step_completed", result: { output } });
  },
);

const HELLO = 'def main(name="world"):\n    global n\n    n += 1\n    return [name, n]\nn = 0\n';

/** Code that uses main without calling it, and code that calls it, with the output: the result of main, or `result`. */
const ONCE: readonly (readonly [what: string, code: string, output: unknown])[] = [
  ["wrapped by assignment", `import functools\n${HELLO}main = functools.lru_cache(main)`, ["bob", 1]],
  ["printed", `${HELLO}print("defined", main)`, ["bob", 1]],
  [
    "called without arguments by its guard, which ends with a status of its own",
    `import sys\n${HELLO}if __name__ == "__main__":\n    try:\n        main()\n    except Exception:\n        sys.exit(1)`,
    ["bob", 1],
  ],
  ["called on a condition that does not hold", `${HELLO}if os.environ.get("NO_DEBUG"): main()`, ["bob", 1]],
  ["passed to a thread that is not started", `import threading\n${HELLO}t = threading.Thread(target=main)`, ["bob", 1]],
  ["asserted", `${HELLO}assert callable(main)`, ["bob", 1]],
  [
    "used in a status that is not its own",
    `import sys\n${HELLO}if __name__ == '__main__':\n    main(); sys.exit(0)`,
    ["bob", 1],
  ],
  ["a coroutine that is not awaited", "async def main(name):\n    return name\ntask = main('x')", "bob"],
  ["a partial", `import functools\n${HELLO}main = functools.partial(main)\nprint(main)`, ["bob", 1]],
  ["called by the code", `${HELLO}result = main("ada")`, ["ada", 1]],
  ["called with the step's arguments by the code", `${HELLO}result = main(name)`, ["bob", 1]],
  ["called by a function of the code", `${HELLO}def go(): return main("ada")\nresult = go()`, ["ada", 1]],
  ["not slowed by a profiler", "import sys\ndef main(): return [sys.getprofile()]\nresult = main()", [null]],
  ["called by name", `${HELLO}result = globals()["main"]("ada")`, ["ada", 1]],
  [
    "wrapped, then called",
    `import functools\n${HELLO}main = functools.lru_cache(main)\nresult = main("ada")`,
    ["ada", 1],
  ],
  [
    "called by its decorator",
    `def at_once(f):\n    global result\n    result = f("ada")\n    return f\n@at_once\n${HELLO.replace("n = 0", "")}`.replace(
      "def at_once",
      "n = 0\ndef at_once",
    ),
    ["ada", 1],
  ],
  ["a lambda called by the code", 'n = []\nmain = lambda name: n.append(name) or n\nresult = main("ada")', ["ada"]],
  [
    "called in a thread",
    `import threading\n${HELLO}def go(f):\n    global result\n    result = f("ada")\nthreading.Thread(target=go, args=[main]).start()`,
    ["ada", 1],
  ],
  [
    "called in a process",
    `import multiprocessing\n${HELLO}p = multiprocessing.get_context("fork").Process(target=main)\np.start(); p.join()\nresult = n`,
    0,
  ],
];

it.skipIf(noPython).each(ONCE)("a python step with def main(...) is executed once: %s", async (_, code, output) => {
  const { result } = await run(playbook(code, "    args: { name: bob }"));
  expect(result).toMatchObject({ exitCode: 0, output });
});

const REFUSED: readonly (readonly [what: string, code: string, message: string])[] = [
  [
    "a missing argument",
    "def main(a, b=2, *, c): pass",
    "TypeError: main requires a, c, which the step does not pass: add it under args, data or input",
  ],
  ["an exception", "import asyncio\nasync def main():\n    raise ValueError('busy')", "ValueError: busy"],
  [
    "a value that JSON does not have",
    "def main():\n    return {'x': {1}}",
    "TypeError: main returned a dict with a set in it",
  ],
  [
    "a number that would lose digits",
    "def main():\n    return [2**60]",
    "too large to be kept exactly; make it a text",
  ],
  ["a syntax error", "def main(:\n    pass", "SyntaxError: invalid syntax"],
  [
    "its status, as a program",
    "import sys\ndef main():\n    return 3\nif __name__ == '__main__':\n    sys.exit(main())",
    "exit code 3",
  ],
  [
    "its status in a variable, as a program",
    "import sys\ndef main():\n    return 3\nif __name__ == '__main__':\n    status = main()\n    sys.exit(status)",
    "exit code 3",
  ],
  ["an end before main", "import sys\ndef main(): pass\nsys.exit(0)", "the code ended before main was called"],
  ["an end before its definition", "import sys\nsys.exit()\ndef main(): pass", "the code ended before main was called"],
  [
    "a definition that is not reached",
    "if n == 2:\n    def main(): pass".replace("n ==", "1 =="),
    "main is not defined",
  ],
];

it.skipIf(noPython).each(REFUSED)("never skipped with a success: %s", async (_, code, message) => {
  const { timeline, failure } = await run(playbook(code));
  expect(failure).toContain(message);
  expect(timeline.at(-1)).toMatchObject({ event_type: "execution_failed" });
});

it.skipIf(noPython)(
  "what main returns is data in conditions, and its traceback begins in the step's code",
  async () => {
    const code = `
import os
def main(limit):
    attempt = int(os.environ["PERDURE_ATTEMPT"])
    if attempt == 1: raise KeyError("gone")
    return {"state": "pending" if attempt < limit else "done"}
`;
    const retry = { ...QUICK, retry_when: "{{ error != None or data.state == 'pending' }}" };
    const perdure = await Perdure.open({ url: tempFile() });
    onTestFinished(() => perdure.close());
    await perdure.work([exec], { runtimes: ["python"] });
    const [entry] = noetl.read({ step: "p", type: "python", code, args: { limit: 3 }, retry }, readContext()).jobs;
    const { task, input, options } = entry as NonNullable<typeof entry>;
    const handle = await perdure.submit(task, input, options);
    expect(await handle.result()).toMatchObject({ output: { state: "done" } });
    const [first, second] = await handle.attempts();
    expect(second?.result).toContain('"output":{"state":"pending"}');
    const stack = first?.failure?.stack?.split("\n") ?? [];
    expect(stack[0]).toBe("Traceback (most recent call last):");
    expect(stack[1]).toMatch(/inputs\/task.py", line 5, in main$/);
  },
);

it("the example gets through with its third attempt", async () => {
  const text = readFileSync(new URL("../../examples/noetl/fetch-data.yaml", import.meta.url), "utf8");
  const { timeline, result } = await run(text.replace("initial_delay: 1.0", "initial_delay: 0.01"));
  expect(timeline.map(line).filter((each) => each.startsWith("action_"))).toEqual([
    "action_started (attempt=1)",
    'action_error (attempt=1, error="exit code 1: 503 Service Unavailable")',
    "action_started (attempt=2)",
    'action_error (attempt=2, error="exit code 1: 503 Service Unavailable")',
    "action_started (attempt=3)",
    "action_completed (attempt=3, success=True)",
  ]);
  expect(result).toMatchObject({ outputs: [{ name: "report.txt" }] });
});
