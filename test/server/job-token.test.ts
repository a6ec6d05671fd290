/** The job token in the environment of a command: for submitting and reading children, reporting usage, and nothing else. */
import { beforeAll, describe, expect, it } from "vitest";
import { ROUTES } from "../../src/contract/routes.ts";
import type { ClaimedJob } from "../../src/core/worker-protocol.ts";
import { jobToken, readJobToken } from "../../src/server/attempt-credentials.ts";
import { KeyRing } from "../../src/server/key-ring.ts";
import { startServer, type TestServer } from "./kit.ts";
import { type HandWorker, openWorker } from "./worker-kit.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  return () => server.close();
});

const EXEC = { kind: "exec", input: { argv: ["true"] } };

/** A running command that a worker holds. */
async function running(
  queue: string,
  more: object = {},
): Promise<{ job: ClaimedJob; worker: HandWorker; token: string }> {
  const { body } = await server.call("POST", "/v1/jobs", { body: { ...EXEC, queue, ...more } });
  const worker = await openWorker(server, { kinds: ["exec"], queues: [queue] });
  const [job] = (await worker.claim({ waitMs: 5_000 })) as [ClaimedJob];
  expect(job.id).toBe(body.id);
  return { job, worker, token: job.jobToken as string };
}

describe("a job's token", () => {
  it("comes with the claim of a command, and of nothing else", async () => {
    const { token, job } = await running("q1");
    expect(token).toMatch(/^pdj_/);
    expect(readJobToken(server.keys, token)).toEqual({ id: job.id, attempt: 1 });
    await server.call("POST", "/v1/jobs", { body: { kind: "mail", queue: "q1b" } });
    const other = await openWorker(server, { kinds: ["mail"], queues: ["q1b"] });
    const [mail] = (await other.claim({ waitMs: 5_000 })) as [ClaimedJob];
    expect(mail.jobToken).toBe(undefined);
  });

  it("submits children of its job, and of no other", async () => {
    const { token, job } = await running("q2");
    const stranger = (await server.call("POST", "/v1/jobs", { body: EXEC })).body.id;
    const elsewhere = await server.call("POST", "/v1/jobs", { token, body: { ...EXEC, parent: stranger } });
    expect(elsewhere).toMatchObject({ status: 400, body: { path: "parent" } });
    const one = await server.call("POST", "/v1/jobs", { token, body: { ...EXEC, parent: job.id, key: "a" } });
    expect(one.status).toBe(201);
    const again = await server.call("POST", "/v1/jobs", { token, body: { ...EXEC, key: "a" } });
    expect(again).toMatchObject({ status: 200, body: { id: one.body.id, created: false } });
    const many = await server.call("POST", "/v1/jobs/batch", { token, body: { jobs: [EXEC, { ...EXEC, key: "b" }] } });
    expect(many.body.answers).toHaveLength(2);
    const children = await server.call("GET", `/v1/jobs?parent=${job.id}`);
    expect(children.body.jobs).toHaveLength(3);
    for (const child of children.body.jobs) expect(child).toMatchObject({ parentId: job.id, depth: 1 });
  });

  it("sees itself and what is below it, and everything else as not there", async () => {
    const { token, job } = await running("q3");
    const stranger = (await server.call("POST", "/v1/jobs", { body: EXEC })).body.id;
    const child = (await server.call("POST", "/v1/jobs", { token, body: EXEC })).body.id;
    const grandchild = (await server.call("POST", "/v1/jobs", { body: { ...EXEC, parent: child } })).body.id;
    const status = async (path: string) => (await server.call("GET", path, { token })).status;
    for (const id of [job.id, child, grandchild]) {
      expect(await status(`/v1/jobs/${id}`)).toBe(200);
      expect(await status(`/v1/jobs/${id}/explain`)).toBe(200);
      expect(await status(`/v1/jobs/${id}/attempts`)).toBe(200);
      expect(await status(`/v1/jobs/${id}/events`)).toBe(200);
    }
    for (const rest of ["", "/explain", "/attempts", "/events", "/logs", "/outputs"]) {
      expect(await status(`/v1/jobs/${stranger}${rest}`)).toBe(404);
    }
    const ids = async (query: string) => {
      const { body } = await server.call("GET", `/v1/jobs${query}`, { token });
      return body.jobs?.map(({ id }: { id: string }) => id) ?? body.code;
    };
    expect(await ids("")).toEqual([child]);
    expect(await ids(`?parent=${child}`)).toEqual([grandchild]);
    expect(await ids(`?parent=${stranger}`)).toBe("job_not_found");
    const wait = (id: string) => server.call("POST", "/v1/jobs/wait", { token, body: { jobs: [{ id, chapter: 1 }] } });
    expect((await wait(stranger)).status).toBe(404);
    expect((await wait(child)).status).toBe(200);
    expect((await server.call("GET", "/v1/workers", { token })).body).toEqual({ workers: [], next: null });
    // What `perdure ps` and `perdure tree` count ages from.
    const { body: seen } = await server.call("GET", "/v1/status", { token });
    expect(seen).toMatchObject({ now: expect.any(Number), storeFault: null });
  });

  it("opens nothing else", async () => {
    const { token, job } = await running("q4");
    const child = (await server.call("POST", "/v1/jobs", { token, body: EXEC })).body.id;
    const open = new Set(["submitJob", "submitJobs", "listJobs", "waitJobs", "getJob", "explainJob", "listJobEvents"]);
    for (const name of ["listAttempts", "getLogs", "listOutputs", "getOutput", "setUsage", "listWorkers"])
      open.add(name);
    for (const name of ["createUpload", "writeUpload", "getUpload"]) open.add(name);
    for (const name of ["getVersion", "getIdentity", "getDialects", "getStatus"]) open.add(name);
    const others = Object.entries(ROUTES).filter(([name]) => !open.has(name));
    expect(others.length).toBeGreaterThan(20);
    for (const [name, { method, path }] of others) {
      const at = path.replace(":id", child).replaceAll(/:\w+/g, "x").replace("*", "x");
      const body = method === "GET" || method === "DELETE" ? {} : { body: {} };
      const { status } = await server.call(method, at, { token, ...body });
      expect({ name, status }).toEqual({ name, status: 403 });
    }
    expect((await server.call("GET", `/v1/jobs/${child}`)).body.state).toBe("queued");
    expect((await server.call("GET", `/v1/jobs/${job.id}`)).body.state).toBe("running");
  });

  it("reports usage of its own attempt", async () => {
    const { token, job, worker } = await running("q5", { retry: { budget: { costUsd: 1 } } });
    const tell = (id: string, attempt: number, costUsd: number) =>
      server.call("PUT", `/v1/jobs/${id}/usage`, {
        ...{ token, body: { attempt, usage: { tokensIn: 1, tokensOut: 2, costUsd } } },
      });
    const child = (await server.call("POST", "/v1/jobs", { token, body: EXEC })).body.id;
    expect((await tell(child, 1, 0.5)).status).toBe(403);
    expect((await tell(job.id, 2, 0.5)).status).toBe(403);
    expect((await tell(job.id, 1, 0.5)).status).toBe(204);
    const renew = async () =>
      (await worker.call("POST", "/renew", { body: { held: [{ jobId: job.id, attempt: 1 }] } })).body;
    expect((await renew()).overspent).toEqual([]);
    expect((await tell(job.id, 1, 1.25)).status).toBe(204);
    expect((await renew()).overspent).toEqual([{ jobId: job.id, attempt: 1 }]);
  });

  it("is not accepted when the attempt has ended, nor for another job", async () => {
    const { token, job, worker } = await running("q6");
    expect((await server.call("GET", `/v1/jobs/${job.id}`, { token })).status).toBe(200);
    const other = new KeyRing([{ text: "another secret", signsFrom: null, until: null }], Date.now);
    const forged = [
      jobToken(other, job.id, 1),
      jobToken(server.keys, job.id, 2),
      token.replace(/_1_/, "_01_"),
      `${token}x`,
      `pdj_${job.id}`,
    ];
    for (const wrong of forged) {
      expect((await server.call("GET", `/v1/jobs/${job.id}`, { token: wrong })).status).toBe(401);
    }
    await worker.report(job, { kind: "completed", result: "null" });
    const late = await server.call("POST", "/v1/jobs", { token, body: EXEC });
    expect(late).toMatchObject({ status: 401, body: { code: "unauthorized" } });
  });
});
