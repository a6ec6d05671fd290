/** NoETL's tasks run for real: requests against a server of this process, commands, Python. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { readYaml } from "../../src/cli/yaml.ts";
import type { JobEvent } from "../../src/core/event.ts";
import { noetl } from "../../src/dialects/noetl/dialect.ts";
import type { NoetlEvent } from "../../src/dialects/noetl/events.ts";
import { exec, http, Perdure } from "../../src/index.ts";
import { all, tempFile } from "../kit.ts";
import { readContext } from "./kit.ts";
import { line } from "./noetl-kit.ts";

async function run(document: string | object): Promise<{ told: readonly NoetlEvent[]; result: unknown }> {
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
  return { told: noetl.events?.(parts) as readonly NoetlEvent[], result: job.result };
}

/** Answers with these statuses in turn; the last one again and again. */
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
  const { told, result } = await run(task);
  expect(asked).toEqual(Array(3).fill('POST /data?page=2 {"a":1}'));
  expect(result).toMatchObject({ status_code: 200, body: { asked: 3 } });
  expect(told.map(({ event_type }) => event_type)).toEqual([
    ...["action_started", "action_error", "step_retry", "action_started", "action_error", "step_retry"],
    ...["action_started", "action_completed", "step_completed"],
  ]);
  expect(told[1]).toMatchObject({ context: { status_code: 503 }, error: expect.stringContaining("503") });
  expect(told.filter(({ event_type }) => event_type === "step_retry").map(({ context }) => context)).toMatchObject([
    { delay_seconds: 0.01 },
    { delay_seconds: 0.02 },
  ]);
});

it("a request that polls while it is answered 202", async () => {
  const { url, asked } = await serve(202, 202, 200);
  const retry = { ...QUICK, retry_when: "{{ status_code == 202 }}" };
  const { told } = await run({ step: "poll", type: "http", url, retry });
  expect(asked).toHaveLength(3);
  expect(told.at(-1)).toMatchObject({ event_type: "step_completed", result: { body: { asked: 3 } } });
});

it.skipIf(spawnSync("python3", ["--version"]).status !== 0)("Python", async () => {
  const code = "import os, sys\nif os.environ['PERDURE_ATTEMPT'] == '1': sys.exit('busy')\nprint(os.environ['WHO'])\n";
  const { told } = await run({ step: "p", type: "python", code, env: { WHO: "ada" }, retry: { ...QUICK } });
  expect(told.map(line)).toEqual([
    "action_started (attempt=1)",
    'action_error (attempt=1, error="exit code 1: busy")',
    "step_retry (attempt=1, delay=0.0s)",
    "action_started (attempt=2)",
    "action_completed (attempt=2, success=True)",
    "step_completed",
  ]);
});

it("the example gets through with its third attempt", async () => {
  const text = readFileSync(new URL("../../examples/noetl/fetch-data.yaml", import.meta.url), "utf8");
  const { told, result } = await run(text.replace("initial_delay: 1.0", "initial_delay: 0.01"));
  expect(told.map(line).filter((each) => each.startsWith("action_"))).toEqual([
    "action_started (attempt=1)",
    'action_error (attempt=1, error="exit code 1: 503 Service Unavailable")',
    "action_started (attempt=2)",
    'action_error (attempt=2, error="exit code 1: 503 Service Unavailable")',
    "action_started (attempt=3)",
    "action_completed (attempt=3, success=True)",
  ]);
  expect(result).toMatchObject({ outputs: [{ name: "report.txt" }] });
});
