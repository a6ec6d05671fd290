/** Access control of every route, with every way of writing its path, and every scope. */
import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROUTES, type Route, type RouteName } from "../../src/contract/routes.ts";
import { SCOPES } from "../../src/core/access.ts";
import { Dice } from "../dice.ts";
import { IS_FULL, SEED } from "../tier.ts";
import { startServer, type TestServer } from "./kit.ts";
import { type Ask, exchange, inParallel, statusesOf, statusOf } from "./raw.ts";

let server: TestServer;
const agent = new Agent({ keepAlive: true, maxSockets: 32 });
beforeAll(async () => {
  server = await startServer();
});
afterAll(async () => {
  agent.destroy();
  await server.close();
});

const NAMES = Object.keys(ROUTES) as RouteName[];
const METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];

/** A path of the route, with something in place of its parameters. */
function samplePath(path: string): string {
  return path.replaceAll(/:[a-zA-Z]+/g, "1").replace("*", "stdout.log");
}

const encodedFirst = (path: string) => path.replace(/[a-z]/, (c) => `%${c.charCodeAt(0).toString(16)}`);

/** Ways to write a path that some router, proxy or filter once took for another one. */
const MUTATIONS: readonly ((path: string) => string)[] = [
  (p) => p,
  ...[
    "/",
    "//",
    "/.",
    "/..",
    "/./",
    "/../",
    ".",
    "..",
    ";",
    ";a=b",
    "/;a=b",
    "?",
    "?a=b",
    "#",
    "%20",
    "%09",
    "%00",
  ].map((end) => (p: string) => p + end),
  ...[
    "%23",
    "%3f",
    "%2f",
    "%2F",
    "%5c",
    "\\",
    "~",
    ".json",
    ".css",
    "/configs",
    "/healthz",
    "/../healthz",
    "%0d%0aa:b",
  ].map((end) => (p: string) => p + end),
  ...[
    "/..%2fhealthz",
    "/%2e%2e/healthz",
    "/..;/healthz",
    "?/healthz",
    "#/healthz",
    ";/healthz",
    "%zz",
    "%",
    "%e0%a4%a",
  ].map((end) => (p: string) => p + end),
  ...[
    "/",
    "/.",
    "/./",
    "/..",
    "/healthz/..",
    "/healthz/%2e%2e",
    "/healthz/..;",
    "/healthz",
    "/docs/..",
    "/%2e",
    "/;",
  ].map((start) => (p: string) => start + p),
  ...["/v1/version/..", "/openapi.json/..", "//localhost", "/http://localhost", "/x/../", "/%2f", "/\\"].map(
    (start) => (p: string) => start + p,
  ),
  (p) => p.toUpperCase(),
  (p) => p.replace("/v1", "/V1"),
  (p) => p.replace("/v1/", "/v1//"),
  (p) => p.replace("/v1/", "/v1/./"),
  (p) => p.replace("/v1/", "/v1/x/../"),
  (p) => p.replace("/v1/", "/v1/%2e%2e/v1/"),
  (p) => p.replace("/v1/", "/v1%2f"),
  (p) => p.replace("/v1/", "/v1;x/"),
  (p) => p.replaceAll("/", "//"),
  (p) => p.replaceAll("/", "\\").replace("\\", "/"),
  encodedFirst,
  (p) => encodedFirst(p).replaceAll("%", "%25"),
  (p) => p.replace("v1", "%ef%bd%961"),
  (p) => `${p}?token=1&access_token=1&authorization=Bearer`,
];

const dice = new Dice(SEED);

/** All in the second tier; in the first one in eight, others for each route. */
function mutations(): typeof MUTATIONS {
  return IS_FULL ? MUTATIONS : MUTATIONS.filter((_, i) => i === 0 || dice.chance(1 / 8));
}

const TRICKS: Readonly<Record<string, string>> = {
  "x-original-url": "/healthz",
  "x-rewrite-url": "/healthz",
  "x-http-method-override": "GET",
  "x-forwarded-for": "127.0.0.1",
  "x-forwarded-prefix": "/healthz",
};

describe("S03: what a path is decided on is the route that was matched", () => {
  it("answers 401 without a token, however the path is written, by whatever method", async () => {
    const paths = [...new Set(NAMES.map((name) => samplePath(ROUTES[name].path)))];
    const asks: Ask[] = paths.flatMap((path) =>
      mutations().flatMap((mutate, i) => {
        // The method of the route and one other in turn: all of them for each would take minutes.
        const own = NAMES.filter((name) => samplePath(ROUTES[name].path) === path).map((name) => ROUTES[name].method);
        const methods = new Set<string>([...own, METHODS[i % METHODS.length] as string]);
        return [...methods].map((method) => ({ method, path: mutate(path), headers: i % 2 === 0 ? {} : TRICKS }));
      }),
    );
    const passed: string[] = [];
    await inParallel(asks, 32, async (ask) => {
      const status = await statusOf(server.port, agent, ask);
      if (status !== 401) passed.push(`${ask.method} ${ask.path}: ${status}`);
    });
    expect(asks.length).toBeGreaterThan(IS_FULL ? 3_000 : 300);
    expect(passed).toEqual([]);
  });

  it("answers 4xx to a token without the scope, however the path is written", async () => {
    const token = await server.token({ scopes: ["read"] });
    const headers = { authorization: `Bearer ${token}`, ...TRICKS };
    const closed = NAMES.filter((name) => !["read", null].includes(ROUTES[name].scope));
    // GET on the path of a POST may be another, open route, which is not tested here.
    const asks = closed.flatMap((name) =>
      mutations().map((mutate) => ({
        method: ROUTES[name].method,
        path: mutate(samplePath(ROUTES[name].path)),
        headers,
      })),
    );
    const passed: string[] = [];
    await inParallel(asks, 32, async (ask) => {
      const status = await statusOf(server.port, agent, ask);
      if (status !== 403 && status !== 404) passed.push(`${ask.method} ${ask.path}: ${status}`);
    });
    expect(passed).toEqual([]);
  });

  it("answers 404 for an unknown address only with a token", async () => {
    for (const path of ["/", "/v2/jobs", "/v1/queues/", "/admin", "/%zz", "/metrics"]) {
      expect([path, (await server.call("GET", path, { token: null })).status]).toEqual([path, 401]);
      const known = await server.call("GET", path);
      expect([path, known.status, known.body.code]).toEqual([path, 404, "not_found"]);
    }
  });

  it("refuses targets that name a host of their own", async () => {
    for (const target of ["http://localhost/healthz", "http://evil.example/v1/version", "*", "localhost:80"]) {
      const reply = await exchange(
        server.port,
        `OPTIONS ${target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
      );
      expect([target, statusesOf(reply)]).toEqual([target, [400]]);
    }
  });
});

describe("S04: a token may do what its scopes permit", () => {
  it("on every route, with every scope", async () => {
    const tokens = await Promise.all(
      SCOPES.map(async (scope) => [scope, await server.token({ scopes: [scope] })] as const),
    );
    const asks = NAMES.flatMap((name) => tokens.map(([scope, token]) => ({ name, scope, token })));
    const wrong: string[] = [];
    await inParallel(asks, 8, async ({ name, scope, token }) => {
      const { method, path, scope: needed }: Route = ROUTES[name];
      const reply = await server.call(method, samplePath(path), { token });
      const open = needed === null || scope === needed || scope === "admin";
      const refused = reply.status === 403 && /requires a token with the scope/.test(reply.text);
      if (open === refused || reply.status === 401 || reply.status >= 500)
        wrong.push(`${name} by ${scope}: ${reply.status} ${reply.text}`);
    });
    expect(wrong).toEqual([]);
  });

  it("permits a token with several scopes the calls of all, and one without scopes only open calls", async () => {
    const both = await server.token({ scopes: ["read", "submit"] });
    expect((await server.call("GET", "/v1/queues", { token: both })).status).toBe(200);
    expect((await server.call("GET", "/v1/tokens", { token: both })).status).toBe(403);
    const none = await server.token({ scopes: [] });
    expect((await server.call("GET", "/v1/queues", { token: none })).status).toBe(403);
    expect((await server.call("GET", "/v1/identity", { token: none })).status).toBe(200);
  });
});
