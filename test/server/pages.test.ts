/** Replies that may be very long are paged, and the open calls of one token are limited. */
import { beforeAll, describe, expect, it } from "vitest";
import { Perdure } from "../../src/client/index.ts";
import { startServer, type TestServer } from "./kit.ts";
import { openWorker } from "./worker-kit.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ limits: { sessionsPerToken: 3, pageChars: 2_000 } });
  return () => server.close();
});

/** A job with this many failures, each with a message and a log. */
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
    // Beyond what a column of PostgreSQL holds.
    for (const beyond of ["attempts?after=2147483648", "logs?after=2147483648"]) {
      expect((await server.call("GET", `/v1/jobs/${id}/${beyond}`)).status).toBe(400);
    }
    const last = await server.call("GET", `/v1/jobs/${id}/attempts?after=102`);
    expect(last.body).toMatchObject({ attempts: [{ attempt: 103 }], next: null });
    expect(await server.store.attempts(id, { limit: 1_000 })).toHaveLength(100);
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

describe("lists that may be very long are paged, and a client reads all pages", () => {
  it("queues, by name", async () => {
    const namespace = "queues";
    const headers = { "perdure-namespace": namespace };
    for (const queue of ["c", "a", "b"]) await server.call("POST", "/v1/jobs", { headers, body: { kind: "k", queue } });
    const first = await server.call("GET", "/v1/queues?limit=2", { headers });
    expect(first.body).toMatchObject({ queues: [{ queue: "a" }, { queue: "b" }], next: "b" });
    const rest = await server.call("GET", "/v1/queues?limit=2&after=b", { headers });
    expect(rest.body).toMatchObject({ queues: [{ queue: "c" }], next: null });
    expect((await server.call("GET", "/v1/queues?limit=1001")).status).toBe(400);
    await using client = await Perdure.connect(server.url, { token: server.admin, namespace });
    expect(await client.queues()).toHaveLength(3);
  });

  it("tokens, oldest first, those that the caller may see", async () => {
    const token = await server.token({ name: "a", scopes: ["admin"], namespace: "tokens" });
    for (const name of ["b", "c"]) await server.token({ name, namespace: "tokens" });
    const first = await server.call("GET", "/v1/tokens?limit=2", { token });
    expect(first.body.next).toBe(first.body.tokens[1].id);
    const rest = await server.call("GET", `/v1/tokens?limit=2&after=${first.body.next}`, { token });
    expect(rest.body.next).toBe(null);
    // Those of one millisecond have an order of their own.
    const all = [...first.body.tokens, ...rest.body.tokens] as { name: string; createdAt: number }[];
    expect(all.map(({ name }) => name).sort()).toEqual(["a", "b", "c"]);
    const times = all.map(({ createdAt }) => createdAt);
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect((await server.call("GET", "/v1/tokens?after=tok_none", { token })).status).toBe(404);
    await using client = await Perdure.connect(server.url, { token });
    expect(await client.admin.listTokens()).toHaveLength(3);
  });

  it("files that attempts left, the latest first, bounded in attempts and in characters", async () => {
    const { body } = await server.call("POST", "/v1/jobs", { body: { kind: "leaves" } });
    const { blobs } = server;
    for (let attempt = 1; attempt <= 5; attempt++) {
      const names = attempt === 4 ? Array.from({ length: 12 }, (_, i) => `${i}`) : ["x"];
      for (const name of names) await blobs.write(body.id, attempt, `artifacts/${name}`, 0, from("x"));
    }
    const list = async (query: string) => {
      const reply = await server.call("GET", `/v1/jobs/${body.id}/outputs${query}`);
      return [reply.body.attempts.map((row: { attempt: number }) => row.attempt), reply.body.next];
    };
    expect(await list("?limit=1")).toEqual([[5], 5]);
    expect(await list("")).toEqual([[4, 5], 4]); // those of the fourth fill it
    expect(await list("?before=4&limit=2")).toEqual([[2, 3], 2]);
    expect(await list("?before=2")).toEqual([[1], null]);
    await using client = await Perdure.connect(server.url, { token: server.admin });
    const outputs = await client.outputs(body.id);
    expect(outputs.attempts).toEqual([1, 2, 3, 4, 5]);
    expect((await outputs.files(4)).files).toHaveLength(12);
    expect((await outputs.files(2)).files).toMatchObject([{ name: "x" }]);
  });

  it("events of a job, of a namespace and of all, bounded in characters", async () => {
    const headers = { "perdure-namespace": "events" };
    const input = { kind: "k", tags: Array.from({ length: 8 }, (_, i) => `${i}`.padEnd(90, "t")) };
    const ids: string[] = [];
    for (let i = 0; i < 6; i++) {
      const reply = await server.call("POST", "/v1/jobs", {
        headers,
        body: { ...input, labels: { l: "v".repeat(190) } },
      });
      ids.push(reply.body.id);
      await server.call("POST", `/v1/jobs/${reply.body.id}/cancel`, { headers });
    }
    const read = async (path: string, query: object = {}) => {
      const sizes: number[] = [];
      for (let after: number | null = 0, seqs: number[] = []; ; ) {
        const reply = await server.call("GET", `${path}?limit=1000&after=${after}`, query);
        sizes.push(reply.text.length);
        seqs = [...seqs, ...reply.body.events.map(({ seq }: { seq: number }) => seq)];
        after = reply.body.next;
        if (after === null) return { sizes, seqs };
      }
    };
    const stored = (await server.store.events.page({ after: 0, limit: -1 })).events;
    const all = await read("/v1/events");
    expect(all.seqs).toEqual(stored.map(({ seq }) => seq));
    const own = await read("/v1/events", { headers });
    expect(own.seqs).toHaveLength(12);
    for (const { sizes } of [all, own]) {
      expect(sizes.length).toBeGreaterThan(1);
      expect(Math.max(...sizes)).toBeLessThan(8_000);
    }
    const { events } = await server.store.events.page({ jobId: ids[0] as string, after: 0, limit: 100, chars: 10 });
    expect(events).toHaveLength(1);
    expect((await read(`/v1/jobs/${ids[0]}/events`, { headers })).seqs).toHaveLength(2);
  });
});

async function* from(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
