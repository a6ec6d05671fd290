/** Rows of the security goals that are about what is sent: bombs, broken framing, poisoned names, SQL. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startServer, type TestServer } from "./kit.ts";
import { exchange, statusesOf } from "./raw.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const head = (method: string, path: string) =>
  `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.admin}\r\n`;
const JSON_HEAD = "content-type: application/json\r\n";

/** CPU time of this process, which includes the server, so that other processes do not matter. */
function cpuMs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

describe("S16: names that reach for prototypes", () => {
  const poisonous = fc.constantFrom("__proto__", "constructor", "prototype", "toString", "polluted", "a");
  const value = fc.letrec((tie) => ({
    any: fc.oneof({ maxDepth: 3 }, fc.constantFrom("1", "null", '"polluted"', "true"), tie("object"), tie("list")),
    object: fc
      .array(fc.tuple(poisonous, tie("any")), { maxLength: 3 })
      .map((pairs) => `{${pairs.map(([k, v]) => `"${k}":${v}`)}}`),
    list: fc.array(tie("any"), { maxLength: 2 }).map((items) => `[${items}]`),
  })).any as fc.Arbitrary<string>;

  it("are refused, or kept as the data they are", async () => {
    await fc.assert(
      fc.asyncProperty(value, poisonous, async (text, name) => {
        const replies = [
          await server.call("POST", "/v1/jobs", { body: `{"kind":"k","input":${text},"delay":"1d"}` }),
          await server.call("POST", "/v1/jobs", { body: `{"kind":"k","labels":${text},"retry":${text}}` }),
          await server.call("POST", "/v1/jobs", { body: text }),
          await server.call("POST", "/v1/tokens", { body: `{"${name}":${text}}` }),
          await server.call("GET", `/v1/jobs?${name}=polluted&${name}[polluted]=1`),
        ];
        expect(replies[0]?.status).toBe(201);
        for (const { status } of replies.slice(1)) expect([201, 400]).toContain(status);
        const job = await server.call("GET", `/v1/jobs/${replies[0]?.body.id}`);
        expect(job.text).toContain(`"payload":${text}`);
        expect(({} as Record<string, unknown>).polluted).toBeUndefined();
        expect(Object.keys(Object.prototype)).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });
});

describe("S18: bodies that grow", () => {
  it("are refused by their length before they are sent", async () => {
    const reply = await exchange(
      server.port,
      `${head("POST", "/v1/jobs")}${JSON_HEAD}content-length: 9000000000\r\n\r\n{`,
    );
    expect(statusesOf(reply)).toEqual([413]);
    expect(reply).toMatch(/connection: close/i);
    expect(reply).toContain('"code":"body_too_large"');
  });

  it("are refused when they exceed the limit without a Content-Length", async () => {
    const chunk = `100000\r\n${" ".repeat(0x100000)}\r\n`;
    const reply = await exchange(server.port, [
      `${head("POST", "/v1/jobs")}${JSON_HEAD}transfer-encoding: chunked\r\n\r\n`,
      ...Array<string>(11).fill(chunk),
    ]);
    expect(statusesOf(reply)).toEqual([413]);
  });

  it("are not unpacked", async () => {
    const packed = gzipSync(Buffer.alloc(5_000_000, " "));
    for (const encoding of ["gzip", "br", "deflate", "identity, gzip"]) {
      const response = await fetch(`${server.url}/v1/jobs`, {
        ...{ method: "POST", body: packed },
        headers: {
          authorization: `Bearer ${server.admin}`,
          "content-type": "application/json",
          "content-encoding": encoding,
        },
      });
      expect([encoding, response.status]).toEqual([encoding, 415]);
    }
  });

  it.each([
    ["a list a million deep", `{"kind":"k","input":${"[".repeat(1_000_000)}`, 400, /deeper than 68/],
    ["objects too deep", `{"kind":"k","input":${'{"a":'.repeat(70)}1${"}".repeat(71)}`, 400, /deeper than 68/],
    ["a number of a million digits", `{"kind":"k","priority":${"9".repeat(1_000_000)}}`, 400, /priority/],
    ["a name of a megabyte", `{"kind":"k","${"x".repeat(1_000_000)}":1}`, 400, /unknown field/],
    [
      "a hundred thousand unknown names",
      `{"kind":"k",${Array.from({ length: 100_000 }, (_, i) => `"k${i}":1`)}}`,
      400,
      /unknown field/,
    ],
    ["too many jobs", `{"jobs":[${Array(20_000).fill("{}")}]}`, 400, /jobs/],
    ["what is not UTF-8", "\u00ff", 400, /JSON/],
  ])("hold %s", async (_, body, status, message) => {
    const path = body.startsWith('{"jobs"') ? "/v1/jobs/batch" : "/v1/jobs";
    const before = process.cpuUsage();
    const reply = await server.call("POST", path, { body });
    expect([reply.status, reply.body.message]).toEqual([status, expect.stringMatching(message)]);
    expect(reply.text.length).toBeLessThan(3_000);
    expect(cpuMs(before)).toBeLessThan(5_000); // far above what it takes, far below what a bomb would
  });

  it("that are not UTF-8 are refused, not repaired", async () => {
    const bytes = Buffer.from([...Buffer.from('{"kind":"'), 0xc3, 0x28, ...Buffer.from('"}')]);
    const headers = { authorization: `Bearer ${server.admin}`, "content-type": "application/json" };
    const response = await fetch(`${server.url}/v1/jobs`, { method: "POST", body: bytes, headers });
    expect([response.status, await response.json()]).toMatchObject([400, { message: "the body is not UTF-8" }]);
  });
});

describe("bodies", () => {
  it("are reported with the position of the JSON error, or the invalid field", async () => {
    const at = await server.call("POST", "/v1/jobs", { body: '{\n "kind": "k",\n}' });
    expect(at.body).toEqual({
      code: "invalid_request",
      message: expect.stringMatching(/line 3, column 1/),
      path: null,
    });
    const id = "job_01m7gekg9zevv9a6xvvwmt1v8g";
    const jobs = [
      { id, chapter: 1 },
      { id, chapter: 0.5 },
    ];
    const deep = await server.call("POST", "/v1/jobs/wait", { body: { jobs } });
    expect(deep.body).toEqual({
      code: "invalid_request",
      message: "jobs[1].chapter: must be a whole number from 1 to 1000000000; got 0.5.",
      path: "jobs[1].chapter",
    });
    const near = await server.call("POST", "/v1/jobs", { body: { kind: "k", prioritty: 1 } });
    expect(near.body).toMatchObject({
      path: "prioritty",
      message: expect.stringContaining('Did you mean "priority"?'),
    });
    const query = await server.call("GET", "/v1/jobs?limt=1");
    expect(query.body).toMatchObject({ path: "limt", message: expect.stringContaining('Did you mean "limit"?') });
    const state = await server.call("GET", "/v1/jobs?state=queud");
    expect(state.body).toMatchObject({ path: "state[0]", message: expect.stringContaining('Did you mean "queued"?') });
  });

  it("are not coerced, but queries are converted to the types of their schema", async () => {
    expect((await server.call("POST", "/v1/jobs", { body: { kind: "k", priority: "1" } })).status).toBe(400);
    expect((await server.call("POST", "/v1/jobs", { body: { kind: "k", tags: "one" } })).status).toBe(400);
    const query = "?state=queued&limit=5&deadLetter=false&submittedAfter=1.5&kind=a&kind=b";
    expect((await server.call("GET", `/v1/jobs${query}`)).status).toBe(200);
    for (const wrong of ["limit=x", "limit=1e3", "limit=", "deadLetter=1", "limit=1&limit=2", "limit=99999"]) {
      expect([wrong, (await server.call("GET", `/v1/jobs?${wrong}`)).status]).toEqual([wrong, 400]);
    }
  });

  it("may be missing or empty without required fields, and must not have unknown fields", async () => {
    for (const [path, body] of [
      ["/v1/prune", undefined],
      ["/v1/prune", ""],
      ["/v1/prune", {}],
      ["/v1/jobs/redrive", undefined],
    ] as const) {
      expect([path, (await server.call("POST", path, { body })).status]).toEqual([path, 200]);
    }
    // A type alone is not a body.
    expect((await server.call("POST", "/v1/prune", { headers: { "content-type": "text/plain" } })).status).toBe(200);
    const extra = await server.call("POST", "/v1/prune", { body: { all: true } });
    expect(extra.body).toMatchObject({ code: "invalid_request", path: "all" });
    expect((await server.call("POST", "/v1/prune?all=true")).status).toBe(400);
    expect((await server.call("POST", "/v1/jobs", { body: "" })).status).toBe(400);
  });
});

describe("routes beside those of the contract", () => {
  it("pass the same gates, and get bodies of the types they name as streams", async () => {
    const other = await startServer({
      routes: () => [
        {
          ...{
            name: "form",
            method: "POST",
            path: "/other/form",
            access: { scope: "submit" },
            status: 200,
            schema: {},
          },
          ...{ accepts: ["multipart/form-data"], share: () => "caller" },
          handle: async ({ body }) => ({ text: await text(body as Readable) }),
        },
      ],
    });
    onTestFinished(other.close);
    const form = { body: "--x--", headers: { "content-type": "multipart/form-data; boundary=x" } };
    expect((await other.call("POST", "/other/form", form)).body).toEqual({ text: "--x--" });
    expect((await other.call("POST", "/other/form", { body: "{}" })).status).toBe(415);
    expect((await other.call("POST", "/v1/jobs", form)).status).toBe(415);
    expect((await other.call("POST", "/other/form", { ...form, token: null })).status).toBe(401);
    const token = await other.token({ scopes: ["read"] });
    expect((await other.call("POST", "/other/form", { ...form, token })).status).toBe(403);
  });
});

describe("S19: long texts", () => {
  it("in a search are refused, or answered quickly", async () => {
    const long = "a".repeat(14_000);
    for (const query of [`tag=${long}`, `key=${long}!`, `kind=${long}`, `cursor=${long}`, `state=${long}`]) {
      const before = process.cpuUsage();
      const { status } = await server.call("GET", `/v1/jobs?${query}`);
      expect([query.slice(0, 6), status]).toEqual([query.slice(0, 6), 400]);
      expect(cpuMs(before)).toBeLessThan(2_000);
    }
    expect((await server.call("GET", `/v1/jobs?tag=${"a".repeat(100_000)}`)).status).toBe(431);
  });
});

describe("S28: broken framing", () => {
  const CASES: readonly [string, string, number][] = [
    [
      "both lengths",
      "POST /v1/prune HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
      400,
    ],
    [
      "two lengths",
      "POST /v1/prune HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcd",
      400,
    ],
    ["an invalid length", "POST /v1/prune HTTP/1.1\r\nhost: localhost\r\ncontent-length: +4\r\n\r\nabcd", 400],
    ["two hosts", "GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n", 400],
    ["no host", "GET /healthz HTTP/1.1\r\n\r\n", 400],
    ["a bad chunk", "POST /v1/prune HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400],
    [
      "an unknown transfer encoding",
      "POST /v1/prune HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
      400,
    ],
    ["a folded header", "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: a\r\n b\r\n\r\n", 400],
    ["a space before the colon", "GET /healthz HTTP/1.1\r\nhost : localhost\r\n\r\n", 400],
    ["a bare line feed", "GET /healthz HTTP/1.1\nhost: localhost\n\n", 400],
    ["a NUL", "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: \0\r\n\r\n", 400],
    ["bytes beyond ASCII in the path", "GET /\u00e9 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400],
    ["another protocol", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400],
    ["headers of 100 kB", `GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ${"a".repeat(100_000)}\r\n\r\n`, 431],
  ];

  it.each(CASES)("%s: is refused, and what follows on the connection is not read", async (_, bytes, status) => {
    const reply = await exchange(server.port, `${bytes}GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n`);
    // Without a token nothing is read of a body that is broken: the head alone is answered, before or with the refusal.
    const statuses = statusesOf(reply).filter((each) => each !== 401);
    expect(statuses).toEqual([status]);
    expect(reply).toMatch(/connection: close/i);
  });

  it("cannot put headers into replies", async () => {
    const reply = await server.call("GET", "/v1/jobs/a%0d%0ax-forged:%201");
    expect([reply.status, reply.headers.get("x-forged")]).toEqual([404, null]);
  });
});

describe.each(["sqlite", "postgres"] as const)("S29: SQL (%s)", (store) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer({ store });
  });
  afterAll(() => server.close());

  const WORDS = [
    "'",
    "''; drop table job; --",
    '" or 1=1 --',
    "1) union select * from access_token --",
    "%",
    "\\",
    "\u0000",
    "$1",
    "?",
  ];

  it.each(WORDS)("is text everywhere: %j", async (word) => {
    const it = encodeURIComponent(word);
    const replies = [
      await server.call("GET", `/v1/jobs/${it}`),
      await server.call("GET", `/v1/jobs?kind=${it}&queue=${it}&tag=${it}&key=${it}`),
      await server.call("GET", `/v1/jobs?cursor=${it}`),
      await server.call("GET", `/v1/jobs?order=${it}`),
      await server.call("POST", `/v1/queues/${it}/pause`),
      await server.call("POST", `/v1/workers/${it}/drain`),
      await server.call("GET", `/v1/workers?after=${it}`),
      await server.call("DELETE", `/v1/tokens/${it}`),
      await server.call("GET", "/v1/queues", {
        headers: { "perdure-namespace": word.includes("\u0000") ? "x" : word },
      }),
      await server.call("POST", "/v1/jobs", {
        body: { kind: word, queue: word, tags: [word], key: word, labels: { [word]: word }, delay: "1d" },
      }),
    ];
    const named = { name: word, scopes: ["read"], namespace: word };
    replies.push(await server.call("POST", "/v1/tokens", { body: named }));
    for (const { status, text } of replies) expect(status, text).toBeLessThan(500);
    expect((await server.store.tokens.list()).length).toBeGreaterThan(0);
  });

  it("is not in a cursor: a forged one is refused", async () => {
    for (const cursor of ["x", "eyJhIjoxfQ", Buffer.from("1|2|3").toString("base64url")]) {
      const reply = await server.call("GET", `/v1/jobs?cursor=${cursor}`);
      expect([reply.status, reply.body.code]).toEqual([400, "invalid_cursor"]);
    }
  });
});

describe("S33: data", () => {
  it("is never made code: the server has no way to do so", () => {
    const root = fileURLToPath(new URL("../../src/", import.meta.url));
    const isServers = (name: string) => /^(dialects\/[^/]+\/)?server\/.*\.ts$/.test(name);
    const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(isServers);
    const found = files.filter((name) =>
      /\beval\(|new Function|node:vm|node:v8|deserialize|child_process|shell:/.test(
        readFileSync(join(root, name), "utf8"),
      ),
    );
    expect(files.length).toBeGreaterThan(20);
    expect(found).toEqual([]);
  });
});
