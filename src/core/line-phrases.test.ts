import { describe, expect, it } from "vitest";
import { findInLines } from "./line-phrases.ts";

const wanted = { has: ["status code 401", "expired token"], unless: ["timed out"] };
const found = (...lines: string[]) => findInLines(lines, wanted)?.part ?? null;

describe("phrases in lines", () => {
  it.each([
    "status code 401",
    '{"statusCode":401,"x":1}',
    "Request failed: Status-Code = 401.",
    "StatusCode.401",
    "\u001b[31mstatus code 401\u001b[0m",
  ])("are whole words in a row, whatever stands between them: %j", (line) => {
    expect(found("first", line, "last")).toBe("status code 401");
  });

  it.each([
    "status code 4011",
    "status code: 401ms",
    "substatus code 401",
    "status of code 401",
    "401 status code",
    "",
  ])("are no parts of words, and in no other order: %j", (line) => {
    expect(found(line)).toBeNull();
  });

  it("are read from the last line up: the first line that has one of either list decides", () => {
    expect(found("it timed out", "ExpiredToken", "bye")).toBe("expired token");
    expect(found("ExpiredToken", "it timed out", "bye")).toBeNull();
    expect(found("status code 401", "ExpiredToken: it timed out")).toBeNull();
    expect(found("status code 401", "ExpiredToken")).toBe("expired token");
  });

  it("come with the line in which they stand, cut around them where it is long", () => {
    const line = `${"x".repeat(2_000)} ExpiredToken ${"y".repeat(2_000)}`;
    const text = findInLines([line], wanted)?.line ?? "";
    expect(text).toMatch(/^…x{1,60} ExpiredToken y+…$/);
    expect(text.length).toBeLessThan(210);
  });
});
