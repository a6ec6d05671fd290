import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isOver, storable } from "./text.ts";

describe("storable text", () => {
  it("is the same when nothing is wrong with it", () => {
    for (const text of ["", "plain", "größe 図 🦊", "line\nfeed\ttab", "x".repeat(100)]) {
      expect(storable(text, 100)).toBe(text);
    }
  });

  it("has no NUL and no half of a surrogate pair", () => {
    expect(storable("a\0b\0", 10)).toBe("a\ufffdb\ufffd");
    expect(storable("\ud800 \udc00 \ud83e\udd8a", 10)).toBe("\ufffd \ufffd 🦊");
  });

  it("is cut to its limit with an ellipsis, and a pair is never split", () => {
    expect(storable("abcdef", 5)).toBe("abcd…");
    expect(storable("abcde", 5)).toBe("abcde");
    expect(storable("abc🦊def", 5)).toBe("abc…");
    expect(storable("ab🦊def", 5)).toBe("ab🦊…");
  });

  it("is always well-formed, without NUL and within its limit", () => {
    const unit = fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code));
    const text = fc
      .array(fc.oneof(unit, fc.constantFrom("\0", "\ud83e", "\udd8a", "🦊", "x")))
      .map((all) => all.join(""));
    fc.assert(
      fc.property(text, fc.integer({ min: 2, max: 40 }), (given, limit) => {
        const kept = storable(given, limit);
        expect(kept.isWellFormed()).toBe(true);
        expect(kept).not.toContain("\0");
        expect(kept.length).toBeLessThanOrEqual(limit);
        expect(storable(kept, limit)).toBe(kept);
      }),
    );
  });
});

describe("isOver", () => {
  it("counts bytes of UTF-8, not characters", () => {
    expect(isOver("xxx", 3)).toBe(false);
    expect(isOver("xxxx", 3)).toBe(true);
    expect(isOver("é", 1)).toBe(true);
    expect(isOver("é", 2)).toBe(false);
    expect(isOver("図", 2)).toBe(true);
    expect(isOver("図", 3)).toBe(false);
    expect(isOver("🦊", 3)).toBe(true);
    expect(isOver("🦊", 4)).toBe(false);
    expect(isOver("", 0)).toBe(false);
  });

  it("agrees with an encoder for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.nat(60), (text, limit) => {
        expect(isOver(text, limit)).toBe(Buffer.byteLength(text) > limit);
      }),
    );
  });
});
