import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../test/tier.ts";
import { sliceOf, slicesOf } from "./json-text.ts";

const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
const name = fc.oneof(
  fc.constantFrom("input", "jobs", "a", "", "__proto__"),
  fc.string({ unit: "binary", maxLength: 6 }),
);
/** A string as JSON, each character escaped or not. */
const quoted = (text: string, escaped: boolean) =>
  escaped
    ? `"${Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")}"`
    : JSON.stringify(text);
const value = fc
  .tuple(fc.jsonValue({ maxDepth: 4 }), fc.boolean(), fc.constantFrom('"}{][,:\\"\\\\"', "1.50", "-0", "1e400", null))
  .map(([any, pretty, odd]) => odd ?? JSON.stringify(any, null, pretty ? 2 : undefined));
const members = fc.array(fc.tuple(name, fc.boolean(), value, space, space), { maxLength: 6 });

function objectText(parts: [string, boolean, string, string, string][], lead: string): string {
  const list = parts.map(([key, escaped, text, a, b]) => `${a}${quoted(key, escaped)}${b}:${a}${text}${b}`);
  return `${lead}{${lead}${list.join(",")}}${lead}`;
}

describe("slices of JSON text", () => {
  it("are what JSON.parse finds, byte for byte", () => {
    fc.assert(
      fc.property(members, space, (parts, lead) => {
        const text = objectText(parts, lead);
        const parsed = JSON.parse(text) as Record<string, unknown>;
        for (const [key] of parts) {
          const last = parts.findLast(([each]) => each === key)?.[2];
          expect(sliceOf(text, key)).toBe(last);
          expect(JSON.parse(sliceOf(text, key) as string)).toEqual(parsed[key]);
        }
        expect(sliceOf(text, "not there at all")).toBeNull();
      }),
      { numRuns: rounds(500) },
    );
  });

  it("of a list are its elements in order", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(value, space, space)), space, members, (items, lead, rest) => {
        const list = `[${lead}${items.map(([text, a, b]) => `${a}${text}${b}`).join(",")}]`;
        const others = rest.filter(([key]) => key !== "jobs");
        const text = objectText([...others, ["jobs", true, list, lead, lead]], lead);
        expect(slicesOf(text, "jobs")).toEqual(items.map(([each]) => each));
      }),
      { numRuns: rounds(300) },
    );
  });

  it("are null without an object, the member, or a list", () => {
    expect(sliceOf("[1]", "a")).toBeNull();
    expect(sliceOf(' "{}" ', "a")).toBeNull();
    expect(sliceOf("{}", "a")).toBeNull();
    expect(slicesOf('{"a":{"b":[1]}}', "a")).toBeNull();
    expect(slicesOf('{"a":"[1]"}', "a")).toBeNull();
    expect(slicesOf('{"a":[]}', "a")).toEqual([]);
  });

  it("decodes a name with escapes, and uses the last of two equal names", () => {
    expect(sliceOf('{"\\u0069nput": 1, "input" : 2.0 }', "input")).toBe("2.0");
    expect(sliceOf('{"input": 1, "\\u0069nput":[ 2 ]}', "input")).toBe("[ 2 ]");
  });
});
