/** Replies that may be very long come in pages, and what one token can have open is bounded. */
import { beforeAll, describe, expect, it } from "vitest";
import { Perdure } from "../../src/client/index.ts";
import { startServer, type TestServer } from "./kit.ts";
import { openWorker } from "./worker-kit.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ limits: { sessionsPerToken: 3 } });
  return () => server.close();
});

/** A job that failed so many times, each with a message and a log. */
async function failing(times: number): Promise<string> {
  const retry = { maxAttempts: times, backoff: { type: "none" }, onUnknown: "retry" };
  const { body } = await server.call("POST", "/v1/jobs", { body: { kind: "fails", retry } });
  const worker = await openWorker(
    server,
    { kinds: ["fails"], leaseMs: 600_000 },
    { token: await server.token({ name: "w" }) },
  );
  for (let i = 1; i <= times; i++) {
    const job = await worker.take();
    await worker.report(job, { kind: "failed", failure: { kind: "error", message: `no ${i}` } }, { log: `line ${i}` });
  }
  return body.id;
}

describe("a job with many attempts", () => {
  it("has them in pages, which a client reads on one after the other", async () => {
    const id = await failing(103);
    const first = await server.call("GET", `/v1/jobs/${id}/attempts`);
    expect(first.body.attempts).toHaveLength(100);
    expect(first.body.next).toBe(100);
    const next = await server.call("GET", `/v1/jobs/${id}/attempts?after=100&limit=2`);
    expect(next.body).toMatchObject({ attempts: [{ attempt: 101, log: "line 101" }, { attempt: 102 }], next: 102 });
    const last = await server.call("GET", `/v1/jobs/${id}/attempts?after=102`);
    expect(last.body).toMatchObject({ attempts: [{ attempt: 103 }], next: null });
    const client = await Perdure.connect(server.url, { token: server.admin });
    const job = await client.job(id);
    const all = await job.attempts();
    expect(all.map((row) => row.attempt)).toEqual(Array.from({ length: 103 }, (_, i) => i + 1));
    expect(await job.attempts({ after: 100, limit: 1 })).toMatchObject([{ attempt: 101 }]);
    await expect(job.result()).rejects.toMatchObject({ code: "job_failed", failure: { message: "no 103" } });
    await client.close();
    expect((await server.call("GET", `/v1/jobs/${id}/explain`)).body.attempts).toHaveLength(103);
    expect((await server.call("GET", `/v1/jobs/${id}?view=fluster`)).status).toBe(200);
  });
});

describe("S32: sessions", () => {
  it("are bounded for each token, in number and in size; those that ended do not count", async () => {
    const token = await server.token({ name: "greedy", scopes: ["work"] });
    const body = { name: "w", kinds: ["k"], slots: 1 };
    const workers = await Promise.all([1, 2, 3].map(() => openWorker(server, {}, { token })));
    const refused = await server.call("POST", "/v1/sessions", { token, body });
    expect(refused).toMatchObject({ status: 429, body: { message: expect.stringContaining("server.sessionQuota") } });
    const other = await server.token({ name: "other", scopes: ["work"] });
    expect((await server.call("POST", "/v1/sessions", { token: other, body })).status).toBe(201);
    await workers[0]?.call("DELETE", "");
    expect((await server.call("POST", "/v1/sessions", { token, body })).status).toBe(201);
    const kinds = Array.from({ length: 200 }, (_, i) => `${i}`.padEnd(180, "k"));
    const large = await server.call("POST", "/v1/sessions", { token: other, body: { ...body, kinds } });
    expect(large).toMatchObject({ status: 400, body: { message: expect.stringContaining("at most 32768 bytes") } });
  });

  it("are listed in pages, which a client reads on", async () => {
    const headers = { "perdure-namespace": "pages" };
    for (let i = 0; i < 3; i++) {
      const token = await server.token({ name: `w${i}`, scopes: ["work"], namespace: "pages" });
      await openWorker(server, { name: `w${i}` }, { token });
    }
    const first = await server.call("GET", "/v1/workers?limit=2", { headers });
    expect(first.body).toMatchObject({ workers: [{ name: "w0" }, { name: "w1" }], next: first.body.workers[1].id });
    const rest = await server.call("GET", `/v1/workers?limit=2&after=${first.body.next}`, { headers });
    expect(rest.body).toMatchObject({ workers: [{ name: "w2" }], next: null });
    const foreign = await server.call("POST", `/v1/workers/${rest.body.workers[0].id}/drain`);
    expect(foreign.status).toBe(404);
  });
});
