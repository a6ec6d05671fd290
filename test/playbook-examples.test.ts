/** Every file of `examples/playbooks` is checked by the JSON Schema in ajv, as an editor does, and runs on a real engine with
 *  real workers. All runs are started at once, and each test waits for its own. A file without a test here fails. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunHandle, RunOptions } from "../src/core/api/runs.ts";
import { playbookSchema } from "../src/core/playbook/schema.ts";
import { exec, http, Perdure, postgres, task } from "../src/index.ts";
import { readYaml } from "../src/yaml/read.ts";
import { exampleSources } from "./hostile-playbooks.ts";
import { ORDERS, type PlaybookService, startPlaybookService } from "./playbook-service.ts";
import { ask } from "./postgres/client.ts";
import { newSchema, postgresUrl } from "./postgres/kit.ts";

const sources = new Map(exampleSources());

// The tasks of task.yaml.

const quote = task("quote", ({ items }: { items: { count: number }[] }, { attempt }) => {
  if (attempt === 1) throw new Error("the price list is locked");
  return { total: items.reduce((sum, { count }) => sum + 12.5 * count, 0) };
});
const invoice = task("invoice", ({ customer, total }: { customer: string; total: number }) => ({
  number: "2026-1",
  text: `${customer} owes ${total}`,
}));

// The engine.

const directory = mkdtempSync(join(tmpdir(), "perdure-playbooks-"));
const { schema } = newSchema("playbooks");
let perdure: Perdure;
let service: PlaybookService;
const runs = new Map<string, RunHandle<unknown>>();

/** The runs of the tests below: a name, its file, and its input. `BASE` stands for the service's address. */
const RUNS: readonly (readonly [name: string, file: string, input: object, options?: RunOptions])[] = [
  ["charge", "charge.yaml", { base: "BASE", amount: 20 }],
  ["exec", "exec.yaml", { name: "Ada" }],
  ["failure-branch", "failure-branch.yaml", { base: "BASE/down" }],
  ["failure-branch: 404", "failure-branch.yaml", { base: "BASE/nowhere" }],
  ["failure-branch: up", "failure-branch.yaml", { base: "BASE/up" }],
  ["handlers", "handlers.yaml", { code: 3 }],
  ["handlers: success", "handlers.yaml", {}],
  ["http", "http.yaml", { base: "BASE" }],
  ["join", "join.yaml", { base: "BASE", premium: true }],
  ["join: two branches", "join.yaml", { base: "BASE" }],
  ["loop", "loop.yaml", { base: "BASE", cities: ["Bergen", "", "Atlantis", "Tromsø"] }],
  ["pagination", "pagination.yaml", { base: "BASE" }],
  ["postgres", "postgres.yaml", { customer: "Ann O'Neil; drop table example_order --", amount: 42.5 }],
  ["python", "python.yaml", { numbers: [3, 1, 2] }],
  ["shell", "shell.yaml", { text: `; rm -rf "$HOME" 'and' $(more)` }],
  ["sub-playbook", "sub-playbook.yaml", { base: "BASE" }],
  ["task", "task.yaml", { customer: "c1" }],
  ["wait", "wait.yaml", { delay: "300ms" }],
];

beforeAll(async () => {
  await ask(postgresUrl(), `create schema ${schema}`);
  const shop = new URL(postgresUrl());
  shop.searchParams.set("options", `-c search_path=${schema}`);
  service = await startPlaybookService();

  perdure = await Perdure.open(join(directory, "jobs.db"));
  await perdure.work([exec, http, postgres, quote, invoice], {
    ...{ concurrency: 20, allowAddresses: ["127.0.0.1"], connections: { shop: shop.href } },
    ...{ runtimes: ["python"], labels: { region: "eu" } },
  });
  const started = RUNS.map(async ([name, file, input, options]) => {
    const filled = JSON.parse(JSON.stringify(input).replaceAll("BASE", service.url));
    const files = file === "sub-playbook.yaml" ? { "./charge.yaml": textOf("charge.yaml") } : {};
    runs.set(name, await perdure.run({ source: textOf(file), file, files }, filled, options));
  });
  await Promise.all(started);
});

afterAll(async () => {
  await perdure.close();
  service.close();
  rmSync(directory, { recursive: true, force: true });
});

function textOf(file: string): string {
  return sources.get(file) as string;
}

function runOf(name: string): RunHandle<unknown> {
  return runs.get(name) as RunHandle<unknown>;
}

/** Each step as `name state`, with the number of its attempts where it has a job. */
async function stepsOf(name: string): Promise<string[]> {
  const steps = await runOf(name).steps({ limit: 1_000 });
  return steps.map(({ step, item, state, job, attempt }) => {
    const what = `${step}${item === null ? "" : `[${item}]`} ${state}`;
    return job === null || attempt === 1 ? what : `${what} ${attempt}`;
  });
}

describe("the JSON Schema of playbooks, in ajv", () => {
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true });
  const validate = ajv.compile(JSON.parse(JSON.stringify(playbookSchema())));

  it.each([...sources])("accepts %s", (file, source) => {
    const isValid = validate(readYaml(source, file).value);
    expect(validate.errors).toBe(null);
    expect(isValid).toBe(true);
  });

  it("refuses a misspelt field", () => {
    const { value } = readYaml(textOf("http.yaml").replace("timeout:", "timout:"), "http.yaml");
    expect(validate(value)).toBe(false);
  });
});

describe("the example playbook", () => {
  it("of each file runs below", () => {
    expect([...new Set(RUNS.map(([, file]) => file))].sort()).toEqual([...sources.keys()]);
    expect(sources.size).toBeGreaterThanOrEqual(12);
  });

  it.each([...sources])("%s is valid", async (file, source) => {
    const answered = await perdure.validatePlaybook({ source, file });
    expect(answered).toMatchObject({ ok: true, notes: [] });
  });

  it("http.yaml repeats a request after 503", async () => {
    expect(await runOf("http").result()).toEqual({ city: "Oslo", temperature: 4 });
    expect(await stepsOf("http")).toEqual(["fetch succeeded 2"]);
  });

  it("charge.yaml sends a key that is the same in all attempts", async () => {
    expect(await runOf("charge").result()).toEqual({ payment: "p-20", amount: 20 });
    expect(service.calls).toContainEqual({ route: "POST /payments", key: runOf("charge").id, body: { amount: 20 } });
  });

  it("exec.yaml passes an argument and a standard input", async () => {
    expect(await runOf("exec").result()).toBe("HELLO, ADA");
  });

  it("failure-branch.yaml takes the arc of the failure", async () => {
    const cached = [{ sku: "a1", price: 3, age: "2 h", because: expect.stringContaining("503") }];
    expect(await runOf("failure-branch").result()).toEqual({ source: "cache", prices: cached });
    expect(await stepsOf("failure-branch")).toEqual(["live handled 2", "cached succeeded", "end succeeded"]);
    expect(await runOf("failure-branch: 404").result()).toEqual({ source: "none", prices: [] });
    expect(await stepsOf("failure-branch: 404")).toEqual(["live handled", "empty succeeded", "end succeeded"]);
    expect(await runOf("failure-branch: up").result()).toEqual({ source: "live", prices: [{ sku: "a1", price: 3 }] });
  });

  it("handlers.yaml runs its handlers after a failure, and only `finally` after a success", async () => {
    await expect(runOf("handlers").result()).rejects.toMatchObject({ code: "job_failed", reason: "step" });
    expect(await stepsOf("handlers")).toEqual([
      "prepare succeeded",
      "work failed 2",
      "notify succeeded",
      "cleanup succeeded",
    ]);
    const [cleanup] = await runOf("handlers").steps({ step: "cleanup", outputs: true });
    expect(cleanup?.output).toBe(`removed /tmp/example-${runOf("handlers").id}`);
    await runOf("handlers: success").result();
    expect(await stepsOf("handlers: success")).toEqual(["prepare succeeded", "work succeeded", "cleanup succeeded"]);
  });

  it("join.yaml waits for the branches that were taken", async () => {
    expect(await runOf("join").result()).toEqual({ name: "Ada", orders: 2, offers: ["10 %"] });
    expect((await stepsOf("join")).at(-1)).toBe("report succeeded");
    expect(await runOf("join: two branches").result()).toEqual({ name: "Ada", orders: 2, offers: [] });
    expect(await stepsOf("join: two branches")).toHaveLength(4);
  });

  it("loop.yaml continues after an item that fails", async () => {
    const warmest = { city: "Bergen", temperature: 9 };
    expect(await runOf("loop").result()).toEqual({ warmest, failed: 1 });
    expect((await stepsOf("loop")).sort()).toEqual([
      "fetch succeeded",
      "fetch[0] succeeded",
      "fetch[1] failed",
      "fetch[2] succeeded",
      "warmest succeeded",
    ]);
  });

  it("pagination.yaml visits a step until there is no next page", async () => {
    expect(await runOf("pagination").result()).toEqual({ ids: ORDERS.flat(), pages: 3 });
    const visits = (await runOf("pagination").steps({ step: "fetch" })).map(({ visit }) => visit);
    expect(visits).toEqual([1, 2, 3]);
  });

  it("postgres.yaml stores any text", async () => {
    const order = { customer: "Ann O'Neil; drop table example_order --", amount: 42.5 };
    expect(await runOf("postgres").result()).toEqual({ order });
  });

  it("python.yaml passes values between two steps", async () => {
    expect(await runOf("python").result()).toBe("the median of 3 numbers is 2");
  });

  it("shell.yaml quotes a value by its place", async () => {
    expect(await runOf("shell").result()).toBe(`; RM -RF "$HOME" 'AND' $(MORE) (6 WORDS)`);
  });

  it("sub-playbook.yaml runs another file for each item", async () => {
    const payments = [10, 20].map((amount) => ({ payment: `p-${amount}`, amount }));
    expect(await runOf("sub-playbook").result()).toEqual({ payments });
    expect(service.calls).toContainEqual({ route: "POST /receipts", key: expect.any(String), body: { payments } });
    const below = await perdure.runs({ parent: runOf("sub-playbook").id });
    expect(below.runs.map(({ state, playbook }) => [state, playbook.path])).toEqual([
      ["succeeded", "examples/charge"],
      ["succeeded", "examples/charge"],
    ]);
  });

  it("task.yaml runs tasks of a program", async () => {
    expect(await runOf("task").result()).toEqual({ number: "2026-1", text: "c1 owes 25" });
    expect(await stepsOf("task")).toEqual(["price succeeded 2", "bill succeeded"]);
  });

  it("wait.yaml waits without a job", async () => {
    expect(await runOf("wait").result()).toBe("shipped after 300ms");
    const [coolOff] = await runOf("wait").steps({ step: "cool_off" });
    expect(coolOff).toMatchObject({ state: "succeeded", job: null });
    expect((coolOff?.endedAt ?? 0) - (coolOff?.startedAt ?? 0)).toBeGreaterThanOrEqual(300);
  });
});
