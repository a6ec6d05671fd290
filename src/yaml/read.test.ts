import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IS_FULL, rounds } from "../../test/tier.ts";
import { readYaml, readYamlBytes, readYamlDocuments, YamlError } from "./read.ts";

const value = (text: string) => readYaml(text, "f.yaml").value;
const refusal = (text: string): string => {
  try {
    value(text);
  } catch (error) {
    expect(error).toBeInstanceOf(YamlError);
    const { file, line, column, problem, message } = error as YamlError;
    expect(message).toBe(line === null ? `${file}: ${problem}` : `${file}:${line}:${column}: ${problem}`);
    return message;
  }
  return "nothing was wrong";
};

describe("YAML text", () => {
  it("is parsed as YAML or JSON, by the core schema", () => {
    expect(value("a: 1\nb: [x, yes, true, ~]\nc: 0x1F\nd: 2026-11-16T09:00:00Z\n1: one")).toEqual({
      ...{ a: 1, b: ["x", "yes", true, null], c: 31, d: "2026-11-16T09:00:00Z", "1": "one" },
    });
    expect(value('{\n\t"a": [1, "\\uD83D\\uDE00", "a\\/b"],\n\t"b": {}\n}')).toEqual({ a: [1, "😀", "a/b"], b: {} });
    expect(value("")).toBeNull();
    expect(value("a: &x {k: 1}\nb: [*x, *x]\nc: &x 2\nd: *x")).toEqual({
      ...{ a: { k: 1 }, b: [{ k: 1 }, { k: 1 }], c: 2, d: 2 },
    });
    expect(value("%YAML 1.1\n---\na: yes\nb: 'on'")).toEqual({ a: "yes", b: "on" });
    expect(value('"<<": 1')).toEqual({ "<<": 1 });
  });

  it.each([
    ["a: 1\nb: 2\na: 3", 'f.yaml:3:1: duplicate key "a"; keep one'],
    ['1: a\n"1": b', 'f.yaml:2:1: duplicate key "1"; keep one'],
    ["a: &a {x: 1}\nb:\n  <<: *a", "f.yaml:3:3: merge keys (<<) are not read; write the keys out"],
    ["%YAML 1.1\n---\na: &a {x: 1}\nb:\n  <<: *a", "f.yaml:5:3: merge keys"],
    ["a: !!js/function 'x'", "f.yaml:1:4: unknown tag"],
    ["a: !!binary aGk=", "f.yaml:1:4: unknown tag"],
    ["a: !!set {x}", "f.yaml:1:4: unknown tag"],
    ["a:\n  - !mine x", "f.yaml:2:5: unknown tag"],
    ["a: 1\n---\nb: 1", "f.yaml:2:1: a second document; one file has one"],
    ["a:\n\tb: 1", "f.yaml:2:1: tabs do not indent in YAML; use spaces"],
    ["a: b: c", "f.yaml:1:4: a second colon in one line"],
    ['a: "x', "f.yaml:1:6: something is missing here"],
    ["kind: [", 'f.yaml:1:8: the "[" is not closed, or its lines are not indented; add "]", or indent them'],
    ["a: {b: 1", 'f.yaml:1:9: the "{" is not closed'],
    ["a\nb: 1", "f.yaml:1:1: a key and its colon must be on one line"],
    ["a: &x &y 1", "f.yaml:1:7: two anchors (&name) for one value"],
    ['a: "\\q"', "f.yaml:1:5: unknown escape after a backslash"],
    ["{a: 1} x", "f.yaml:1:8: unexpected text here"],
    ["? [a]\n: b", "f.yaml:1:3: a key must be text"],
    ["&a x: 1\n*a : 2", "f.yaml:2:1: a key must be text"],
    [
      "id: 12345678901234567890",
      'f.yaml:1:5: "12345678901234567890" is too large to be kept exactly; put it in quotes',
    ],
    ["a: .inf", 'f.yaml:1:4: ".inf" is not a JSON number'],
    ["a: *x", "f.yaml:1:4: *x has no &x before it"],
    ["a: &a [*a]", "f.yaml:1:8: *a contains itself"],
    ["a: \x00", "f.yaml:1:4: a control character"],
    ["[1,,2]", "f.yaml:1:4: a comma with nothing before it"],
    ["a: ]", "f.yaml:1:4: a ] that closes nothing"],
    ["[".repeat(65), "f.yaml:1:65: nested more than 64 levels deep"],
    ["- ".repeat(65), "nested more than 64 levels deep"],
    ["- ".repeat(100_000), "f.yaml:1:133: nested more than 64 levels deep"],
    ["? ".repeat(100_000), "nested more than 64 levels deep"],
    [Array.from({ length: 1_300 }, (_, i) => `${" ".repeat(i)}a:`).join("\n"), "nested more than 64 levels deep"],
    ["x".repeat(1_048_577), "f.yaml: over 1048576 bytes"],
    ["é".repeat(600_000), "f.yaml: over 1048576 bytes"],
  ])("is refused with the position and advice (case %#)", (text, message) => {
    expect(refusal(text)).toContain(message);
  });

  it("may be nested 64 levels deep, aliases included", () => {
    expect(refusal("[".repeat(64) + "]".repeat(64))).toBe("nothing was wrong");
    expect(refusal(`a: &a ${"[".repeat(40)}${"]".repeat(40)}\nb: ${"[".repeat(40)}*a${"]".repeat(40)}`)).toContain(
      "deep",
    );
  });

  it("has the position of each part, also through aliases", () => {
    const text = readYaml(
      'retry: &r\n  maxAttempts: 3\n  rules:\n    - if: {kind: x}\njobs: [1, {"a b": *r}]',
      "f.yaml",
    );
    expect(text.positionOf(["retry", "maxAttempts"])).toEqual({ line: 2, column: 3 });
    expect(text.positionOf(["retry", "rules", 0, "if", "kind"])).toEqual({ line: 4, column: 12 });
    expect(text.positionOf(["jobs", 1, "a b"])).toEqual({ line: 5, column: 12 });
    expect(text.positionOf(["jobs", 1, "a b", "maxAttempts"])).toEqual({ line: 2, column: 3 });
    expect(text.positionOf(["retry", "nope", "deeper"])).toEqual({ line: 1, column: 1 });
    expect(text.where([])).toBe("f.yaml:1:1");
    expect(readYaml("", "f.yaml").positionOf(["a"])).toEqual({ line: 1, column: 1 });
  });
});

const nines = (name: string) => `[${Array(9).fill(`*${name}`).join(",")}]`;
const lol = [
  "a: &a [x,x,x,x,x,x,x,x,x]",
  ...[..."bcdefghi"].map((c, i) => `${c}: &${c} ${nines("abcdefgh"[i] as string)}`),
];

/** Processor time, the best of five, because other tests share the machine. */
function leastMs(work: () => void): number {
  const times = [1, 2, 3, 4, 5].map(() => {
    const before = process.cpuUsage();
    work();
    return cpuMs(before);
  });
  return Math.min(...times);
}

const LETTERS = "abcdefghij".repeat(100_000);

function lookAtLetters(): void {
  let sum = 0;
  for (let i = 0; i < 1e7; i++) sum = (sum * 31 + LETTERS.charCodeAt(i % 1e6)) | 0;
  expect(sum).not.toBe(0.5);
}

function cpuMs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

describe("S17: a bomb", () => {
  it.each([
    ["of aliases that name each other", lol.join("\n")],
    ["of one long text, many times", `a: &a ${"x".repeat(100_000)}\nb: [${Array(99).fill("*a").join(",")}]`],
    ["of many aliases", `a: &a x\nb:\n${"- *a\n".repeat(200_000)}`],
    ["of many anchors", Array.from({ length: 70_000 }, (_, i) => `- &a${i} x`).join("\n")],
    ["of dashes", "- ".repeat(500_000)],
    ["of question marks", "? ".repeat(500_000)],
    ["of brackets", "[".repeat(1_048_576)],
    ["of closing brackets", "]".repeat(1_048_576)],
    ["of commas", `[${",".repeat(1_000_000)}`],
    ["of tags", "!!a ".repeat(260_000)],
    ["of directives", "%a\n".repeat(340_000)],
  ])("%s is refused quickly and does not stay in memory", (_, text) => {
    expect(refusal(text)).toMatch(/^f\.yaml:\d+:\d+: /);
    if (!IS_FULL) return;
    const took = leastMs(() => expect(refusal(text)).toMatch(/^f\.yaml:\d+:\d+: /));
    // The promise is 50 ms on an ordinary machine; a slow one gets the time of three scans of ten million characters.
    expect(took).toBeLessThan(Math.max(50, 3 * leastMs(lookAtLetters)));
    const grown = [1, 2, 3].map(() => {
      const before = process.memoryUsage().rss;
      refusal(text);
      return process.memoryUsage().rss - before;
    });
    expect(Math.min(...grown)).toBeLessThan(20_000_000); // the minimum, because the heap grows at any time
  });

  it.runIf(IS_FULL)("of a hundred thousand keys does not take quadratic time", () => {
    const before = process.cpuUsage();
    expect(Object.keys(value(Array.from({ length: 100_000 }, (_, i) => `k${i}:`).join("\n")) as object)).toHaveLength(
      1e5,
    );
    expect(cpuMs(before)).toBeLessThan(10_000); // comparing all pairs would take minutes
  });
});

describe("S16: names of prototypes", () => {
  it("are ordinary keys", () => {
    const text =
      '{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}, "a": [{"__proto__": null}]}';
    const object = value(text) as Record<string, unknown>;
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(object.polluted).toBeUndefined();
    expect(Object.getPrototypeOf(object)).toBeNull();
    expect(Object.keys(object)).toEqual(["__proto__", "constructor", "a"]);
    expect(JSON.parse(JSON.stringify(object))).toEqual(JSON.parse(text));
    expect(value("a: &x {__proto__: {polluted: 1}}\nb: *x\n__proto__: *x")).toBeDefined();
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

/** Pieces of hostile documents. */
const piece = fc.oneof(
  fc.constantFrom(
    "a: ",
    "- ",
    "? ",
    ": ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&a ",
    "*a",
    "!!str ",
    "!x ",
    "<<: ",
    "|\n",
    ">-\n",
  ),
  fc.constantFrom(
    "\n",
    "\n  ",
    "\t",
    " ",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "#c\n",
    '"',
    "'",
    "\\",
    "\u2028",
    "\ufeff",
    "\r",
  ),
  fc.constantFrom("__proto__: ", "constructor: ", "prototype: ", "polluted: 1", ".nan", "1e999", "\ud800", "\0", "~"),
  fc.string({ unit: "binary", maxLength: 5 }),
);

describe("any text", () => {
  const check = (text: string) => {
    try {
      // An accepted value survives a round trip through JSON.
      const taken = value(text);
      expect(JSON.parse(JSON.stringify(taken))).toEqual(taken);
    } catch (error) {
      if (!(error instanceof YamlError)) throw error;
      expect(error.message).toMatch(/^f\.yaml:\d+:\d+: ./);
    }
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  };

  it("is either read or refused", () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => check(pieces.join(""))),
      { numRuns: rounds(2_000) },
    );
    fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 200 }), check), { numRuns: rounds(1_000) });
  });

  it("that is JSON has the same value as in JSON", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5, stringUnit: "binary" }), (json) => {
        fc.pre(!/\d{16}/.test(json)); // integers that JSON would round are refused
        expect(JSON.stringify(value(json))).toBe(JSON.stringify(JSON.parse(json)));
      }),
      { numRuns: rounds(500) },
    );
  });

  it("of any bytes is either UTF-8 text or refused", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        try {
          readYamlBytes(bytes, "f.yaml");
        } catch (error) {
          expect(error).toBeInstanceOf(YamlError);
        }
      }),
    );
  });
});

describe("several documents", () => {
  const values = (text: string) => readYamlDocuments(text, "jobs.yaml").map(({ value }) => value);

  it("are read one by one, each with its own positions; empty ones are left out", () => {
    expect(values("a: 1\n---\nb: 2\n---\n# nothing\n---\n- c\n")).toEqual([{ a: 1 }, { b: 2 }, ["c"]]);
    expect(values("")).toEqual([null]);
    expect(values("---\n---\n")).toEqual([null]);
    expect(values('{"a": 1}')).toEqual([{ a: 1 }]);
    const [, second] = readYamlDocuments("a: 1\n---\nb:\n  c: 2\n", "jobs.yaml");
    expect(second?.where(["b", "c"])).toBe("jobs.yaml:4:3");
    expect(second?.where([])).toBe("jobs.yaml:3:1");
  });

  it("have the limits of one document, and separate anchors", () => {
    expect(() => values("a: 1\n---\nb: 1\nb: 2\n")).toThrow('jobs.yaml:4:1: duplicate key "b"');
    expect(() => values("a: &x 1\n---\nb: *x\n")).toThrow("jobs.yaml:3:4: *x has no &x before it");
    expect(() => values(`a: ${"[".repeat(100)}`)).toThrow("nested more than 64 levels");
    expect(() => values("--- 1\n".repeat(1_001))).toThrow("jobs.yaml:1001:");
    expect(() => values(`a: 1\n---\n${"x".repeat(1_048_576)}`)).toThrow("over 1048576 bytes");
  });

  it("are refused if one is expected", () => {
    expect(() => readYaml("a: 1\n---\nb: 2\n", "job.yaml")).toThrow("a second document");
  });
});

it("finds a character of a text in its line", () => {
  const file = readYaml(
    [
      "plain: a {{ x }}",
      'double: "say \\"hi\\" {{ x }}"',
      "single: 'it''s {{ x }}'",
      "block: |",
      "  one",
      "    two {{ x }}",
      "folded: >-",
      "  one",
      "  two {{ x }}",
      "wide: one",
      "  two {{ x }}",
      'code: "\\u0061 {{ x }}"',
      'list: [1, "a {{ x }}"]',
    ].join("\n"),
    "f.yaml",
  );
  const value = file.value as Record<string, string>;
  const of = (name: string) => file.positionIn([name], (value[name] as string).indexOf("{{"));
  expect(of("plain")).toEqual({ line: 1, column: 10 });
  expect(of("double")).toEqual({ line: 2, column: 21 });
  expect(of("single")).toEqual({ line: 3, column: 16 });
  expect(of("block")).toEqual({ line: 6, column: 9 });
  expect(of("folded")).toEqual({ line: 9, column: 7 });
  expect(of("wide")).toEqual({ line: 11, column: 7 });
  expect(of("code")).toEqual({ line: 12, column: 1 }); // the key: \u cannot be matched
  expect(file.positionIn(["list", 1], 2)).toEqual({ line: 13, column: 14 });
  expect(file.positionIn(["list", 0], 2)).toEqual({ line: 13, column: 8 });
  expect(file.positionIn(["none"], 2)).toEqual({ line: 1, column: 1 });
});
