/** The security goals about the caller, its network, and the information in replies. */
import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ROUTES, type Route } from "../../src/contract/routes.ts";
import { hashOf } from "../../src/server/tokens.ts";
import { startServer, type TestServer } from "./kit.ts";
import { exchange, statusesOf } from "./raw.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const samplePath = ({ path }: Route) => path.replaceAll(/:[a-zA-Z]+/g, "1").replace("*", "stdout.log");
const WRONG = `pdr_0000zzzz_${"w".repeat(43)}`;
const HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};

describe("S01: nothing without a token", () => {
  it("returns the same 401 on every route, byte for byte", async () => {
    const bodies = new Set<string>();
    for (const route of Object.values(ROUTES)) {
      const reply = await server.call(route.method, samplePath(route), { token: null });
      expect([route.path, reply.status]).toEqual([route.path, 401]);
      bodies.add(reply.text);
    }
    bodies.add((await server.call("GET", "/nowhere", { token: null })).text);
    expect([...bodies]).toEqual([
      '{"code":"unauthorized","message":"send a valid token as `Authorization: Bearer TOKEN`","path":null}',
    ]);
  });

  it("answers liveness and readiness probes, and returns nothing else", async () => {
    for (const path of ["/healthz", "/readyz"]) {
      const reply = await server.call("GET", path, { token: null });
      expect([reply.status, reply.text]).toEqual([200, '{"ok":true}']);
    }
  });

  it("sends its security headers and a request id with every reply, and no version", async () => {
    for (const path of ["/healthz", "/v1/version", "/nowhere", "/v1/jobs/%zz", "/v1/queues?x=1"]) {
      const { headers } = await server.call("GET", path);
      for (const [name, value] of Object.entries(HEADERS))
        expect([path, name, headers.get(name)]).toEqual([path, name, value]);
      expect(headers.get("content-security-policy")).toBe("default-src 'none'; frame-ancestors 'none'");
      expect(headers.get("perdure-request-id")).toMatch(/^req_[0-9a-f]{24}$/);
      expect([headers.get("server"), headers.get("x-powered-by")]).toEqual([null, null]);
    }
  });
});

describe("S02: other machines", () => {
  it.each(["0.0.0.0", "::", "192.0.2.1", "example.com"])(
    "are not listened to on %s without a decision",
    async (host) => {
      const starting = startServer({ host });
      await expect(starting).rejects.toMatchObject({
        code: "invalid_config",
        message: expect.stringMatching(/--tls-cert\/--tls-key.*--insecure/),
      });
    },
  );

  it("are listened to with --insecure", async () => {
    const open = await startServer({ host: "0.0.0.0", insecure: true });
    onTestFinished(open.close);
    expect((await fetch(`http://127.0.0.1:${open.port}/healthz`)).status).toBe(200);
  });
});

describe("S05: what is another namespace's", () => {
  it("is answered as if it were not there", async () => {
    const [mine, theirs] = [await server.token({ namespace: "mine" }), await server.token({ namespace: "theirs" })];
    const submitted = await server.call("POST", "/v1/jobs", { token: theirs, body: { kind: "k" } });
    expect(submitted.status).toBe(201);
    const missing = "job_01m7gekg9zevv9a6xvvwmt1v8g";
    for (const [method, end] of [
      ["GET", ""],
      ["POST", "/cancel"],
      ["GET", "/explain"],
      ["GET", "/events"],
      ["GET", "/outputs"],
    ]) {
      const ofTheirs = await server.call(method as string, `/v1/jobs/${submitted.body.id}${end}`, { token: mine });
      const ofNobody = await server.call(method as string, `/v1/jobs/${missing}${end}`, { token: mine });
      expect([end, ofTheirs.status]).toEqual([end, 404]);
      expect(ofTheirs.text.replaceAll(submitted.body.id, "ID")).toBe(ofNobody.text.replaceAll(missing, "ID"));
    }
    // Neither by name nor by depth: the parent of a submitted job is checked first.
    const [ofTheirs, ofNobody] = await Promise.all(
      [submitted.body.id as string, missing].map((parent) =>
        server.call("POST", "/v1/jobs", { token: mine, body: { kind: "k", parent } }),
      ),
    );
    expect(ofTheirs?.status).toBe(409);
    expect(ofTheirs?.text.replaceAll(submitted.body.id, "ID")).toBe(ofNobody?.text.replaceAll(missing, "ID"));
    const session = await server.engine.openSession({
      ...{ namespace: "theirs", name: "w", host: "h", pid: 1, queues: null, labels: {}, slots: 1, kinds: ["k"] },
    });
    const drained = await server.call("POST", `/v1/workers/${session}/drain`, { token: mine });
    expect([drained.status, drained.body.code]).toEqual([404, "not_found"]);
    expect((await server.call("GET", "/v1/workers", { token: mine })).body.workers).toEqual([]);
    expect((await server.call("GET", "/v1/workers", { token: theirs })).body.workers).toMatchObject([
      { id: session, health: null },
    ]);
    expect((await server.call("POST", `/v1/workers/${session}/drain`, { token: theirs })).status).toBe(204);
  });

  it("cannot be named by a header, nor made a token for, nor have its tokens seen or revoked", async () => {
    const mine = await server.token({ namespace: "mine" });
    const theirs = await server.token({ namespace: "theirs" });
    const named = await server.call("GET", "/v1/queues", { token: mine, headers: { "perdure-namespace": "theirs" } });
    expect([named.status, named.body.code]).toEqual([403, "forbidden"]);
    for (const namespace of ["theirs", null]) {
      const body = { name: "x", scopes: ["read"], namespace };
      expect((await server.call("POST", "/v1/tokens", { token: mine, body })).status).toBe(403);
    }
    const own = await server.call("POST", "/v1/tokens", { token: mine, body: { name: "x", scopes: ["read"] } });
    expect(own.body.info.namespace).toBe("mine");
    const { tokens } = (await server.call("GET", "/v1/tokens", { token: mine })).body;
    expect(new Set(tokens.map((each: { namespace: string }) => each.namespace))).toEqual(new Set(["mine"]));
    const revoked = await server.call("DELETE", `/v1/tokens/${theirs.split("_")[1]}`, { token: mine });
    expect([revoked.status, revoked.body.code]).toEqual([404, "not_found"]);
    expect((await server.call("GET", "/v1/identity", { token: theirs })).status).toBe(200);
  });
});

describe("S06: guessing tokens", () => {
  it("is slowed down after ten wrong ones a minute, and never holds up a right one", async () => {
    const slow = await startServer();
    onTestFinished(slow.close);
    const statuses: number[] = [];
    for (let i = 0; i < 13; i++) {
      statuses.push((await slow.call("GET", "/v1/version", { token: i % 2 === 0 ? WRONG : "nonsense" })).status);
      expect((await slow.call("GET", "/v1/version")).status).toBe(200);
    }
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429, 429]);
    const refused = await slow.call("GET", "/v1/version", { token: WRONG });
    expect([refused.body.code, refused.headers.get("retry-after")]).toEqual(["too_many_requests", "1"]);
    expect((await slow.call("GET", "/v1/version", { token: null })).status).toBe(401);
  });

  it("reveals nothing: an existing id with another secret gets the same answer as any", async () => {
    const near = `${server.admin.slice(0, -1)}${server.admin.endsWith("A") ? "B" : "A"}`;
    const [first, second] = [
      await server.call("GET", "/v1/version", { token: near }),
      await server.call("GET", "/v1/version", { token: null }),
    ];
    expect([first.status, first.text]).toEqual([401, second.text]);
  });

  it("finds only hashes where tokens are kept", async () => {
    const [stored] = await server.store.tokens.list();
    expect(stored?.hash).toBe(hashOf(server.admin));
    expect(JSON.stringify(await server.store.tokens.list())).not.toContain(server.admin.split("_").slice(2).join("_"));
  });
});

describe("S07: a token", () => {
  it("is found in no log, no reply but the one that made it, and no file", async () => {
    const canary = await server.token({ name: "canary", scopes: ["submit"] });
    const secret = canary.slice(13);
    const replies = [
      await server.call("GET", `/v1/version?token=${canary}`, { token: null }),
      await server.call("GET", `/v1/queues?token=${canary}`),
      await server.call("GET", `/v1/jobs/${canary}`),
      await server.call("GET", `/${canary}`),
      await server.call("POST", "/v1/jobs", { token: canary, body: { kind: 1, [canary]: canary } }),
      await server.call("POST", "/v1/jobs", { body: { kind: "k", priority: canary } }),
      await server.call("POST", "/v1/tokens", { body: { name: "n", scopes: [canary] } }),
      await server.call("POST", "/v1/jobs", { token: canary, body: `{"${canary}` }),
      await server.call("GET", "/v1/tokens"),
      await server.call("GET", "/v1/identity", { token: canary }),
      await server.call("GET", "/v1/queues", { token: canary, headers: { "perdure-namespace": canary } }),
      await server.call("GET", "/v1/version", { token: `${canary}x` }),
    ];
    for (const { text, headers } of replies) {
      expect(text).not.toContain(secret);
      expect(JSON.stringify([...headers])).not.toContain(secret);
    }
    expect(replies[0]?.status).toBe(401);
    expect(server.logged.join("")).not.toContain(secret);
    for (const file of [server.storeUrl, `${server.storeUrl}-wal`].filter(existsSync)) {
      expect(readFileSync(file).includes(secret), file).toBe(false);
    }
  });
});

describe("S08, S10: pages of other origins", () => {
  const FOREIGN: readonly Record<string, string>[] = [
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: "http://localhost" }, // another port is another origin
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
  ];

  it.each(FOREIGN)("may call nothing, whatever they send along: %j", async (headers) => {
    for (const [method, path, type] of [
      ["GET", "/v1/queues", ""],
      ["POST", "/v1/prune", "text/plain"],
      ["GET", "/v1/events", ""],
      ["GET", "/healthz", ""],
    ]) {
      const sent = { ...headers, connection: "keep-alive", accept: "text/event-stream" };
      const text = [
        `${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\nauthorization: Bearer ${server.admin}`,
        ...Object.entries({ ...sent, ...(type === "" ? {} : { "content-type": type }) }).map(
          ([name, value]) => `${name}: ${value}`,
        ),
      ].join("\r\n");
      const reply = await exchange(server.port, `${text}\r\n\r\n`);
      expect([path, statusesOf(reply)]).toEqual([path, [403]]);
      expect(reply).not.toMatch(/access-control-/i);
    }
  });

  it("may not upgrade a connection either", async () => {
    const upgrade = `GET /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n`;
    const reply = await exchange(server.port, `${upgrade}origin: https://evil.example\r\n\r\n`);
    expect(statusesOf(reply)).toEqual([403]);
  });

  it("are not what our own page is", async () => {
    const own = { origin: server.url, "sec-fetch-site": "same-origin" };
    const head = `GET /v1/version HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\nauthorization: Bearer ${server.admin}\r\nconnection: close\r\n`;
    const lines = Object.entries(own).map(([name, value]) => `${name}: ${value}\r\n`);
    expect(statusesOf(await exchange(server.port, `${head}${lines.join("")}\r\n`))).toEqual([200]);
  });

  it("can send forms, and they are not read", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
      const reply = await server.call("POST", "/v1/jobs", { body: '{"kind":"k"}', headers: { "content-type": type } });
      expect([reply.status, reply.body.code]).toEqual([415, "unsupported_media_type"]);
    }
  });

  it("get no answer to a preflight", async () => {
    const reply = await server.call("OPTIONS", "/v1/jobs");
    expect(reply.status).toBe(404);
    expect([...reply.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

describe("S09: names that are not ours", () => {
  const ask = async (host: string) =>
    statusesOf(await exchange(server.port, `GET /healthz HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`));

  it.each([
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.nip.io",
    "127.0.0.2",
    "2130706433",
    "0x7f.1",
    "[::1]",
    "localhost.",
    "a@localhost",
    "localhost:1:2",
    "",
  ])("are answered 421: %s", async (host) => expect(await ask(host)).toEqual([421]));

  it.each(["127.0.0.1", "localhost", "LOCALHOST:1234", "127.0.0.1:80"])("are not %s", async (host) =>
    expect(await ask(host)).toEqual([200]),
  );

  it("can be allowed", async () => {
    const known = await startServer({ allowHosts: ["jobs.example"] });
    onTestFinished(known.close);
    const asked = (host: string) =>
      exchange(known.port, `GET /healthz HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
    expect(statusesOf(await asked("Jobs.example:443"))).toEqual([200]);
    expect(statusesOf(await asked("x.jobs.example"))).toEqual([421]);
  });
});

describe("S27: log lines", () => {
  it("are one record each, whatever names hold", async () => {
    const name = 'x\n{"level":"error","message":"forged"}\r\u001b[2J\u2028\u202e';
    const token = await server.token({ name });
    const before = server.logged.length;
    expect((await server.call("GET", "/v1/version", { token })).status).toBe(200);
    // Others may be listed: it is the one with this name.
    const ours = () => server.logged.slice(before).filter((line) => line.includes("forged"));
    await expect.poll(ours).toHaveLength(1);
    const [line = ""] = ours();
    expect(line.slice(0, -1)).toMatch(/^[\u0020-\u007e]+$/);
    expect(JSON.parse(line)).toMatchObject({ level: "debug", message: "answered", who: name });
  });
});

describe("S31: tokens that are over", () => {
  it("are refused at once where they were revoked, and when their time has come", async () => {
    const made = await server.call("POST", "/v1/tokens", {
      body: { name: "short", scopes: ["read"], expiresIn: "1d" },
    });
    expect(made.status).toBe(201);
    expect(made.body.info.hash).toBeUndefined();
    const { token, info } = made.body;
    expect(info.expiresAt - info.createdAt).toBe(86_400_000);
    expect((await server.call("GET", "/v1/queues", { token })).status).toBe(200);
    expect((await server.call("DELETE", `/v1/tokens/${info.id}`)).status).toBe(204);
    expect((await server.call("GET", "/v1/queues", { token })).status).toBe(401);
    expect((await server.call("DELETE", `/v1/tokens/${info.id}`)).status).toBe(204); // repeated, it changes nothing
    const over = await server.token({ expiresInMs: 0 });
    expect((await server.call("GET", "/v1/queues", { token: over })).status).toBe(401);
  });
});

describe("S36: errors", () => {
  it("of the server have a code and the request id, and the log has the details", async () => {
    const broken = await startServer({
      wrapStore: (store) =>
        Object.assign(Object.create(store), {
          queues: { counts: () => Promise.reject(new Error("select secret from /var/lib/perdure at db.internal")) },
        }),
    });
    onTestFinished(broken.close);
    const { status, body, headers } = await broken.call("GET", "/v1/queues");
    const id = headers.get("perdure-request-id");
    expect(status).toBe(500);
    expect(body).toEqual({ code: "internal", message: expect.stringContaining(`(request ${id})`), path: null });
    expect(JSON.stringify(body)).not.toMatch(/select|secret|\/var|db\.internal|\.ts/);
    const record = broken.logged.map((line) => JSON.parse(line)).find(({ level }) => level === "error");
    expect(record).toMatchObject({
      requestId: id,
      code: "internal",
      error: expect.stringMatching(/select secret.*\n.*security\.test/),
    });
  });
});
