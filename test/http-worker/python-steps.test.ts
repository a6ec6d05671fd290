/** Jobs of python steps with real workers, beside the engine and over HTTP: their code is an asset of the store, which the worker
 *  fetches once, and the worker brings its own runner. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Failure } from "../../src/core/decision/failure.ts";
import { PerdureError } from "../../src/core/errors.ts";
import { type ExecResult, exec } from "../../src/core/input/builtin.ts";
import { PYTHON_LABELS, type PythonStep, pythonInput } from "../../src/core/input/python-input.ts";
import { startWorker } from "../../src/embedded/local-worker.ts";
import { directoryBlobs } from "../../src/store/directory-blobs.ts";
import type { Store } from "../../src/store/store.ts";
import { openWireBench, tempDir, type WireBench } from "./kit.ts";

const noPython = spawnSync("python3", ["--version"]).status !== 0;

interface Ended {
  readonly state: string;
  readonly output: unknown;
  readonly failure: Failure | null;
}

async function addAsset(store: Store, body: string | Uint8Array): Promise<string> {
  const bytes = Buffer.from(body as string);
  const hash = createHash("sha256").update(bytes).digest("hex");
  await store.runs.savePlaybooks([], [{ hash, body: bytes }], 1_000);
  return hash;
}

async function run(bench: WireBench, input: PythonStep): Promise<Ended> {
  const id = await bench.submit("exec", pythonInput(input), { labels: PYTHON_LABELS, retry: 1 });
  const job = (await bench.ended(id)) as unknown as {
    state: string;
    result: ExecResult | null;
    failure: Failure | null;
  };
  return { state: job.state, output: job.result?.output, failure: job.failure };
}

const CASES: readonly (readonly [what: string, code: string, data: PythonStep["data"], output: unknown])[] = [
  ["no parameter", "def main():\n    return {'status': 'success'}", { a: 1 }, { status: "success" }],
  [
    "the status of a verdict",
    "def main():\n    return {'status': 'failed', 'output': 1}",
    null,
    { status: "failed", output: 1 },
  ],
  ["names", "def main(a, b=2):\n    return [a, b]", { a: 1, other: 3 }, [1, 2]],
  ["**kw", "def main(**kw):\n    return kw", { a: 1, b: [null] }, { a: 1, b: [null] }],
  ["input_data", "def main(input_data):\n    return input_data['x']", { x: "ä" }, "ä"],
  ["async", "async def main(x):\n    return x * 2", { x: 21 }, 42],
  ["no main", "result = {'status': 'waiting', 'sum': a + b}", { a: 1, b: 2 }, { status: "waiting", sum: 3 }],
  ["no result", "print('done')", {}, null],
  ["the data of a step named data", "def main(data, result=None):\n    return [data, result]", { data: 1 }, [1, null]],
];

const FAILURES: readonly (readonly [what: string, code: string, message: RegExp])[] = [
  ["an exception", "def main():\n    raise ValueError('no such city')", /^exit code 1: ValueError: no such city$/],
  [
    "a result that JSON does not have",
    "def main():\n    return {1, 2}",
    /^exit code 1: TypeError: main returned a set, which JSON does not have/,
  ],
  ["a value that is missing", "def main(city): pass", /^exit code 1: TypeError: main requires city/],
  ["a mistake in the code", "def main(:\n  pass", /^exit code 1: SyntaxError: /],
  ["an exit", "import sys\ndef main():\n    sys.exit(75)", /^exit code 75/],
];

describe.skipIf(noPython)("the code of a python step", () => {
  it("is called with its data, and what it returns is the output, over HTTP", async () => {
    const bench = await openWireBench();
    await bench.work([exec], { runtimes: ["python"] });
    for (const [what, code, data, output] of CASES) {
      const ended = await run(bench, { codeHash: await addAsset(bench.server.store, code), data });
      expect([what, ended]).toEqual([what, { state: "succeeded", output, failure: null }]);
    }
    for (const [what, code, message] of FAILURES) {
      const { state, failure } = await run(bench, { codeHash: await addAsset(bench.server.store, code), data: null });
      expect([what, state, failure?.kind, failure?.class]).toEqual([what, "failed", "exit", "transient"]);
      expect(failure?.message).toMatch(message);
    }
  });

  it("is called beside the engine too, with a megabyte of data and variables", async () => {
    const bench = await openWireBench();
    const { engine, store } = bench.server;
    const parts = { engine, namespace: "default", log: () => {}, blobs: directoryBlobs(tempDir()) };
    const worker = await startWorker({ ...parts, running: new Set() }, [exec], { runtimes: ["python"] });
    onTestFinished(() => worker.stop({ grace: 0 }));
    const code = "import os\ndef main(text):\n    return [len(text), os.environ['WHO'], text[-1]]";
    const data = { text: `${"x".repeat(700_000)}ü` };
    const ended = await run(bench, { codeHash: await addAsset(store, code), data, env: { WHO: "ada" } });
    expect(ended).toMatchObject({ state: "succeeded", output: [700_001, "ada", "ü"] });
  });

  it("is fetched once for many jobs, and repeated while the server has an outage", async () => {
    let fetched = 0;
    const counting = (store: Store): Store => ({
      ...store,
      runs: {
        ...store.runs,
        asset: (hash) => {
          fetched += 1;
          if (fetched === 1) throw new PerdureError("store_unavailable", "down for a moment");
          return store.runs.asset(hash);
        },
      },
    });
    const bench = await openWireBench({ wrapStore: counting });
    await bench.work([exec], { runtimes: ["python"] });
    const codeHash = await addAsset(bench.server.store, "def main(n):\n    return n");
    const ended = await Promise.all([1, 2, 3, 4].map((n) => run(bench, { codeHash, data: { n } })));
    expect(ended.map(({ output }) => output)).toEqual([1, 2, 3, 4]);
    expect(fetched).toBe(2);
  });

  it("that does not exist fails the job for good; one for whom it is not intended gets none", async () => {
    const bench = await openWireBench();
    await bench.work([exec], { runtimes: ["python"] });
    const codeHash = "ab".repeat(32);
    const { state, failure } = await run(bench, { codeHash, data: null });
    expect(state).toBe("failed");
    expect(failure).toMatchObject({
      class: "invalid",
      code: "asset_missing",
      message: expect.stringContaining(codeHash),
    });
    const known = await addAsset(bench.server.store, new Uint8Array([0xff, 0, 1]));
    const { call, token, jobToken } = bench.server;
    const asked = async (hash: string, given: string | null) =>
      (await call("GET", `/v1/assets/${hash}`, { token: given })).status;
    expect(await asked(known, await token({ scopes: ["work"] }))).toBe(200);
    expect(await asked(codeHash, await token({ scopes: ["work"] }))).toBe(404);
    expect(await asked("..%2f..", await token({ scopes: ["work"] }))).toBe(400);
    expect(await asked(known, null)).toBe(401);
    expect(await asked(known, await token({ scopes: ["read", "submit"] }))).toBe(403);
    expect(await asked(known, jobToken("job_x", 1))).toBeGreaterThanOrEqual(401);
  });
});
