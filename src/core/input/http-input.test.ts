import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { ConfigError } from "../errors.ts";
import { checkHttpInput, type HttpInput, shownUrl } from "./http-input.ts";

const URL_ONLY = { url: "https://example.com/" };

function refusal(value: unknown): ConfigError {
  try {
    checkHttpInput(value, "input");
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("an http input", () => {
  it("needs an address only", () => {
    expect(checkHttpInput({ url: "HTTPS://Example.com:443/a b?c#d" }, "input")).toEqual({
      url: "https://example.com/a%20b?c",
      method: "GET",
      headers: [],
      body: null,
      expect: [[200, 299]],
      timeoutMs: 30_000,
      maxBytes: 1_048_576,
      redirects: 3,
    });
  });

  it("may have every field", () => {
    const input: HttpInput = {
      url: "http://example.com",
      method: "post",
      headers: { "X-Trace": "1", Authorization: "Bearer t" },
      body: "text",
      expect: [200, 404, "5xx"],
      timeout: "2s",
      maxBytes: 10,
      redirects: 0,
    };
    const { headers, expect: ranges, ...rest } = checkHttpInput(input, "input");
    expect(rest).toEqual({
      ...{ url: "http://example.com/", method: "POST", body: "text" },
      ...{ timeoutMs: 2_000, maxBytes: 10, redirects: 0 },
    });
    expect(Object.fromEntries(headers)).toEqual(input.headers);
    expect(ranges.flat()).toEqual([200, 200, 404, 404, 500, 599]);
    expect(checkHttpInput({ ...URL_ONLY, expect: 204 }, "input").expect).toEqual([[204, 204]]);
    expect(checkHttpInput({ ...URL_ONLY, expect: "3xx" }, "input").expect).toEqual([[300, 399]]);
  });

  it.each<[unknown, string]>([
    [{ a: 1 }, '{"a":1}'],
    [[1], "[1]"],
    [null, "null"],
    [0, "0"],
    [false, "false"],
  ])("sends the body %j as JSON, with its content type", (body, text) => {
    const checked = checkHttpInput({ ...URL_ONLY, method: "PUT", body }, "input");
    expect(checked.body).toBe(text);
    expect(checked.headers).toEqual([["content-type", "application/json"]]);
  });

  it("leaves a content type that was given, whatever its case, and gives none to text", () => {
    const headers = { "Content-TYPE": "application/x+json" };
    expect(checkHttpInput({ ...URL_ONLY, method: "PUT", body: {}, headers }, "input").headers).toHaveLength(1);
    expect(checkHttpInput({ ...URL_ONLY, method: "PUT", body: "{}" }, "input").headers).toEqual([]);
  });

  it("shows the nearest name of a misspelt field", () => {
    expect(refusal({ ...URL_ONLY, methd: "GET" })).toMatchObject({ path: "input.methd", nearest: "method" });
    expect(refusal({ ...URL_ONLY, header: {} })).toMatchObject({ path: "input.header", nearest: "headers" });
  });

  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  it.each<[string, unknown]>([
    ["input", "https://example.com/"],
    ["input", null],
    ["input", []],
    ["input.url", {}],
    ["input.url", { url: 7 }],
    ["input.url", { url: "" }],
    ["input.url", { url: "example.com" }],
    ["input.url", { url: "/path" }],
    ["input.url", { url: "http://" }],
    ["input.url", { url: "http://a b/" }],
    ["input.url", { url: "file:///etc/passwd" }],
    ["input.url", { url: "gopher://example.com/" }],
    ["input.url", { url: "ftp://example.com/" }],
    ["input.url", { url: "data:text/plain,x" }],
    ["input.url", { url: "unix:/var/run/docker.sock" }],
    ["input.url", { url: `https://example.com/${"x".repeat(8_192)}` }],
    ["input.method", { ...URL_ONLY, method: "GET / HTTP/1.1\r\nX: 1\r\n\r\nGET" }],
    ["input.method", { ...URL_ONLY, method: "" }],
    ["input.method", { ...URL_ONLY, method: "connect" }],
    ["input.method", { ...URL_ONLY, method: "TRACE" }],
    ["input.method", { ...URL_ONLY, method: null }],
    ["input.body", { ...URL_ONLY, body: "" }],
    ["input.body", { ...URL_ONLY, method: "HEAD", body: {} }],
    ["input.body", { ...URL_ONLY, method: "POST", body: cycle }],
    ["input.body", { ...URL_ONLY, method: "POST", body: 1n }],
    ["input.body", { ...URL_ONLY, method: "POST", body: () => 1 }],
    ["input.expect", { ...URL_ONLY, expect: 99 }],
    ["input.expect", { ...URL_ONLY, expect: "1xx" }],
    ["input.expect", { ...URL_ONLY, expect: [] }],
    ["input.expect[1]", { ...URL_ONLY, expect: [200, 600] }],
    ["input.expect[0]", { ...URL_ONLY, expect: ["2x"] }],
    ["input.timeout", { ...URL_ONLY, timeout: 0 }],
    ["input.timeout", { ...URL_ONLY, timeout: "2h" }],
    ["input.timeout", { ...URL_ONLY, timeout: "soon" }],
    ["input.maxBytes", { ...URL_ONLY, maxBytes: 1_048_577 }],
    ["input.maxBytes", { ...URL_ONLY, maxBytes: 1.5 }],
    ["input.redirects", { ...URL_ONLY, redirects: 4 }],
    ["input.redirects", { ...URL_ONLY, redirects: -1 }],
  ])("is refused at %s: %o", (path, value) => {
    expect(refusal(value)).toMatchObject({ name: "ConfigError", path });
  });
});

describe("headers", () => {
  it.each<[string, unknown]>([
    ["X\r\nHost", "a"],
    ["X:", "a"],
    ["X Y", "a"],
    ["", "a"],
    ["é", "a"],
    ["X", "a\r\nY: b"],
    ["X", "a\nb"],
    ["X", "a\rb"],
    ["X", "a\0b"],
    ["X", "a\u010ab"], // its low byte alone is a line feed
    ["X", 7],
    ["X", null],
    ["X", ["a"]],
    ["X", "x".repeat(8_193)],
    ["Host", "internal"],
    ["Content-Length", "0"],
    ["Transfer-Encoding", "chunked"],
    ["CONNECTION", "keep-alive"],
    ["Upgrade", "websocket"],
    ["Expect", "100-continue"],
  ])("%j with %j are refused", (name, value) => {
    expect(refusal({ ...URL_ONLY, headers: { [name]: value } }).path).toContain("input.headers");
  });

  it("are refused twice under one name, and when they are very many", () => {
    expect(refusal({ ...URL_ONLY, headers: { Cookie: "a", cookie: "b" } }).path).toBe("input.headers.cookie");
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`x-${i}`, ""]));
    expect(refusal({ ...URL_ONLY, headers: many }).path).toBe("input.headers");
  });

  it("may have a name that means something to JavaScript", () => {
    const value: unknown = JSON.parse('{"url":"http://a/","headers":{"__proto__":"x","constructor":"y"}}');
    const headers = [
      ["__proto__", "x"],
      ["constructor", "y"],
    ];
    expect(checkHttpInput(value, "input").headers).toEqual(headers);
  });
});

describe("messages", () => {
  it.each([
    { url: "https://user:s3cret@example.com/" },
    { url: "https://s3cret@example.com/" },
    { url: "https://user:p/s3cret@example.com" },
    { url: "example.com/?token=s3cret" },
    { url: "http://a b/?token=s3cret" },
    { url: "ftp://example.com/s3cret" },
    "https://example.com/?token=s3cret",
    { ...URL_ONLY, headers: { authorization: "s3cret\r\n" } },
    { ...URL_ONLY, headers: { authorization: ["s3cret"] } },
  ])("never show what may be a secret: %j", (value) => {
    const error = refusal(value);
    expect(JSON.stringify([error.message, error.given])).not.toContain("s3cret");
  });

  it("name the alternative to a password in the address", () => {
    expect(refusal({ url: "https://user:pw@example.com/" }).message).toContain('the header "authorization"');
  });

  it("show addresses without what may be a secret", () => {
    expect(shownUrl("https://example.com:8443/a/b?token=s#f")).toBe("https://example.com:8443/a/b");
  });
});

describe("whatever is given", () => {
  const field = fc.oneof(
    { withCrossShrink: true },
    fc.anything({ withBigInt: true, withDate: true, withMap: true, withTypedArray: true, withSparseArray: true }),
    fc.anything({ withNullPrototype: true }),
    fc.webUrl({ withQueryParameters: true, withFragments: true }),
    fc.dictionary(fc.string(), fc.string()),
    fc.jsonValue(),
  );
  const input = fc.record(
    {
      url: fc.oneof(fc.webUrl(), field),
      method: fc.oneof(fc.constantFrom("GET", "POST"), field),
      ...{ headers: field, body: field, expect: field, timeout: field, maxBytes: field, redirects: field },
    },
    { requiredKeys: [] },
  );

  it("it is checked or refused with a ConfigError, and no prototype is changed", () => {
    const before = Object.getOwnPropertyNames(Object.prototype).join();
    const check = (value: unknown) => {
      try {
        const checked = checkHttpInput(value, "input");
        expect(["http:", "https:"]).toContain(new URL(checked.url).protocol);
        for (const [name, text] of checked.headers) expect(`${name}${text}`).not.toMatch(/[\r\n\0]/);
        expect(checked.body === null || typeof checked.body === "string").toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError);
      }
      expect(Object.getOwnPropertyNames(Object.prototype).join()).toBe(before);
      expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    };
    fc.assert(fc.property(input, check), { numRuns: rounds(1_000) });
    fc.assert(fc.property(field, check), { numRuns: rounds(500) });
    check(JSON.parse('{"__proto__":{"polluted":1},"url":"http://a/"}'));
    check(JSON.parse('{"url":"http://a/","headers":{"__proto__":{"polluted":"1"}}}'));
    check(JSON.parse('{"url":"http://a/","method":"POST","body":{"__proto__":{"polluted":1}}}'));
  });
});
