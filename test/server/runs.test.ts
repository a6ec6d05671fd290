/** Runs and the catalog over HTTP: the same calls as in the library, the statuses of mistakes, and who may do what. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { Perdure as Client, type PerdureClient } from "../../src/client/index.ts";
import { Perdure, task } from "../../src/index.ts";
import { startServer, type TestServer } from "./kit.ts";

let server: TestServer;
let client: PerdureClient;
let worker: Perdure;

beforeAll(async () => {
  server = await startServer();
  client = await Client.connect(server.url, { token: server.admin });
  worker = await Perdure.open(server.storeUrl);
  const double = task("double", ({ n }: { n: number }) => ({ n: n * 2 }));
  const pick = task("pick", ({ n }: { n: number }) => {
    if (n < 0) throw new Error("negative");
    return n;
  });
  await worker.work([double, pick]);
});

afterAll(async () => {
  await worker.close();
  await client.close();
  await server.close();
});

const SOURCE = `
apiVersion: perdure/v1
kind: Playbook
metadata: { name: doubled, path: math/doubled }
inputs: { n: { type: integer, required: true } }
result: { n: "{{ second.n }}" }
workflow:
  - { step: start, type: task, task: double, data: { n: "{{ inputs.n }}" }, next: second }
  - { step: second, type: task, task: double, data: { n: "{{ start.n }}" }, next: checked }
  - { step: checked, type: task, task: pick, data: { n: "{{ second.n }}" } }
`;

it("pushes a playbook, runs it by path, and shows its steps", async () => {
  const pushed = await client.pushPlaybook({ source: SOURCE });
  expect(pushed).toMatchObject({ path: "math/doubled", version: 1 });
  expect(await client.pushPlaybook({ source: SOURCE })).toMatchObject({ version: 1 });
  const run = await client.run<{ n: number }>("math/doubled", { n: 3 }, { key: "three", tags: ["a"] });
  expect(await run.result()).toEqual({ n: 12 });
  expect((await client.run("math/doubled", { n: 3 }, { key: "three", tags: ["a"] })).id).toBe(run.id);
  expect(await run.get()).toMatchObject({
    ...{ state: "succeeded", madeSteps: 3, openSteps: 0, tags: ["a"], input: { n: 3 } },
    playbook: { path: "math/doubled", version: 1 },
  });
  const steps = await run.steps({ outputs: true });
  expect(steps.map(({ step, state, output }) => [step, state, output])).toEqual([
    ["start", "succeeded", { n: 6 }],
    ["second", "succeeded", { n: 12 }],
    ["checked", "succeeded", 12],
  ]);
  const { runs } = await client.runs({ playbook: "math/*", state: ["succeeded", "failed"] });
  expect(runs.map(({ id }) => id)).toEqual([run.id]);
  const graph = await server.call("GET", `/v1/runs/${run.id}/graph?format=mermaid`);
  expect(graph.body.graph).toContain("second");
  expect(await client.playbook("math/doubled")).toMatchObject({ version: 1, source: SOURCE });
  expect((await client.playbooks()).map(({ path }) => path)).toEqual(["math/doubled"]);
});

it("redrives a run that failed, with another workload", async () => {
  const run = await client.run({ source: SOURCE.replace("math/doubled", "math/other") }, { n: -1 });
  await expect(run.result()).rejects.toMatchObject({ code: "job_failed", reason: "step" });
  expect(await run.get()).toMatchObject({ state: "failed", failedStep: "checked" });
  const redriven = await run.redrive({ skip: { checked: 0 } });
  expect(redriven).toMatchObject({ state: "running", chapter: 2 });
  const again = await client.runHandle<{ n: number }>(run.id);
  expect(await again.result()).toEqual({ n: -4 });
});

it("answers mistakes with their status, and stores nothing", async () => {
  const before = (await client.runs()).runs.length;
  const start = (body: object) => server.call("POST", "/v1/runs", { body });
  const bad = await start({ playbook: { source: "apiVersion: perdure/v1\nworkflow: [{ step: a, next: b }]\n" } });
  expect([bad.status, bad.body.code]).toEqual([400, "invalid_playbook"]);
  expect(bad.body.message).toContain('"b"');
  expect((await start({ playbook: { path: "no/such" } })).status).toBe(404);
  const input = await start({ playbook: { path: "math/doubled" }, input: { n: "x" } });
  expect([input.status, input.body.code]).toEqual([400, "invalid_config"]);
  expect((await start({ playbook: { path: "math/doubled" }, input: {} })).status).toBe(400);
  expect((await start({ playbook: { path: "math/doubled" }, inputs: {} })).status).toBe(400);
  expect((await server.call("GET", "/v1/runs/job_00000000000000000000000000")).status).toBe(404);
  const job = await client.submit("pick", { n: 1 });
  expect((await server.call("GET", `/v1/runs/${job.id}`)).status).toBe(404);
  expect((await client.runs()).runs.length).toBe(before);
});

it("changes the catalog only for an admin, and shows runs only of the own namespace", async () => {
  const submit = await server.token({ scopes: ["submit", "read"], namespace: "default" });
  expect((await server.call("POST", "/v1/playbooks", { token: submit, body: { source: SOURCE } })).status).toBe(403);
  expect((await server.call("DELETE", "/v1/playbooks/entry?path=math/doubled", { token: submit })).status).toBe(403);
  expect(
    (await server.call("POST", "/v1/playbooks/validate", { token: submit, body: { playbook: { source: SOURCE } } }))
      .body.ok,
  ).toBe(true);
  const other = await server.token({ scopes: ["submit", "read"], namespace: "other" });
  const { runs } = await client.runs();
  expect((await server.call("GET", `/v1/runs/${runs[0]?.id}`, { token: other })).status).toBe(404);
  expect((await server.call("GET", "/v1/playbooks", { token: other })).body.playbooks).toEqual([]);
  expect((await server.call("GET", "/v1/schemas/playbook.json", { token: other })).body).toMatchObject({
    type: "object",
  });
  expect(await client.deletePlaybook("math/doubled")).toBe(1);
});
