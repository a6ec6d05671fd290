import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DANGEROUS } from "../../../test/cli/kit.ts";
import { factLines, tableLines } from "./table.ts";
import { painted, textWidth, wantsColour } from "./terminal-text.ts";

const COLUMNS = [{ head: "ID" }, { head: "N", side: "right" }, { head: "WHAT", flexible: true }] as const;
const plain = (columns?: number) => ({ columns, colour: false });

describe("a table", () => {
  it("has aligned columns, numbers at the right, and no trailing spaces", () => {
    const rows = [
      ["a", "1", "short"],
      ["図", "200", ""],
    ];
    expect(tableLines(COLUMNS, rows, plain())).toEqual(["ID    N  WHAT", "a     1  short", "図  200"]);
  });

  it("leaves out an empty column", () => {
    expect(tableLines(COLUMNS, [["a", "1", ""]], plain())).toEqual(["ID  N", "a   1"]);
  });

  it("shortens text, but not ids", () => {
    const lines = tableLines(COLUMNS, [["job_0123456789", "1", "a long command line"]], plain(28));
    expect(lines).toEqual(["ID              N  WHAT", "job_0123456789  1  a long c…"]);
  });

  it("fits any width with any content", () => {
    const cell = fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("\x1b[2J", "図書館", "a\nb"));
    fc.assert(
      fc.property(fc.array(fc.tuple(cell, cell, cell)), fc.integer({ min: 1, max: 60 }), (rows, columns) => {
        for (const line of tableLines(COLUMNS, rows, plain(columns))) {
          expect(textWidth(line)).toBeLessThanOrEqual(columns);
          expect(line).not.toMatch(DANGEROUS);
        }
      }),
    );
  });

  it("puts colours around escaped text", () => {
    const lines = tableLines([{ head: "A" }], [[painted("red", "\x1b[2J")]], { columns: 80, colour: true });
    expect(lines).toEqual(["\x1b[2mA\x1b[0m", "\x1b[31m\\x1b[2J\x1b[0m"]);
  });
});

describe("facts", () => {
  it("leave out unknown values", () => {
    const facts = [
      ["Kind", "exec"],
      ["Key", null],
      ["Tags", ""],
      ["Submitted", "a\nb"],
    ] as const;
    expect(factLines(facts, plain())).toEqual(["Kind       exec", "Submitted  a\\nb"]);
  });
});

describe("colours", () => {
  it.each([
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: "1" }, false],
    [true, { NO_COLOR: "" }, true],
    [true, { TERM: "dumb" }, false],
    [false, { FORCE_COLOR: "1" }, true],
    [true, { FORCE_COLOR: "0" }, false],
    [false, { FORCE_COLOR: "1", NO_COLOR: "1" }, false],
  ])("on a terminal: %s, with %o: %s", (isTTY, env, wanted) => {
    expect(wantsColour({ isTTY, env })).toBe(wanted);
  });
});
