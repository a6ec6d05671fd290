import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OPERATIONS } from "../../src/contract/operations.ts";
import { ROUTES, type RouteName } from "../../src/contract/routes.ts";
import { openApiPath } from "../../src/server/openapi.ts";
import { startServer, type TestServer } from "./kit.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const NAMES = Object.keys(ROUTES) as RouteName[];

describe("the OpenAPI document", () => {
  it("is valid OpenAPI 3.1", async () => {
    const { body, status } = await server.call("GET", "/openapi.json");
    expect(status).toBe(200);
    const validator = new Validator();
    const result = await validator.validate(body);
    expect(result.errors).toBeUndefined();
    expect([result.valid, validator.version]).toEqual([true, "3.1"]);
  });

  it("has every route, under its own name, with a summary and the reply of an error", async () => {
    const { body } = await server.call("GET", "/openapi.json");
    const found = Object.values(body.paths as Record<string, Record<string, { operationId: string }>>).flatMap((each) =>
      Object.values(each).map(({ operationId }) => operationId),
    );
    expect(found.toSorted()).toEqual(NAMES.toSorted());
    for (const name of NAMES) {
      const { method, path } = ROUTES[name];
      const operation = body.paths[openApiPath(path)][method.toLowerCase()];
      expect(operation.operationId).toBe(name);
      expect(operation.summary.length, name).toBeGreaterThan(5);
      expect(operation.tags).toEqual([OPERATIONS[name].tag]);
      expect(operation.responses.default).toEqual({ $ref: "#/components/responses/error" });
    }
  });

  it("names every parameter of a path", async () => {
    const { body } = await server.call("GET", "/openapi.json");
    for (const [path, operations] of Object.entries(
      body.paths as Record<string, Record<string, { parameters: { name: string; in: string }[] }>>,
    )) {
      const wanted = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).toSorted();
      for (const { parameters } of Object.values(operations)) {
        expect(
          parameters
            .filter((each) => each.in === "path")
            .map((each) => each.name)
            .toSorted(),
          path,
        ).toEqual(wanted);
      }
    }
  });
});

describe("the page for people", () => {
  it("names every route, runs nothing, and fetches nothing from elsewhere", async () => {
    const { text, headers, status } = await server.call("GET", "/docs");
    expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    for (const name of NAMES) expect(text).toContain(`id="${name}"`);
    expect(text).not.toMatch(/<script|\bon\w+="|https?:\/\/|<iframe|<img|<link/i);
    expect(headers.get("content-security-policy")).toMatch(/^default-src 'none'; style-src 'sha256-/);
  });

  it("accepts the token by Basic authentication, on these two pages only", async () => {
    const basic = { authorization: `Basic ${Buffer.from(`anybody:${server.admin}`).toString("base64")}` };
    for (const path of ["/docs", "/openapi.json"]) {
      const refused = await server.call("GET", path, { token: null });
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, 'Basic realm="Perdure"']);
      expect((await server.call("GET", path, { token: null, headers: basic })).status).toBe(200);
    }
    const elsewhere = await server.call("GET", "/v1/version", { token: null, headers: basic });
    expect([elsewhere.status, elsewhere.headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="Perdure"']);
  });
});
