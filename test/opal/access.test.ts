/** Access to OPAL's routes: with a token, and without one only from this machine, if that is enabled. */
import { request } from "node:http";
import { describe, expect, it } from "vitest";
import { opalRoutes } from "../../src/dialects/opal/server/routes.ts";
import { anonymousCaller } from "../../src/dialects/opal/server/submit.ts";
import { opalSettings } from "../../src/dialects/opal/settings.ts";
import { ENGINE, startOpal } from "./kit.ts";

const READS = ["/api/jobs", "/api/jobs/job_1", "/api/artifacts/job_1/attempt_1/prompt.txt", "/api/workers"];

describe("the token", () => {
  it("is needed for everything", async () => {
    const { call, form, store } = await startOpal();
    for (const path of READS) expect((await call("GET", path, { token: null })).status).toBe(401);
    const body = { prompt: "x" };
    expect((await call("POST", "/api/jobs", { body, token: null })).status).toBe(401);
    expect((await form({ prompt: "x" }, null)).status).toBe(401);
    expect((await store.find({})).jobs).toEqual([]);
  });

  it("needs the scope: read to read, submit to submit", async () => {
    const { call, token } = await startOpal();
    const [read, submit, work] = [
      await token({ scopes: ["read"] }),
      await token({ scopes: ["submit"] }),
      await token({ scopes: ["work"] }),
    ];
    const body = { prompt: "x", job_id: "job_1" };
    const post = async (given: string) => (await call("POST", "/api/jobs", { body, token: given })).status;
    expect([await post(read), await post(work), await post(submit)]).toEqual([403, 403, 201]);
    const get = async (given: string) => (await call("GET", "/api/jobs", { token: given })).status;
    expect([await get(read), await get(work), await get(submit)]).toEqual([200, 403, 403]);
  });

  it("is recorded in the job's history", async () => {
    const { call, token, store } = await startOpal();
    const ada = await token({ name: "ada", scopes: ["submit"] });
    await call("POST", "/api/jobs", { body: { prompt: "x" }, token: ada });
    const [job] = (await store.find({})).jobs;
    const [submitted] = (await store.events.page({ after: 0, limit: 1, jobId: job?.id as string })).events;
    expect(submitted?.data).toMatchObject({ by: "token:ada" });
  });
});

describe("opal.anonymous", () => {
  const options = { engine: ENGINE, anonymous: true, settings: opalSettings({}) };

  it("admits callers on this machine to these routes, in the default namespace only", async () => {
    const { call, form, store, token } = await startOpal({ anonymous: true });
    expect((await form({ prompt: "x", job_id: "job_1" }, null)).status).toBe(201);
    expect((await call("GET", "/api/jobs", { token: null })).body).toMatchObject({ job_1: { status: "queued" } });
    const [job] = (await store.find({})).jobs;
    expect(job?.namespace).toBe("default");
    const [submitted] = (await store.events.page({ after: 0, limit: 1, jobId: job?.id as string })).events;
    expect(submitted?.data).toMatchObject({ by: "opal:anonymous" });

    for (const path of ["/v1/jobs", "/v1/tokens", "/v1/version", "/v1/other", "/other", "/v1/jobs/%zz", "/apis"]) {
      expect([path, (await call("GET", path, { token: null })).status]).toEqual([path, 401]);
    }
    // A path without a route gets 404, not a request for a token.
    for (const at of [
      "GET /api",
      "GET /api/other",
      "GET /api/jobs/%zz",
      "DELETE /api/jobs/job_1",
      "PUT /api/workers",
    ]) {
      const [method = "", path = ""] = at.split(" ");
      const { status, body } = await call(method, path, { token: null });
      expect([at, status, Object.keys(body)]).toEqual([at, 404, ["detail"]]);
    }
    expect((await call("GET", "/api/other", { token: "wrong" })).status).toBe(401);
    expect((await call("GET", "/api/other", { token: null, headers: { "x-forwarded-for": "10.0.0.1" } })).status).toBe(
      401,
    );
    const elsewhere = { token: null, headers: { "perdure-namespace": "other" } };
    expect((await call("GET", "/api/jobs", elsewhere)).status).toBe(403);
    // A token is checked even so.
    expect((await call("GET", "/api/jobs", { token: "wrong" })).status).toBe(401);
    expect((await call("GET", "/api/jobs", { token: null, headers: { authorization: "Basic eDp4" } })).status).toBe(
      401,
    );
    const work = await token({ scopes: ["work"] });
    expect((await call("GET", "/api/jobs", { token: work })).status).toBe(403);
  });

  it("does not open it to pages of other origins, nor under other names", async () => {
    const { url, port } = await startOpal({ anonymous: true });
    // fetch cannot set these headers.
    const status = (headers: Record<string, string>) =>
      new Promise((resolve, reject) => {
        const sent = request({ port, host: "127.0.0.1", path: "/api/jobs", headers }, (reply) => {
          reply.resume();
          resolve(reply.statusCode);
        });
        sent.once("error", reject).end();
      });
    expect(await status({})).toBe(200);
    expect(await status({ origin: url })).toBe(200);
    expect(await status({ origin: "https://evil.example" })).toBe(403);
    expect(await status({ "sec-fetch-site": "cross-site" })).toBe(403);
    expect(await status({ host: "evil.example" })).toBe(421);
    // A proxy on this machine forwards requests from other machines.
    for (const name of ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"]) {
      expect([name, await status({ [name]: "203.0.113.9" })]).toEqual([name, 401]);
    }
  });

  it.each(["0.0.0.0", "::", "192.0.2.1", "jobs.example"])("is refused if the server listens on %s", (host) => {
    expect(() => opalRoutes(options, host)).toThrow(/^opal\.anonymous: .*without a token; it requires a loopback/);
    expect(() => opalRoutes({ ...options, anonymous: false }, host)).not.toThrow();
  });

  it.each(["127.0.0.1", "127.8.8.8", "::1", "localhost"])("is allowed if it listens on %s", (host) => {
    expect(() => opalRoutes(options, host)).not.toThrow();
  });

  it("is for callers whose address is this machine's", () => {
    const caller = (remoteAddress: string | undefined, localAddress = "127.0.0.1") =>
      anonymousCaller({ socket: { remoteAddress, localAddress } as never, headers: {} })?.name ?? null;
    expect(["127.0.0.1", "::1", "::ffff:127.0.0.1"].map((each) => caller(each))).toEqual(Array(3).fill("anonymous"));
    expect(["192.0.2.1", "::ffff:192.0.2.1", undefined].map((each) => caller(each))).toEqual(Array(3).fill(null));
    expect(caller("127.0.0.1", "192.0.2.1")).toBe(null);
  });
});
