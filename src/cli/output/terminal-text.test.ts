import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DANGEROUS } from "../../../test/cli/kit.ts";
import { rounds } from "../../../test/tier.ts";
import { cutToWidth, padTo, safeJson, safeLine, safeText, textWidth } from "./terminal-text.ts";

/** Any code units, also unpaired surrogates, and more dangerous characters than chance would give. */
const unit = fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code));
const special = fc.constantFrom(
  ...[
    "\x1b[2J",
    "\x1b]52;c;eA==\x07",
    "\x9b31m",
    "\r",
    "\n",
    "\t",
    "\0",
    "\x7f",
    "\u202e",
    "\u2066",
    "\u200b",
    "\ufeff",
  ],
  ...["\u{e0041}", "\u3164", "\u034f", "\ud83e", "\udd8a", "🦊", "図", "e\u0301", "⚠\ufe0f", "\\x1b", "\u2028"],
);
const anyText = fc.array(fc.oneof(unit, special, fc.string())).map((parts) => parts.join(""));

describe("S26: safe text", () => {
  it.each([
    ["clear screen", "\x1b[2J", "\\x1b[2J"],
    ["a title", "\x1b]0;owned\x07", "\\x1b]0;owned\\x07"],
    ["the clipboard", "\x1b]52;c;eA==\x1b\\", "\\x1b]52;c;eA==\\x1b\\"],
    ["CSI of one byte", "\u009b31m", "\\x9b31m"],
    ["a line written over", "secret\rpublic", "secret\\rpublic"],
    ["letters turned round", "\u202egpj.exe\u2069", "\\u{202e}gpj.exe\\u{2069}"],
    ["zero width", "a\u200bb\u200dc\ufeff", "a\\u{200b}b\\u{200d}c\\u{feff}"],
    ["hidden tags", "x\u{e0041}", "x\\u{e0041}"],
    ["fillers", "\u3164\u115f", "\\u{3164}\\u{115f}"],
    ["half of a pair", "\ud83e", "\\u{d83e}"],
    ["line separators", "a\u2028b", "a\\u{2028}b"],
    ["NUL, BEL, BS, DEL", "\0\x07\b\x7f", "\\x00\\x07\\x08\\x7f"],
  ])("shows %s escaped", (_, given, shown) => {
    expect(safeText(given)).toBe(shown);
    expect(safeLine(given)).toBe(shown);
  });

  it("keeps ordinary text", () => {
    for (const text of ["", "plain", "größe 図 🦊 ⚠\ufe0f e\u0301", "\\x1b is written so"]) {
      expect(safeText(text)).toBe(text);
      expect(safeLine(text)).toBe(text);
    }
  });

  it("keeps line ends and tabs in a block, and escapes both on one line", () => {
    expect(safeText("a\tb\r\nc\n")).toBe("a\tb\nc\n");
    expect(safeLine("a\tb\r\nc\n")).toBe("a\\tb\\r\\nc\\n");
  });

  it("never lets a dangerous character through, and is idempotent", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const [block, line] = [safeText(text), safeLine(text)];
        for (const shown of [block, line]) {
          expect(shown).not.toMatch(DANGEROUS);
          expect(shown).not.toMatch(/[\p{Bidi_Control}\p{Cf}\p{Cs}]/u);
          expect(shown.replaceAll(/[\n\t]/g, "")).not.toMatch(/\p{Cc}/u);
        }
        expect(line).not.toMatch(/[\n\t]/);
        expect(safeText(block)).toBe(block);
        expect(safeLine(line)).toBe(line);
      }),
      { numRuns: rounds(500) },
    );
  });

  it("in JSON has the same value", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const json = safeJson(JSON.stringify({ text }));
        expect(json).not.toMatch(DANGEROUS);
        expect(JSON.parse(json)).toEqual({ text });
      }),
    );
  });
});

describe("width", () => {
  it.each([
    ["abc", 3],
    ["größe", 5],
    ["図書", 4],
    ["ｆｕｌｌ", 8],
    ["한국", 4],
    ["🦊", 2],
    ["e\u0301", 1],
  ])("of %s is %i", (text, width) => {
    expect(textWidth(text)).toBe(width);
  });

  it("is kept when text is cut or padded", () => {
    expect(cutToWidth("abcdef", 4)).toBe("abc…");
    expect(cutToWidth("abcd", 4)).toBe("abcd");
    expect(cutToWidth("図書館", 4)).toBe("図…");
    expect(cutToWidth("図書", 4)).toBe("図書");
    expect(cutToWidth("abc", 0)).toBe("");
    expect(padTo("図", 4)).toBe("図  ");
    expect(padTo("12", 4, "right")).toBe("  12");
    fc.assert(
      fc.property(anyText.map(safeLine), fc.nat(30), (text, columns) => {
        expect(textWidth(cutToWidth(text, columns))).toBeLessThanOrEqual(columns);
        expect(textWidth(padTo(text, columns))).toBe(Math.max(columns, textWidth(text)));
      }),
    );
  });
});
