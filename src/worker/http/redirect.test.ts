import { describe, expect, it } from "vitest";
import { follow, isRedirect, type RedirectHop } from "./exchange.ts";

const HEADERS = [
  ["Authorization", "Bearer t"],
  ["COOKIE", "c=1"],
  ["Content-Type", "text/plain"],
  ["X-Trace", "1"],
] as const;

function hop(parts: Partial<Omit<RedirectHop, "url">> & { readonly url?: string } = {}): RedirectHop {
  const { url = "https://example.com/a/b?c", ...rest } = parts;
  return { url: new URL(url), method: "POST", headers: HEADERS, body: "body", ...rest };
}
const names = ({ headers }: RedirectHop) => headers.map(([name]) => name);

describe("a redirect", () => {
  it.each<[number, string | undefined, boolean]>([
    [301, "/", true],
    [302, "/", true],
    [303, "/", true],
    [307, "/", true],
    [308, "/", true],
    [300, "/", false],
    [304, "/", false],
    [305, "/", false],
    [200, "/", false],
    [302, undefined, false],
  ])("is %d with location %j: %j", (status, location, expected) => {
    expect(isRedirect(status, location)).toBe(expected);
  });

  it.each<[string, string, string, string | null]>([
    ["301", "POST", "GET", null],
    ["302", "POST", "GET", null],
    ["303", "POST", "GET", null],
    ["303", "PUT", "GET", null],
    ["301", "PUT", "PUT", "body"],
    ["302", "DELETE", "DELETE", "body"],
    ["307", "POST", "POST", "body"],
    ["308", "PATCH", "PATCH", "body"],
  ])("%s turns %s into %s with the body %j", (status, method, next, body) => {
    const followed = follow(hop({ method }), Number(status), "/next");
    expect(followed).toMatchObject({ method: next, body });
    expect(followed.url.href).toBe("https://example.com/next");
    expect(names(followed).includes("Content-Type")).toBe(body !== null);
  });

  it.each(["GET", "HEAD"])("leaves %s as it is", (method) => {
    for (const status of [301, 302, 303, 307, 308]) {
      expect(follow(hop({ method, body: null }), status, "x")).toMatchObject({ method, body: null });
    }
  });

  it.each<[string, string]>([
    ["c", "https://example.com/a/c"],
    ["?d", "https://example.com/a/b?d"],
    ["//other.test/x", "https://other.test/x"],
    ["https://other.test#f", "https://other.test/"],
  ])("to %j leads to %s", (location, expected) => expect(follow(hop(), 307, location).url.href).toBe(expected));

  it.each<[string, string[]]>([
    ["/same", ["Authorization", "COOKIE", "Content-Type", "X-Trace"]],
    ["https://example.com:443/same", ["Authorization", "COOKIE", "Content-Type", "X-Trace"]],
    ["https://example.com:8443/", ["Content-Type"]],
    ["https://www.example.com/", ["Content-Type"]],
    ["https://example.org/", ["Content-Type"]],
  ])("to %s is sent %j", (location, expected) => expect(names(follow(hop(), 307, location))).toEqual(expected));

  it("does not give secrets back on the way home", () => {
    const away = follow(hop(), 307, "https://example.org/");
    expect(names(follow(away, 307, "https://example.com/"))).toEqual(["Content-Type"]);
  });

  it("from http to https is followed, as another origin", () => {
    expect(names(follow(hop({ url: "http://example.com/" }), 301, "https://example.com/"))).toEqual([]);
  });

  it.each([
    ["http://example.com/", "only https is followed from https"],
    ["file:///etc/passwd", "file:"],
    ["gopher://example.com/", "gopher:"],
    ["javascript:alert(1)", "javascript:"],
    ["http://", "an invalid URL"],
    ["https://a b/", "an invalid URL"],
    ["https://u:p@example.com/", "user or password"],
  ])("to %s is refused", (location, why) => {
    const refused = expect.objectContaining({
      code: "bad_redirect",
      class: "logical",
      message: expect.stringContaining(why),
    });
    expect(() => follow(hop(), 302, location)).toThrow(refused);
  });

  it("that is refused does not show a query", () => {
    expect(() => follow(hop({ url: "https://example.com/?token=s3cret" }), 302, "http://x/?token=s3cret")).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("s3cret") }),
    );
  });
});
