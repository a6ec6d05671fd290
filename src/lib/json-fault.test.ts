import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IS_FULL, rounds } from "../../test/tier.ts";
import { jsonFault } from "./json-text.ts";

describe("what is wrong with a JSON text", () => {
  it.each([
    ["", "expected a value at the end of the text"],
    ['{"a":}', "expected a value at line 1, column 6"],
    ['{\n  "a": 1,\n}', "expected a name in quotes at line 3, column 1"],
    ["{a:1}", "expected a name in quotes or } at line 1, column 2"],
    ["[1 2]", "expected a comma or the end of the list or object at line 1, column 4"],
    ["[1,]", "expected a value at line 1, column 4"],
    ['{"a" 1}', "expected a colon at line 1, column 6"],
    ["{} {}", "expected nothing more at line 1, column 4"],
    ["01", "expected nothing more at line 1, column 2"],
    ['"a\nb"', "unterminated string, or a character that must be escaped, at line 1, column 3"],
    ['["\\x"]', "unterminated string, or a character that must be escaped, at line 1, column 3"],
    ["[1}", "expected a comma or the end of the list or object at line 1, column 3"],
  ])("is reported for %j", (text, message) => {
    expect(() => JSON.parse(text)).toThrow();
    expect(jsonFault(text)).toBe(message);
  });

  it("finds a position in every text that JSON.parse rejects", () => {
    const piece = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"',
      '"a"',
      "1",
      "-",
      "true",
      "nul",
      "\\u12",
      "\n",
      " ",
      "\u0001",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join("");
        try {
          JSON.parse(text);
        } catch {
          expect(jsonFault(text)).toMatch(/ at (line \d+, column \d+|the end of the text)$/);
        }
      }),
      { numRuns: rounds(3_000) },
    );
  });

  it("handles megabytes", () => {
    const size = IS_FULL ? 10_000_000 : 2_000_000;
    expect(jsonFault(`["${"a".repeat(size)}`)).toMatch(/^unterminated string/);
    expect(jsonFault(`["${"\\n".repeat(size / 2)}"`)).toMatch(/^expected a comma/);
  });
});
