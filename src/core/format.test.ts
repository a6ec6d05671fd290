import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { counted, quoted, showAt, showSpan, showText } from "./format.ts";

describe("showText", () => {
  it("leaves ordinary text of any language as it is", () => {
    expect(showText("exit code 7: Größe 漢字 👍 C:\\temp")).toBe("exit code 7: Größe 漢字 👍 C:\\temp");
  });

  it.each([
    ["\u001b[31mred", "\\x1b[31mred"],
    ["a\nb\r\tc", "a\\nb\\r\\tc"],
    ["nul \u0000 del \u007f c1 \u009b", "nul \\x00 del \\x7f c1 \\x9b"],
    ["line\u2028paragraph\u2029", "line\\u{2028}paragraph\\u{2029}"],
    ["evil\u202etxt.exe\ufeff", "evil\\u{202e}txt.exe\\u{feff}"],
    ["half \ud83d", "half \\u{d83d}"],
  ])("escapes what would not be seen as it is: %j", (given, shown) => {
    expect(showText(given)).toBe(shown);
  });

  it("cuts to 300 characters, and never in the middle of an escape or a pair", () => {
    expect(showText("x".repeat(300))).toBe("x".repeat(300));
    expect(showText("x".repeat(301))).toBe(`${"x".repeat(300)}…`);
    expect(showText("ab\u001b", 4)).toBe("ab…");
    expect(showText("abc👍", 4)).toBe("abc…");
  });

  it("gives one short, well-formed line for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 600 }), (text) => {
        const shown = showText(text);
        expect(shown).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]/u);
        expect(shown.length).toBeLessThanOrEqual(301);
      }),
    );
  });
});

describe("the others", () => {
  it("quotes", () => {
    expect(quoted("a\nb")).toBe('"a\\nb"');
  });

  it("shows instants in UTC, and reports an invalid one", () => {
    expect(showAt(0)).toBe("1970-01-01T00:00:00.000Z");
    for (const at of [Number.NaN, Number.POSITIVE_INFINITY, 9e15]) expect(showAt(at)).toBe("an unknown time");
  });

  it("shows no negative span when clocks disagree", () => {
    expect(showSpan(0, 1_500)).toBe("1.5 s");
    expect(showSpan(1_500, 0)).toBe("0 ms");
  });

  it("counts in the singular and the plural", () => {
    expect([counted(1, "worker"), counted(2, "worker"), counted(0, "loss", "losses")]).toEqual([
      "1 worker",
      "2 workers",
      "0 losses",
    ]);
  });
});
