import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { rounds } from "../../../test/tier.ts";
import { readYaml } from "../../yaml/read.ts";
import { safeText } from "./terminal-text.ts";
import { yamlText } from "./yaml-text.ts";

/** The values that Perdure's reader and a YAML 1.1 reader return; they share no objects. */
function readBack(value: unknown): readonly unknown[] {
  const text = `${yamlText(value)}\n`;
  expect(safeText(text)).toBe(text);
  const ours = JSON.parse(JSON.stringify(readYaml(text, "f.yaml").value));
  return [ours, JSON.parse(JSON.stringify(parse(text, { version: "1.1" })))];
}

const tricky = fc.oneof(
  fc.constantFrom(
    ...[
      "",
      " ",
      "yes",
      "No",
      "on",
      "y",
      "N",
      "~",
      "null",
      "true",
      "1e3",
      "0123",
      "0o17",
      "0x1f",
      "1_000",
      "1:30",
      "-0",
      ".inf",
    ],
    ...[
      "2026-02-09",
      "2026-02-09T19:22:56Z",
      "<<",
      "=",
      "a: b",
      "a:",
      ": a",
      " a",
      "a ",
      "a #b",
      "#a",
      "- a",
      "? a",
      "---",
      "...",
    ],
    ...[
      "--- a",
      "%a",
      "@a",
      "`a",
      "!a",
      "&a",
      "*a",
      "|",
      ">",
      "[",
      "{",
      "]",
      "a,b",
      "'",
      '"',
      "\\",
      "\\n",
      "\t",
      "\ta",
      "a\t",
    ],
    ...[
      "a\nb",
      "a\n",
      "\na",
      "\n",
      "\n\n",
      "a\n\n",
      "  a\nb",
      "a\n  b\n",
      "a \nb",
      "a\n \n",
      "a\r\nb",
      "a\rb",
      "\u0085",
      "\u2028",
    ],
    ...[
      "\u0000",
      "\u001b[31m",
      "\u007f",
      "\ufeff",
      "\u200b",
      "\u202e",
      "\ud800",
      "\udfff",
      "\u{e0001}",
      "ünï\ncode",
      "👩‍👩‍👧",
      "é: ü",
    ],
  ),
  fc.string({ unit: "binary", maxLength: 12 }),
  fc
    .array(fc.constantFrom("a", " ", "\n", "\t", ":", "#", "-", "'", '"', "\\", "é", "|", "\r"), { maxLength: 12 })
    .map((a) => a.join("")),
);

const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    tricky,
    fc.oneof(
      fc.constantFrom(null, true, false, 0, 1e21, 1e-7, 2 ** 60, -1.5),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    ),
    fc.array(tie("any"), { maxLength: 4 }),
    fc.dictionary(
      tricky.filter((key) => key.length < 100),
      tie("any"),
      { maxKeys: 4 },
    ),
  ),
})).any;

describe("a value as YAML", () => {
  it("is read back as the same value, by Perdure's reader and by one of YAML 1.1", () => {
    fc.assert(
      fc.property(value, (any) => {
        const json = JSON.parse(JSON.stringify(any));
        for (const read of readBack(any)) expect(read).toEqual(json);
      }),
      { numRuns: rounds(3_000) },
    );
  });

  it("has text as a person would write it", () => {
    expect(
      yamlText({
        prompt: "Do it.\n  Then stop.\n",
        tier: "legionary",
        tag: "yes",
        code: "0123",
        list: ["a"],
        none: {},
      }),
    ).toBe('prompt: |\n  Do it.\n    Then stop.\ntier: legionary\ntag: "yes"\ncode: "0123"\nlist:\n  - a\nnone: {}');
    expect(yamlText(undefined)).toBe("null");
  });

  it.each([
    [1e-7, "1.0e-7"],
    [-1e21, "-1.0e+21"],
    [1e20, "1.0e+20"],
    [2 ** 60, "1.152921504606847e+18"],
    [1.5e-9, "1.5e-9"],
    [0.25, "0.25"],
    [-12, "-12"],
    ["1e-7", '"1e-7"'],
    ["1.0e-7", '"1.0e-7"'],
  ])("has %j as %s, which is the same to readers of YAML 1.1", (value, text) => {
    expect(yamlText(value)).toBe(text);
    // Values that PyYAML reads as numbers.
    const isNumber = /^[-+]?(?:\d+(?:\.\d*(?:[eE][-+]\d+)?)?)$/.test(text);
    expect(isNumber).toBe(typeof value === "number");
    for (const read of readBack(value)) expect(read).toBe(value);
  });

  it("refuses what is nested too deeply for the library", () => {
    let value: unknown = 1;
    for (let i = 0; i < 5_000; i++) value = [value];
    expect(() => yamlText(value)).toThrow("nested too deeply to be written as YAML; write it as JSON instead");
  });
});
