import { describe, expect, it } from "vitest";
import { findInLines, phraseIndex } from "./line-phrases.ts";

const wanted = phraseIndex({
  has: ["status code 401", "expired token", "fetch failed 401"],
  hasLast: ["error 401"],
  unless: ["timed out", "fetch failed"],
  ignored: ["timed out after", "x status code"],
});
const found = (...lines: string[]) => findInLines(lines, wanted)?.part ?? null;

describe("phrases in lines", () => {
  it.each([
    "status code 401",
    '{"statusCode":401,"x":1}',
    "Request failed: Status-Code = 401.",
    "StatusCode.401",
    "\u001b[31mstatus code 401\u001b[0m",
  ])("are whole words in a row, whatever is between them: %j", (line) => {
    expect(found("first", line, "last")).toBe("status code 401");
  });

  it.each([
    "status code 4011",
    "status code: 401ms",
    "substatus code 401",
    "status of code 401",
    "401 status code",
    "",
  ])("are not parts of words, and not in another order: %j", (line) => {
    expect(found(line)).toBeNull();
  });

  it("are read from the last line up: the first line that has one of either list decides", () => {
    expect(found("it timed out", "ExpiredToken", "bye")).toBe("expired token");
    expect(found("ExpiredToken", "it timed out", "bye")).toBeNull();
    expect(found("status code 401", "ExpiredToken: it timed out")).toBeNull();
    expect(found("status code 401", "ExpiredToken")).toBe("expired token");
  });

  it("count in the longest form, at the end of a clause where they are short, and not where they are ignored", () => {
    expect(found("fetch failed: 401")).toBe("fetch failed 401");
    expect(found("fetch failed 401, fetch failed")).toBeNull();
    expect(found("Error: 401")).toBe("error 401");
    expect(found("'error 401' (no body)")).toBe("error 401");
    expect(found("error 401 files")).toBeNull();
    expect(found("ExpiredToken: timed out after")).toBe("expired token");
    expect(found("ExpiredToken: x-status-code: 401, timed out")).toBeNull();
    expect(found("x-status-code: 401")).toBeNull();
  });

  it("come with their line, cut around them where it is long", () => {
    const line = `${"x".repeat(2_000)} ExpiredToken ${"y".repeat(2_000)}`;
    const text = findInLines([line], wanted)?.line ?? "";
    expect(text).toMatch(/^…x{1,60} ExpiredToken y+…$/);
    expect(text.length).toBeLessThan(210);
  });

  it("are shown at their place where letters get longer in lower case, and without half characters", () => {
    const line = (before: string) => findInLines([`${before} ExpiredToken ${"🦊".repeat(300)}`], wanted)?.line ?? "";
    expect(line("İ".repeat(300))).toMatch(/^…İ{59} ExpiredToken 🦊+…$/u);
    for (const before of ["🦊".repeat(300), `x${"🦊".repeat(300)}`, `${"🦊".repeat(300)}x`]) {
      expect(line(before)).toMatch(/^…🦊+x? ExpiredToken 🦊+…$/u);
      expect(line(before)).not.toContain("\ufffd");
    }
  });

  it("cost nothing in empty lines", () => {
    const lines = Array.from({ length: 2_048 }, () => "");
    let reads = 0;
    const counted = new Map(wanted);
    counted.get = (word) => {
      reads += 1;
      return wanted.get(word);
    };
    expect(findInLines(["ExpiredToken", ...lines], counted)?.part).toBe("expired token");
    expect(reads).toBe(2);
  });
});
