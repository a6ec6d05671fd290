import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import type { ClaimedJob } from "../../src/core/worker-protocol.ts";
import { inFull } from "../tier.ts";
import { type StoreName, startServer, type TestServer } from "./kit.ts";
import { BROKE, DONE, type HandWorker, openWorker } from "./worker-kit.ts";

const LIMIT = 100_000;

describe.each(inFull<StoreName>(["sqlite", "postgres"]))("files over %s", (store) => {
  let server: TestServer;
  let worker: HandWorker;
  const call: TestServer["call"] = (...args) => server.call(...args);

  beforeAll(async () => {
    server = await startServer({ store, outputLimit: LIMIT });
    worker = await openWorker(server);
  });
  afterAll(() => server.close());

  async function start(request: object = {}): Promise<ClaimedJob> {
    await call("POST", "/v1/jobs", { body: { kind: "k", ...request } });
    return worker.take();
  }

  interface Put {
    readonly by?: HandWorker;
    readonly attempt?: number;
    readonly lease?: string;
    readonly offset?: number;
  }
  function put(job: ClaimedJob, name: string, bytes: string, options: Put = {}) {
    const { by = worker, attempt = job.attempt, lease = job.token, offset } = options;
    const headers = { "content-type": "application/octet-stream", [HEADER.lease]: lease };
    const query = offset === undefined ? "" : `?offset=${offset}`;
    const path = `/jobs/${job.id}/attempts/${attempt}/files/${name}${query}`;
    return by.call("PUT", path, { body: bytes, headers });
  }

  it("accepts files of a held attempt at offsets, also repeated, and returns them", async () => {
    const job = await start();
    expect((await put(job, "stdout.log", "hello ")).body).toEqual({ size: 6 });
    expect((await put(job, "stdout.log", "world", { offset: 6 })).body).toEqual({ size: 11 });
    expect((await put(job, "stdout.log", "world", { offset: 6 })).body).toEqual({ size: 11 });
    expect((await put(job, "stdout.log", "far", { offset: 99 })).body).toEqual({ size: 11 });
    expect((await put(job, "artifacts/a/gr%C3%BC%C3%9Fe%20%22x%22.html", "<b>")).status).toBe(200);
    expect((await put(job, "artifacts/empty", "")).body).toEqual({ size: 0 });
    const { attempts } = (await call("GET", `/v1/jobs/${job.id}/outputs`)).body;
    expect(attempts).toMatchObject([{ attempt: 1, more: 0 }]);
    expect(attempts[0].files.map((file: { name: string }) => file.name)).toEqual(['a/grüße "x".html', "empty"]);

    const file = (name: string) => call("GET", `/v1/jobs/${job.id}/attempts/1/files/${name}`);
    expect((await file("stdout.log?offset=6")).text).toBe("world");
    const page = await file("artifacts/a/gr%C3%BC%C3%9Fe%20%22x%22.html");
    expect(page.text).toBe("<b>");
    expect(page.headers.get("content-type")).toBe("application/octet-stream");
    expect(page.headers.get("x-content-type-options")).toBe("nosniff");
    expect(page.headers.get("content-disposition")).toBe(
      "attachment; filename=\"gr__e__x_.html\"; filename*=UTF-8''gr%C3%BC%C3%9Fe%20%22x%22.html",
    );
    for (const name of [
      "none",
      "artifacts/none",
      "artifacts/..%2Fstdout.log",
      "..%2F..%2Fjobs.db",
      "artifacts%2F%00",
    ]) {
      expect([name, (await file(name)).status]).toEqual([name, 404]);
    }
    await worker.report(job, DONE);
  });

  it("takes nothing under a lease that is not this session's, this attempt's, and in force", async () => {
    const other = await openWorker(server);
    const job = await start({ retry: 3 });
    const refused = async (options: Put, which = job) => {
      const answer = await put(which, "stdout.log", "x", options);
      return [answer.status, answer.body.code];
    };
    const LOST = [409, "lease_lost"];
    expect(await refused({ by: other })).toEqual(LOST);
    expect(await refused({ attempt: 2 })).toEqual(LOST);
    expect(await refused({ lease: "nonsense" })).toEqual(LOST);
    expect(await refused({ lease: job.token.replace(worker.session, other.session) })).toEqual(LOST);
    expect(await refused({ lease: job.token.replace(/1$/, "2"), attempt: 2 })).toEqual(LOST);
    expect(await refused({}, { ...job, id: "job_01m7gekg9zevv9a6xvvwmt1v8g" })).toEqual(LOST);
    await worker.report(job, BROKE);
    expect(await refused({})).toEqual(LOST);
    await call("POST", `/v1/jobs/${job.id}/retry`);
    const second = await worker.take();
    expect(second).toMatchObject({ id: job.id, attempt: 2 });
    expect(await refused({})).toEqual(LOST);
    expect((await put(second, "stdout.log", "x")).status).toBe(200);
    await worker.report(second, DONE);
    expect((await call("GET", `/v1/jobs/${job.id}/outputs`)).body.attempts).toMatchObject([{ attempt: 2 }]);
  });

  it("replaces a file as a whole with the last piece of an upload, and removes one, under the lease alone", async () => {
    const job = await start();
    const read = async () => (await call("GET", `/v1/jobs/${job.id}/attempts/1/files/artifacts/x`)).text;
    const send = (query: string, body: string) =>
      worker.call("PUT", `/jobs/${job.id}/attempts/1/files/artifacts/x?${query}`, {
        ...{ body, headers: { [HEADER.lease]: job.token, "content-type": "application/octet-stream" } },
      });
    const remove = (query = "", lease = job.token) =>
      worker.call("DELETE", `/jobs/${job.id}/attempts/1/files/artifacts/x${query}`, {
        headers: { [HEADER.lease]: lease },
      });
    expect((await send("offset=0", "old")).body).toEqual({ size: 3 });
    expect((await send("offset=0&upload=1", "new ")).body).toEqual({ size: 4 });
    expect(await read()).toBe("old");
    expect((await send("offset=4&upload=1&last=true", "one")).body).toEqual({ size: 7 });
    expect(await read()).toBe("new one");
    expect((await send("offset=0&upload=0", "x")).status).toBe(400);
    await send("offset=0&upload=2", "never ");
    expect((await remove("?upload=2")).status).toBe(204);
    expect((await send("offset=6&upload=2&last=true", "whole")).body).toEqual({ size: 0 });
    expect(await read()).toBe("new one");
    expect((await remove("", "nonsense")).status).toBe(409);
    expect((await remove()).status).toBe(204);
    expect((await remove()).status).toBe(204);
    expect((await call("GET", `/v1/jobs/${job.id}/attempts/1/files/artifacts/x`)).status).toBe(404);
    await worker.report(job, DONE);
    expect((await remove()).status).toBe(409);
  });

  it("refuses files over the limit of the attempt, and invalid names", async () => {
    const job = await start();
    expect((await put(job, "stdout.log", "x".repeat(LIMIT - 10))).status).toBe(200);
    const over = await put(job, "artifacts/more", "x".repeat(11));
    expect([over.status, over.body.code]).toEqual([413, "output_too_large"]);
    for (const name of ["other.log", "artifacts/..%2F..%2Fx", "artifacts/a%00", "%2Fetc%2Fpasswd"]) {
      expect([name, (await put(job, name, "x")).status]).toEqual([name, 400]);
    }
    const json = await worker.call("PUT", `/jobs/${job.id}/attempts/1/files/stdout.log`, {
      ...{ body: "{}", headers: { [HEADER.lease]: job.token } },
    });
    expect(json.status).toBe(415);
    await worker.report(job, DONE);
  });

  it("shows a worker the files of earlier attempts of a held job, and nothing else", async () => {
    const first = await start({ retry: 3 });
    await put(first, "artifacts/notes", "from the first");
    await worker.report(first, BROKE);
    await call("POST", `/v1/jobs/${first.id}/retry`);
    const second = await worker.take();
    await put(second, "artifacts/notes", "from the second");
    const earlier = (path: string, lease = second.token, id = first.id) =>
      worker.call("GET", `/jobs/${id}${path}`, { headers: { [HEADER.lease]: lease } });
    const listed = await earlier("/outputs");
    expect(listed.body.attempts).toMatchObject([{ attempt: 1, files: [{ name: "notes", size: 14 }] }]);
    expect((await earlier("/attempts/1/files/artifacts/notes?offset=9")).text).toBe("first");
    expect((await earlier("/attempts/2/files/artifacts/notes")).status).toBe(404);
    expect((await earlier("/outputs", first.token)).status).toBe(409);
    const foreign = await start();
    expect((await earlier("/attempts/1/files/artifacts/notes", foreign.token)).status).toBe(409);
    expect((await earlier("/outputs", second.token, foreign.id)).status).toBe(409);
    await worker.report(foreign, DONE);
    await worker.report(second, DONE);
    expect((await earlier("/outputs")).status).toBe(409);
  });

  it("keeps a worker's token from the files of other jobs", async () => {
    const job = await start();
    await put(job, "stdout.log", "secret");
    await worker.report(job, DONE);
    const token = await server.token({ scopes: ["work"] });
    for (const path of ["/logs", "/outputs", "/attempts/1/files/stdout.log", ""]) {
      expect((await call("GET", `/v1/jobs/${job.id}${path}`, { token })).status).toBe(403);
    }
  });

  it("gives out logs: of the latest run that wrote something, while it runs too", async () => {
    const job = await start({ retry: 3 });
    const logs = (query = "") => call("GET", `/v1/jobs/${job.id}/logs${query}`);
    const empty = await logs();
    expect([empty.status, empty.text, empty.headers.get(HEADER.attempt)]).toEqual([200, "", "1"]);
    await worker.call("POST", "/renew", { body: { held: [{ jobId: job.id, attempt: 1, log: "grüße\n" }] } });
    expect((await logs()).text).toBe("grüße\n");
    expect((await logs("?offset=6")).text).toBe("e\n");
    await put(job, "stderr.log", "oh");
    await worker.report(job, BROKE, { log: "more\n" });
    await call("POST", `/v1/jobs/${job.id}/retry`);
    const second = await worker.take();
    const latest = await logs();
    expect([latest.text, latest.headers.get(HEADER.attempt)]).toEqual(["grüße\nmore\n", "1"]);
    const stderr = await logs("?stream=stderr");
    expect([stderr.text, stderr.headers.get(HEADER.attempt)]).toEqual(["oh", "1"]);
    const own = await logs("?stream=stderr&attempt=2");
    expect([own.text, own.headers.get(HEADER.attempt)]).toEqual(["", "2"]);
    expect((await logs("?attempt=3")).status).toBe(404);
    expect((await logs("?stream=stdin")).status).toBe(400);
    await worker.report(second, DONE);
  });
});
