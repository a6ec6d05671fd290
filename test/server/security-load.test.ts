/** What the server does when there is too much of something, when it is to stop, and over TLS. */

import { get } from "node:https";
import { connect } from "node:net";
import { hostname } from "node:os";
import { describe, expect, it, onTestFinished } from "vitest";
import { PerdureError } from "../../src/core/errors.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { ADMISSION, Admission } from "../../src/server/admission.ts";
import { gate } from "../kit.ts";
import { type KitOptions, startServer } from "./kit.ts";
import { TEST_CERT, TEST_KEY } from "./tls.ts";

async function start(options: KitOptions = {}) {
  const server = await startServer(options);
  onTestFinished(server.close);
  return server;
}

describe("admission", () => {
  const LIMITS = { ...ADMISSION, maxBytes: 100, maxRequests: 3, maxHeld: 2 };

  it("admits up to the limit, and another when one has left", () => {
    const admission = new Admission(LIMITS, () => 0, systemClock);
    const tickets = [1, 2, 3].map(() => admission.enter("caller", 0));
    expect(() => admission.enter("caller", 0)).toThrowError(expect.objectContaining({ code: "overloaded" }));
    tickets[0]?.leave();
    admission.enter("caller", 0);
    expect(() => admission.enter("caller", 0)).toThrow();
  });

  it("counts bytes, but lets a single large body in", () => {
    const admission = new Admission(LIMITS, () => 0, systemClock);
    const large = admission.enter("caller", 500);
    expect(() => admission.enter("caller", 1)).toThrow();
    large.read(30); // it had no Content-Length
    admission.enter("caller", 70).leave();
    expect(() => admission.enter("caller", 71)).toThrow();
    large.leave();
    admission.enter("caller", 60);
    admission.enter("caller", 40);
    expect(() => admission.enter("caller", 1)).toThrow();
  });

  it("has a share for workers, one for waiting requests, and always admits operators", () => {
    const admission = new Admission(LIMITS, () => 5_000, systemClock);
    expect(() => admission.enter("caller", 0)).toThrow("event loop delay");
    for (let i = 0; i < 3; i++) admission.enter("worker", 0);
    expect(() => admission.enter("worker", 0)).toThrow();
    for (let i = 0; i < 2; i++) admission.enter("held", 0);
    expect(() => admission.enter("held", 0)).toThrow("wait");
    for (let i = 0; i < 50; i++) admission.enter("operator", 1_000);
  });

  it("refuses with 503 and Retry-After while there are too many bodies in progress, and recovers", async () => {
    const server = await start({ maxHeldBytes: 1_000, bodyLimit: 1_000_000 });
    const head = `POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.admin}\r\ncontent-type: application/json\r\n`;
    const slow = connect(server.port, "127.0.0.1");
    slow.write(`${head}content-length: 900\r\n\r\n`);
    const body = { kind: "k", tags: ["x".repeat(150)] };
    await expect.poll(async () => (await server.call("POST", "/v1/jobs", { body })).status).toBe(503);
    const refused = await server.call("POST", "/v1/jobs", { body });
    expect([refused.body.code, refused.headers.get("retry-after")]).toEqual([
      "overloaded",
      expect.stringMatching(/^[123]$/),
    ]);
    expect((await server.call("POST", "/v1/prune")).status).toBe(200);
    slow.destroy();
    await expect.poll(async () => (await server.call("POST", "/v1/jobs", { body })).status).toBe(201);
  });
});

describe("an outage of the store", () => {
  it("is reported as such: 503 with Retry-After, not ready, but alive", async () => {
    const refuse = () => Promise.reject(new PerdureError("store_unavailable", "connect ECONNREFUSED 10.0.0.7:5432"));
    const server = await start({
      wrapStore: (store) =>
        Object.assign(Object.create(store), { queues: { counts: refuse }, settings: { get: refuse } }),
    });
    const reply = await server.call("GET", "/v1/queues");
    expect([reply.status, reply.body.code, reply.headers.get("retry-after")]).toEqual([503, "store_unavailable", "1"]);
    expect(reply.text).not.toContain("10.0.0.7");
    const ready = await server.call("GET", "/readyz", { token: null });
    expect([ready.status, ready.text]).toEqual([503, '{"ok":false}']);
    expect((await server.call("GET", "/healthz", { token: null })).status).toBe(200);
  });
});

describe("stopping", () => {
  it("answers what is held, waits for what is under way, and takes nothing more", async () => {
    const [held, entered, release] = [gate(), gate(), gate()];
    const server = await start({
      wrapStore: (store) =>
        Object.assign(Object.create(store), {
          jobs(...args: Parameters<typeof store.jobs>) {
            held.open();
            return store.jobs(...args);
          },
          queues: {
            ...store.queues,
            async counts(...args: Parameters<typeof store.queues.counts>) {
              entered.open();
              await release.passed;
              return store.queues.counts(...args);
            },
          },
        }),
    });
    const job = (await server.call("POST", "/v1/jobs", { body: { kind: "k", delay: "1d" } })).body;
    const jobs = [{ id: job.id, chapter: 1 }];
    const waiting = server.call("POST", "/v1/jobs/wait", { body: { jobs, waitMs: 30_000 } });
    const underWay = server.call("GET", "/v1/queues");
    await Promise.all([held.passed, entered.passed]);
    const stopped = server.server.stop(20_000);
    expect((await waiting).status).toBe(200);
    await expect(server.call("GET", "/healthz", { token: null })).rejects.toThrow(); // no new connections
    release.open();
    expect((await underWay).status).toBe(200);
    await stopped;
  });

  it("cuts off what does not end within the grace", async () => {
    const [entered, release] = [gate(), gate()];
    const server = await start({
      wrapStore: (store) =>
        Object.assign(Object.create(store), {
          queues: {
            async counts() {
              entered.open();
              await release.passed;
              return [];
            },
          },
        }),
    });
    const underWay = server.call("GET", "/v1/queues").catch(() => "cut");
    await entered.passed;
    await server.server.stop(50);
    expect(await underWay).toBe("cut");
    release.open();
  });
});

describe("TLS", () => {
  it("is spoken with a certificate, also to other machines, and then pages must have come by it", async () => {
    const server = await start({ tls: { cert: TEST_CERT, key: TEST_KEY }, host: "0.0.0.0" });
    const ask = (headers: Record<string, string>) =>
      new Promise<number>((resolve, reject) => {
        const options = {
          port: server.port,
          host: "127.0.0.1",
          path: "/healthz",
          ca: TEST_CERT,
          servername: "localhost",
          headers,
        };
        get(options, (response) => {
          response.resume();
          response.on("end", () => resolve(response.statusCode ?? 0));
        }).on("error", reject);
      });
    expect(server.url).toBe(`https://${hostname()}:${server.port}`); // for others
    expect(await ask({ host: "localhost" })).toBe(200);
    expect(await ask({ host: "localhost", origin: "https://localhost" })).toBe(200);
    expect(await ask({ host: "localhost", origin: "http://localhost" })).toBe(403);
  });
});
