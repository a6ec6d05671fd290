import { describe, expect, it } from "vitest";
import { failure, failureText, lineBeside } from "./failure.ts";

describe("a failure as text", () => {
  it("is its message, and the line that decided where there is one", () => {
    expect(failureText({ message: "exit code 1: bye" })).toBe("exit code 1: bye");
    expect(failureText({ message: "exit code 1: bye", line: "HTTP 401" })).toBe("exit code 1: bye (HTTP 401)");
  });

  it("has no line that its message, name or code has", () => {
    const cause = failure({ kind: "error", message: "no key\nGET /v1", name: "AuthenticationError", code: "E401" });
    for (const line of ["no key", "…key", "NO K…", "AuthenticationError: no key", "GET /v1 E401", null]) {
      expect(lineBeside(cause, line)).toBeUndefined();
    }
    expect(lineBeside(cause, "HTTP 401")).toBe("HTTP 401");
  });
});
