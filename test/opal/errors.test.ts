/** Errors in OPAL's form, which is FastAPI's: `{"detail": "Job not found"}`.A client that reads `detail` as text can show any error,
 *  whichever part of the server it comes from. Paths are sent unchanged; an HTTP client would normalize them. */
import { request } from "node:http";
import { describe, expect, it } from "vitest";
import { PerdureError } from "../../src/core/errors.ts";
import { exchange } from "../server/raw.ts";
import { type OpalServer, startOpal } from "./kit.ts";

const DENIED = { detail: "Access denied" };

interface Raw {
  readonly status: number;
  readonly code: string | null;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: unknown;
}

function raw({ port, admin }: OpalServer, path: string, headers: Record<string, string> = {}, method = "GET") {
  const all = { authorization: `Bearer ${admin}`, ...headers };
  return new Promise<Raw>((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, method, path, headers: all }, async (reply) => {
      let text = "";
      for await (const piece of reply) text += String(piece);
      const code = (reply.headers["perdure-error-code"] as string | undefined) ?? null;
      const isJson = String(reply.headers["content-type"]).startsWith("application/json");
      resolve({ status: reply.statusCode ?? 0, code, headers: reply.headers, body: isJson ? JSON.parse(text) : text });
    });
    sent.once("error", reject).end();
  });
}

/** A job with the output `out.txt`, and a secret file beside its folder. */
async function withArtifact(): Promise<OpalServer> {
  const server = await startOpal({
    engine: ["sh", "-c", "echo hi > artifacts/out.txt; echo log; echo 1 > 'artifacts/a..b'"],
  });
  await server.call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_1" } });
  await server.call("POST", "/api/jobs", { body: { prompt: "y", job_id: "job_2" } });
  await server.work();
  for (const id of ["job_1", "job_2"]) await server.ended(id);
  return server;
}

describe('an error is "{"detail": …}" and nothing else, its code in a header', () => {
  it('404 "Job not found" and "Artifact not found"', async () => {
    const server = await withArtifact();
    const missing = { status: 404, code: "job_not_found", body: { detail: "Job not found" } };
    for (const path of [
      ...["/api/jobs/job_9", "/api/jobs/job_9?include_attempts=true", "/api/jobs/..%2fjob_1", "/api/jobs/job_1%00"],
      ...["/api/artifacts/job_9/attempt_1/out.txt", "/api/artifacts/"],
    ]) {
      expect({ path, ...(await raw(server, path)) }).toMatchObject({ path, ...missing });
    }
    const base = "/api/artifacts/job_1";
    for (const path of [
      ...[`${base}/attempt_1/none`, `${base}/attempt_2/out.txt`, `${base}/out.txt`, `${base}/attempt_01/out.txt`],
      ...[
        base,
        `${base}/attempt_1`,
        `${base}/attempt_1/`,
        `${base}/attempt_1/stdout.log`,
        `${base}/attempt_1/./out.txt`,
      ],
    ]) {
      const artifact = { status: 404, code: "not_found", body: { detail: "Artifact not found" } };
      expect({ path, ...(await raw(server, path)) }).toMatchObject({ path, ...artifact });
    }
    for (const name of ["out.txt", "a..b"]) {
      expect(await raw(server, `${base}/attempt_1/${name}`)).toMatchObject({ status: 200 });
    }
  });

  it('403 "Access denied" for a path that leaves the job\'s folder', async () => {
    const server = await withArtifact();
    const base = "/api/artifacts/job_1/attempt_1";
    for (const path of [
      ...[`${base}/../../../secret`, `${base}/../attempt_1/out.txt`, `${base}/..`, "/api/artifacts/job_1/.."],
      ...["/api/artifacts/job_1/../job_2/attempt_1/out.txt", "/api/artifacts/../../etc/passwd", "/api/artifacts/.."],
      ...[`${base}/%2e%2e%2f%2e%2e%2fsecret`, `${base}/%2E%2E/secret`, `${base}/..%2fstdout.log`, `${base}/.%2e/x`],
      ...["/api/artifacts/job_1%2f..%2fjob_2%2fattempt_1%2fout.txt", "/api/artifacts/%2e%2e/job_1/attempt_1/out.txt"],
      ...[`${base}/%252e%252e%252fsecret`, `${base}/%25252e%25252e%25252fsecret`, `${base}/..%252fsecret`],
      ...[
        `${base}//etc/passwd`,
        `${base}/%2fetc%2fpasswd`,
        "/api/artifacts/job_1//etc/passwd",
        "/api/artifacts//etc/passwd",
      ],
      ...[`${base}/..\\..\\secret`, `${base}/..%5c..%5csecret`, `${base}/%5cetc`, `${base}/C:%5cWindows%5cwin.ini`],
      ...[
        `${base}/out.txt%00`,
        `${base}/out.txt%00.png`,
        `${base}/out.txt%2500`,
        "/api/artifacts/job_1%00/attempt_1/out.txt",
      ],
      "/api/artifacts/job_9/attempt_1/../../job_1/attempt_1/out.txt", // the same through a job that does not exist
    ]) {
      expect({ path, ...(await raw(server, path)) }).toMatchObject({
        path,
        status: 403,
        code: "forbidden",
        body: DENIED,
      });
    }
    const bytes = `GET ${base}/../../../secret HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n`;
    expect(await exchange(server.port, `${bytes}authorization: Bearer ${server.admin}\r\n\r\n`)).toContain(
      JSON.stringify(DENIED),
    );
    // The token is checked before the path.
    expect(await raw(server, `${base}/../x`, { authorization: "" })).toMatchObject({ status: 401 });
  });

  it("a link of each output that works; others are left out, and kept", async () => {
    const linked = ["a..b", "a%2fb", "50%25 off", "%2e", "plain.txt", "é"];
    const others = ["%2e%2e", "%252e%252e", "%2fetc", "a\\b", "a\nb", "%00"];
    const program = `for (const name of ${JSON.stringify([...linked, ...others])}) require("fs").writeFileSync("artifacts/" + name, name)`;
    const server = await startOpal({ engine: [process.execPath, "-e", program] });
    await server.call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_1" } });
    await server.work();
    await server.ended("job_1");
    const { outputs } = (await server.call("GET", "/api/jobs/job_1")).body as {
      outputs: { name: string; href: string }[];
    };
    expect(outputs.map(({ name }) => name).sort()).toEqual(linked.toSorted());
    for (const { name, href } of outputs) expect(await raw(server, href)).toMatchObject({ status: 200, body: name });
    const [job] = (await server.store.find({})).jobs;
    const kept = JSON.parse(job?.result ?? "") as { outputs: { name: string }[] };
    expect(kept.outputs.map(({ name }) => name).sort()).toEqual([...linked, ...others].sort());
  });

  it("whatever it is, and wherever in the server it arises", async () => {
    const server = await startOpal();
    const { token, call } = server;
    const work = `Bearer ${await token({ scopes: ["work"] })}`;
    const job = { body: { prompt: "x", job_id: "job_1" } };
    await call("POST", "/api/jobs", job);
    const post = async (options: object) => {
      const { status, headers, body } = await call("POST", "/api/jobs", options);
      return { status, code: headers.get("perdure-error-code"), body };
    };
    const text = { "content-type": "text/plain" };
    const rows: [wanted: readonly [number, string], got: Omit<Raw, "headers">][] = [
      [[401, "unauthorized"], await raw(server, "/api/jobs", { authorization: "" })],
      [[401, "unauthorized"], await raw(server, "/api/jobs", { authorization: "Bearer wrong" })],
      [[403, "forbidden"], await raw(server, "/api/jobs", { authorization: work })],
      [[403, "forbidden"], await raw(server, "/api/workers", { origin: "https://evil.example" })],
      [[421, "misdirected"], await raw(server, "/api/jobs", { host: "evil.example" })],
      [[404, "not_found"], await raw(server, "/api/nodes")],
      [[404, "not_found"], await raw(server, "/api")],
      [[404, "not_found"], await raw(server, "/api/jobs/%zz")],
      [[404, "not_found"], await raw(server, "/api/jobs/job_1", {}, "DELETE")],
      [[400, "invalid_config"], await raw(server, "/api/jobs?include_attempts=maybe")],
      [[400, "invalid_config"], await post({ body: { promt: "x" } })],
      [[400, "invalid_request"], await post({ body: "{" })],
      [[409, "key_conflict"], await post({ body: { prompt: "y", job_id: "job_1" } })],
      [[413, "body_too_large"], await post({ body: { prompt: "x".repeat(1_100_000) } })],
      [[413, "body_too_large"], await post({ body: { prompt: "x".repeat(11_000_000) } })],
      [[415, "unsupported_media_type"], await post({ body: "x", headers: text })],
    ];
    for (const [[status, code], got] of rows) {
      expect(got).toMatchObject({ status, code });
      expect(got.body).toEqual({ detail: expect.stringMatching(/^\S.*\S$/) });
    }
    // A differently encoded path is matched too.
    expect(await raw(server, "/%61pi/jobs/job_9")).toMatchObject({ status: 404, body: { detail: "Job not found" } });
  });

  it("also if the store is away, busy or broken, with Retry-After if a retry may help", async () => {
    let broken: Error | null = null;
    const server = await startOpal({
      wrapStore: (store) =>
        new Proxy(store, {
          get: (target, name, receiver) => {
            if (name === "find" && broken !== null) return () => Promise.reject(broken);
            return Reflect.get(target, name, receiver) as unknown;
          },
        }),
    });
    for (const [error, status, code] of [
      [new PerdureError("store_unavailable", "no connection to db.internal"), 503, "store_unavailable"],
      [new PerdureError("overloaded", "busy"), 503, "overloaded"],
      [new PerdureError("too_many_requests", "slow down"), 429, "too_many_requests"],
      [new Error("secret"), 500, "internal"],
    ] as const) {
      broken = error;
      const got = await raw(server, "/api/jobs/job_1");
      expect(got).toMatchObject({ status, code, body: { detail: expect.not.stringMatching(/secret|db\.internal/) } });
      expect(Object.keys(got.body as object)).toEqual(["detail"]);
      expect(got.headers["retry-after"] !== undefined).toBe(status !== 500);
    }
  });

  it("also if the server admits no one for now", async () => {
    const server = await startOpal({ admission: { maxReadLagMs: -1 } });
    const got = await raw(server, "/api/jobs");
    expect(got).toMatchObject({ status: 503, code: "overloaded", headers: { "retry-after": expect.any(String) } });
    expect(got.body).toEqual({ detail: expect.any(String) });
  });

  it("of the other API keep theirs", async () => {
    const server = await startOpal();
    for (const path of ["/v1/jobs/job_9", "/v1/nothing", "/apis/jobs", "/nothing"]) {
      const { code, body } = await raw(server, path);
      expect([path, code, Object.keys(body as object)]).toEqual([path, null, ["code", "message", "path"]]);
    }
    expect((await raw(server, "/v1/jobs", { host: "evil.example" })).body).toMatchObject({ code: "misdirected" });
  });
});
