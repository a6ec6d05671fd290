/** Templates come from whoever writes a playbook, and values from anybody, and are filled inside the engine. So: whatever they are, a
 *  template is refused with a position, or its value is plain JSON, or it fails with a reason. No getter or method of a value runs. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TESTS } from "../../src/core/expression/filters.ts";
import { TEMPLATE_FILTERS } from "../../src/core/expression/template-filters.ts";
import {
  evaluateWhen,
  FillError,
  fillText,
  fillValue,
  Layered,
  MAX_FILLED_BYTES,
} from "../../src/core/template/fill.ts";
import { fillShell, ShellPlaceError, shellPlaces } from "../../src/core/template/shell.ts";
import { checkSql, fillSql, SqlPlaceError } from "../../src/core/template/sql.ts";
import { namesOfTemplate, parseTemplate, parseWhen, TemplateError } from "../../src/core/template/template.ts";
import { IS_FULL, SEED } from "../tier.ts";

const WORDS = "a b data now loop None true in not is and or if else constructor __proto__ toString length".split(" ");
const SIGNS =
  "( ) [ ] { } {{ }} {% %} {# #} {{- -}} , . | : = == != < >= + - ~ * / // % ** ! & ; ' \" \\ \\n $ ` # << $( $(( EOF E' -- /* */ $$".split(
    " ",
  );
const LITERALS = [
  "1",
  "0.5",
  "9e9",
  "-1",
  "'x'",
  "'it''s'",
  '"y"',
  "''",
  "select",
  "echo",
  "eval",
  "sh -c",
  "\n",
  "🎉",
];
const FILTERS = [...TEMPLATE_FILTERS.keys(), "raw"].map((name) => `| ${name}`);

const soup = fc
  .array(fc.tuple(fc.constantFrom(...WORDS, ...SIGNS, ...LITERALS, ...FILTERS), fc.constantFrom("", " ")), {
    maxLength: 25,
  })
  .map((all) => all.flat().join(""));

/** Expressions that can be parsed, with values of all kinds in all places. */
const { expression } = fc.letrec<{ expression: string }>((tie) => {
  const part = tie("expression");
  const name = fc.constantFrom("a", "b", "data", "step", "now", "nope");
  const text = fc.string({ unit: fc.constantFrom(...'ab ,-=1{}[]"é💥'), maxLength: 5 }).map((value) => `'${value}'`);
  const key = fc.constantFrom(
    ".a",
    ".b",
    ".data",
    ".status",
    "[0]",
    "[-1]",
    "['a']",
    "['__proto__']",
    ".constructor",
    ".length",
  );
  const binary = fc.constantFrom(..."and or in == != < <= > >= + - * / // % ~".split(" "), "not in");
  const args = fc.array(part, { maxLength: 2 }).map((all) => (all.length === 0 ? "" : `(${all.join(", ")})`));
  const filter = fc.constantFrom(...[...TEMPLATE_FILTERS.keys()]);
  const end = fc.constantFrom("", "0", "1", "-1", "2");
  return {
    expression: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      name,
      fc.oneof(text, fc.nat(20).map(String), fc.constantFrom("0.5", "-3", "None", "true", "false", "[]", "{}")),
      fc
        .tuple(fc.constantFrom("a", "b", "data", "step"), fc.array(key, { maxLength: 3 }))
        .map(([of, keys]) => of + keys.join("")),
      fc.tuple(part, key).map(([of, member]) => `(${of})${member}`),
      fc.tuple(part, part).map(([of, member]) => `(${of})[${member}]`),
      fc.tuple(part, end, end, end).map(([of, start, stop, step]) => `(${of})[${start}:${stop}:${step}]`),
      fc.tuple(part, binary, part).map((all) => `(${all.join(" ")})`),
      fc.tuple(part, part, part).map(([yes, test, no]) => `(${yes} if ${test} else ${no})`),
      fc.array(part, { maxLength: 3 }).map((items) => `[${items.join(", ")}]`),
      fc
        .array(fc.tuple(part, part), { maxLength: 3 })
        .map((all) => `{${all.map((each) => each.join(": ")).join(", ")}}`),
      fc.tuple(part, filter, args).map(([of, by, given]) => `(${of}) | ${by}${given}`),
      fc.tuple(part, fc.constantFrom(...TESTS.keys())).map(([of, test]) => `(${of} is ${test})`),
      part.map((of) => `(not ${of})`),
    ),
  };
});

const templates = fc.oneof(
  { weight: 2, arbitrary: soup },
  { weight: 1, arbitrary: soup.map((text) => `{{ ${text} }}`) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 200 }) },
  { weight: 4, arbitrary: expression.map((text) => `{{ ${text} }}`) },
  { weight: 2, arbitrary: fc.tuple(soup, expression).map(([text, value]) => `${text} {{ ${value} }}`) },
);

const anyValue = fc.oneof(
  { weight: 3, arbitrary: fc.jsonValue() },
  {
    weight: 1,
    arbitrary: fc.anything({
      withDate: true,
      withMap: true,
      withNullPrototype: true,
      withBigInt: true,
      withTypedArray: true,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<unknown>("2026-01-01", "[1, {}]", "MQ==", [3, 1, 2], ["b", "a"], { a: { b: [1] } }),
  },
);

let touched = 0;
const trap = Object.defineProperty({ data: 1 }, "a", { enumerable: true, get: () => ++touched });

function isPlainJson(value: unknown): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object") return false;
  if (Array.isArray(value)) {
    return (
      Object.getPrototypeOf(value) === Array.prototype &&
      Object.keys(value).length === value.length &&
      value.every(isPlainJson)
    );
  }
  return Object.getPrototypeOf(value) === Object.prototype && Object.values(value).every(isPlainJson);
}

/** The value of a call, if it does not throw one of these errors. */
function resultOf<T>(call: () => T, ...errors: (abstract new (...args: never[]) => Error)[]): T | null {
  try {
    return call();
  } catch (error) {
    if (errors.some((type) => error instanceof type)) return null;
    throw error;
  }
}

const ROUNDS = IS_FULL ? 100_000 : 2_000;

describe("any template, with any values", () => {
  it("is refused with a position, has a plain value, or fails with a reason", { timeout: 900_000 }, () => {
    const counts = { refused: 0, filled: 0, failed: 0 };
    const seen = fc.property(
      templates,
      anyValue,
      anyValue,
      fc.constantFrom("strict", "empty"),
      (text, a, data, mode) => {
        const step = new Layered(a, { data: new Layered(data, { status: "ok" }), status: trap });
        const scope = (name: string) =>
          (({ a, b: trap, data, step, now: "2026-01-01T00:00:00.000Z" }) as Record<string, unknown>)[name];
        const options = { undefined: mode } as const;
        const error = refusalOf(text);
        expect(error === null || (error.offset >= 0 && error.offset <= text.length && error.message !== "")).toBe(true);
        const value = resultOf(() => ({ value: fillText(text, scope, options) }), FillError);
        if (value !== null) {
          expect(isPlainJson(value.value)).toBe(true);
          expect(JSON.stringify(value.value).length).toBeLessThanOrEqual(MAX_FILLED_BYTES);
        }
        counts[error !== null ? "refused" : value === null ? "failed" : "filled"] += 1;
        expect(error !== null && value !== null).toBe(false);
        const nested = resultOf(() => ({ value: fillValue({ k: [text], a }, scope, options) }), FillError);
        if (nested !== null) expect(isPlainJson(nested.value)).toBe(true);
        expect(typeof evaluateWhen(text, scope).value).toBe("boolean");
        resultOf(() => parseWhen(text), TemplateError);
        resultOf(() => shellPlaces(text), TemplateError, ShellPlaceError);
        resultOf(() => fillShell(text, scope, options), FillError);
        resultOf(() => checkSql(text), TemplateError, SqlPlaceError);
        for (const statement of resultOf(() => fillSql(text, scope, options), FillError) ?? []) {
          expect(statement.values.every((each) => each === null || typeof each !== "object")).toBe(true);
        }
      },
    );
    fc.assert(seen, { numRuns: ROUNDS, seed: SEED });
    console.log(`seed ${SEED}: ${JSON.stringify(counts)}`);
    expect(Math.min(counts.refused, counts.filled, counts.failed)).toBeGreaterThan(ROUNDS / 20);
    expect(touched).toBe(0);
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  function refusalOf(text: string): TemplateError | null {
    try {
      for (const { name, offset } of namesOfTemplate(parseTemplate(text)))
        expect(text.startsWith(name, offset)).toBe(true);
      return null;
    } catch (error) {
      if (error instanceof TemplateError) return error;
      throw error;
    }
  }
});

describe("the work of a template", () => {
  const big = "x".repeat(1 << 20);
  const numbers = Array.from({ length: 100_000 }, (_, i) => i ^ 0x5555);
  const objects = Array.from({ length: 20_000 }, (_, i) => ({ id: i, name: `n${i}`, tags: ["a", "b"] }));
  const keys = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`key${i}`, i]));
  const values: Readonly<Record<string, unknown>> = { big, numbers, objects, keys, one: `${"a".repeat(199)}b` };

  it.each([
    "{{ big }}{{ big }}{{ big }}",
    "{{ big | upper | lower | upper | b64encode | urlencode }}",
    "{{ big | replace('x', 'xxxxxxxxxxxxxxxx') | length }}",
    "{{ big | split('x') | join('yy') | length }}",
    "{{ big | replace(one, '') | length }}",
    "{{ (big ~ big ~ big) | length }}",
    "{{ big[::-1] | length }}",
    "{{ numbers | sort | unique | sum }}",
    "{{ numbers | sort(true) }}",
    "{{ objects | unique | length }}",
    "{{ objects | tojson | fromjson | tojson | length }}",
    "{{ objects + objects + objects }}",
    "{{ [objects, objects, objects, objects, objects] }}",
    "{{ objects == objects and keys == keys }}",
    "{{ keys | keys | join | length }}{{ keys | values | max }}",
    "{{ keys }}",
    "{{ numbers[0] }}".repeat(60_000),
    "{{ numbers[0] }}".repeat(1_000),
    "{{ '".repeat(50_000),
    `{{ ${"[".repeat(900)} }}`,
  ])("is bounded, in case %#", (text) => {
    const scope = (name: string) => values[name];
    const call = () => resultOf(() => fillText(text, scope, { undefined: "strict" }), FillError);
    let best = Number.POSITIVE_INFINITY;
    for (let i = 0; i < (IS_FULL ? 5 : 2); i++) {
      const before = process.cpuUsage();
      call();
      const { user, system } = process.cpuUsage(before);
      best = Math.min(best, (user + system) / 1_000);
    }
    console.log(`${best.toFixed(1)} ms: ${text.slice(0, 70)}`);
    expect(best).toBeLessThan(500);
  });
});
