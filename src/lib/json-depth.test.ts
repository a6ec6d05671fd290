import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonDepth } from "./json-text.ts";

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

describe("the depth of a JSON text", () => {
  it.each<[string, number]>([
    ["null", 0],
    ['"[[[{{{"', 0],
    ["[]", 1],
    ["{}", 1],
    ['{"a":[{"b":[]}]}', 4],
    ['[[],[[]],"]]]]"]', 3],
    ['{"[{\\"[{":"\\\\"}', 1],
    ['["\\\\",[["\\""]]]', 3],
  ])("of %s is %i", (text, depth) => {
    expect(jsonDepth(text)).toBe(depth);
  });

  it("is that of the value, whatever its strings contain", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        expect(jsonDepth(JSON.stringify(value))).toBe(depthOf(value));
        expect(jsonDepth(JSON.stringify(value, null, 2))).toBe(depthOf(value));
      }),
    );
  });

  it("is found without recursion, however deep it goes", () => {
    expect(jsonDepth("[".repeat(500_000))).toBe(500_000);
  });
});
