import { describe, expect, it } from "vitest";
import { evaluateWhen, FillError, fillText, fillValue, Layered } from "./fill.ts";
import { hasTemplate, namesOfTemplate, parseTemplate, parseWhen, TemplateError } from "./template.ts";

const NAMES: Readonly<Record<string, unknown>> = {
  city: "Bern",
  count: 3,
  half: 0.5,
  no: false,
  yes: true,
  nothing: null,
  list: [3, 1, 2, 3],
  words: ["b", "a", "B"],
  text: "a,b c",
  order: { id: 7, items: [{ sku: "x" }], total: 12.5, in: 1 },
  step: new Layered({ rows: [1], status: "own" }, { data: { rows: [1] }, status: "succeeded", attempt: 2 }),
  scalar: new Layered("out", { status: "succeeded" }),
  all: new Layered([1, 2], { results: [1, 2] }),
  false_text: "False",
  empty: [],
  now: "2026-01-01T00:00:00.000Z",
};
const scope = (name: string) => (Object.hasOwn(NAMES, name) ? NAMES[name] : undefined);
const STRICT = { undefined: "strict" } as const;

/** The filled text, or the message of the error. */
function fill(text: string, mode: "strict" | "empty" = "strict"): unknown {
  try {
    return fillText(text, scope, { undefined: mode });
  } catch (error) {
    if (!(error instanceof FillError)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

function refusalOf(parse: (text: string) => unknown, text: string): TemplateError {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof TemplateError) return error;
    throw error;
  }
  throw new Error(`accepted: ${text}`);
}

describe("a filled text", () => {
  it.each<[string, unknown]>([
    // a whole template keeps its type, pieces are joined
    ["plain", "plain"],
    ["", ""],
    ["{ city } } }}", "{ city } } }}"],
    ["{{ city }}", "Bern"],
    ["{{count}}", 3],
    ["{{ nothing }}", null],
    ["{{ list }}", [3, 1, 2, 3]],
    ["{{ order.items[0] }}", { sku: "x" }],
    ["{{ city }}-{{ count }}", "Bern-3"],
    ["{{ city }} ", "Bern "],
    ["{{ yes }}{{ no }} {{ half }}", "truefalse 0.5"],
    ["x {{ list }} {{ order }}", 'x [3,1,2,3] {"id":7,"items":[{"sku":"x"}],"total":12.5,"in":1}'],
    ["{{ city }}\n", "Bern\n"],
    ["a  {{- city -}}  b", "aBernb"],
    ["\n{{- count -}} ", 3],
    ['{"city": "{{ city }}", "n": {{ count }}}', '{"city": "Bern", "n": 3}'],
    ["{# {{ city }} #}", "{# Bern #}"],
    ["{{ '{{' }} and {{ '}}' ~ '{%' }}", "{{ and }}{%"],
    ["it's {{ city }}'s", "it's Bern's"],
    // names, members, layers
    ["{{ order.in }}", 1],
    ["{{ order['id'] }}", 7],
    ["{{ order.items.0.sku }}", "x"],
    ["{{ order.items[-1]['sku'] }}", "x"],
    ["{{ city[0] }}{{ city[-1] }}", "Bn"],
    ["{{ step }}", { rows: [1], status: "own" }],
    ["{{ step.status }} {{ step.attempt }} {{ step.data.rows }}", "own 2 [1]"],
    ["{{ scalar }} {{ scalar.status }}", "out succeeded"],
    ["{{ all | length }} {{ all.results }} {{ all[1] }}", "2 [1,2] 2"],
    ["{{ step is defined and step.nope is not defined }}", true],
    ["{{ now() }} {{ now }}", "2026-01-01T00:00:00.000Z 2026-01-01T00:00:00.000Z"],
    // ternary, dict, slices
    ["{{ 'a' if yes else 'b' }}", "a"],
    ["{{ 'a' if no else 'b' if no else 'c' }}", "c"],
    ["{{ 'a' if no }}", null],
    ["{{ nope if nope is defined else 'd' }}", "d"],
    ["{{ 'x' if nope else 'y' }}", "y"],
    ["{{ {'a': count, city: [1, {}], 3: None,} }}", { a: 3, Bern: [1, {}], 3: null }],
    ["{{{'a': {'b': 1}}}}", { a: { b: 1 } }],
    ["{{ {'a': {'b': 1}}.a['b'] }}", 1],
    ["{{ list[1:3] }}{{ list[:1] }}{{ list[-1:] }}{{ list[9:] }}", "[1,2][3][3][]"],
    ["{{ list[::-1] }}{{ list[::2] }}{{ list[3:0:-2] }}", "[3,2,1,3][3,2][3,1]"],
    ["{{ city[1:] }}{{ city[::-1] }}{{ city[-2:9] }}", "ernnreBrn"],
    ["{{ (1, 2) + [3,] }}", [1, 2, 3]],
    ["{{ 1e3 + 2 * 3 - 7 // 2 % 2 }}", 1005],
    ["{{ not 1 == 2 and 3 in list and 9 not in list }}", true],
    ["{{ -count | abs }}", 3],
    ["{{ city ~ yes ~ list ~ half }}", "Berntrue[3,1,2,3]0.5"],
    // filters
    ["{{ order | tojson }}", '{"id":7,"items":[{"sku":"x"}],"total":12.5,"in":1}'],
    ["{{ '[1, {\"a\": null}]' | fromjson }}", [1, { a: null }]],
    ["{{ count | string }}", "3"],
    ["{{ yes | string }}", "true"],
    ["{{ city | replace('e', 'EE') }}", "BEErn"],
    ["{{ list | join('-') }} {{ words | join }}", "3-1-2-3 baB"],
    ["{{ text | split(',') }}{{ text | split }}", '["a","b c"]["a,b","c"]'],
    ["{{ 2.5 | round }} {{ 3.5 | round }} {{ -1.2 | round }} {{ 1.256 | round(2) }}", "2 4 -1 1.26"],
    ["{{ 1.21 | round(1, 'ceil') }} {{ 1.29 | round(1, 'floor') }}", "1.3 1.2"],
    ["{{ '-4.5' | abs }}", 4.5],
    ["{{ list | first }}{{ list | last }}{{ list | min }}{{ list | max }}{{ list | sum }}", "33139"],
    ["{{ city | first }}{{ city | last }}", "Bn"],
    ["{{ empty | first | default('none') }} {{ empty | max | default(0) }}", "none 0"],
    ["{{ list | sort }}{{ list | sort(true) }}{{ words | sort }}", '[1,2,3,3][3,3,2,1]["B","a","b"]'],
    ["{{ list | unique }}{{ [1, '1', [1], [1], {'a': 1}, None] | unique }}", '[3,1,2][1,"1",[1],{"a":1},null]'],
    ["{{ order | keys }}{{ {'a': 1, 'b': [2]} | values }}", '["id","items","total","in"][1,[2]]'],
    ["{{ 'grüezi' | b64encode }} {{ 'Z3LDvGV6aQ==' | b64decode }}", "Z3LDvGV6aQ== grüezi"],
    ["{{ 'a b/ü?&(1)' | urlencode }} {{ {'q': 'a b', 'n': 1} | urlencode }}", "a%20b/%C3%BC%3F%26%281%29 q=a+b&n=1"],
    ["{{ city | lower | upper | trim | length }}", 4],
    ["{{ '12' | int + 1 }}", 13],
    // what is missing
    ["{{ nope | default('d') }} {{ nope.a.b | default(1) }}", "d 1"],
    ["{{ nope or city }}", "Bern"],
    ["{{ nope }}", "undefined: {{ nope }}: nope is undefined"],
    ["a {{ order.nope.x }}", "undefined: {{ order.nope.x }}: order.nope is undefined"],
    ["{{ order['no pe'] }}", `undefined: {{ order['no pe'] }}: order["no pe"] is undefined`],
    ["{{ list[9] }}", "undefined: {{ list[9] }}: list[9] is undefined"],
    ["{{ [nope] }}", "undefined: {{ [nope] }}: nope is undefined"],
    ["{{ nope == None }}", "undefined: {{ nope == None }}: nope is undefined"],
    ["{{ nope or nada }}", "undefined: {{ nope or nada }}: nada is undefined"],
    ["{{ nope if yes else 1 }}", "undefined: {{ nope if yes else 1 }}: nope is undefined"],
    ["{{ nope | default(nada) }}", "undefined: {{ nope | default(nada) }}: nada is undefined"],
    ["{{ empty | first }}", "undefined: {{ empty | first }}: it has no value"],
    ["a {{ nothing }}", "template: {{ nothing }}: None has no text; add a default"],
    ["{{ 'a' ~ nothing }}", "template: {{ 'a' ~ nothing }}: None has no text; add a default"],
    // what has no value
    ["{{ 1 / 0 }}", "template: {{ 1 / 0 }}: division by zero"],
    ["{{ list | sort ~ words | join | sort }}", expect.stringContaining("a")],
    ["{{ [1, 'a'] | sort }}", "template: {{ [1, 'a'] | sort }}: sort needs numbers, or texts"],
    ["{{ 'x' | b64decode }}", "template: {{ 'x' | b64decode }}: b64decode needs Base64 of a text in UTF-8"],
    ["{{ '{' | fromjson }}", "template: {{ '{' | fromjson }}: fromjson needs a text with JSON"],
    ["{{ text | split('') }}", "template: {{ text | split('') }}: split searches for a text of 1 to 200 characters"],
    ["{{ {'__proto__': 1} }}", "template: {{ {'__proto__': 1} }}: the key __proto__ is not allowed"],
    ["{{ list[::0] }}", "template: {{ list[::0] }}: the step of a slice cannot be 0"],
    ["{{ city | raw }}", "template: raw is allowed only in the command of a shell step"],
    ["x {{ city", 'template: missing "}}" (at character 5)'],
  ])("of %s", (text, expected) => {
    expect(fill(text)).toEqual(expected);
  });

  it.each<[string, unknown]>([
    ["{{ nope }}", ""],
    ["a {{ nope.b }} {{ nothing }}.", "a  ."],
    ["{{ nothing }}", null],
    ["{{ [nope] }}", [null]],
    ["{{ nope ~ 'a' }}", "a"],
  ])("of %s, where what is missing is empty", (text, expected) => {
    expect(fill(text, "empty")).toEqual(expected);
  });
});

describe("a filled value", () => {
  it("has the same keys, and its texts are filled", () => {
    const value = { "{{ city }}": ["{{ count }}", { a: "{{ order.id }}" }, 1, null, true], b: {} };
    expect(fillValue(value, scope, STRICT)).toEqual({ "{{ city }}": [3, { a: 7 }, 1, null, true], b: {} });
    expect(fillValue("{{ count }}", scope, STRICT)).toBe(3);
  });

  it("is a copy, and plain JSON", () => {
    const filled = fillValue({ a: "{{ order }}", b: new Date(0), c: [() => 1, Number.NaN] }, scope, STRICT);
    expect(filled).toEqual({ a: NAMES.order, c: [null, null] });
    expect((filled as { a: unknown }).a).not.toBe(NAMES.order);
    const proto = fillValue(JSON.parse('{"__proto__": {"x": "{{ city }}"}}'), scope, STRICT);
    expect(JSON.stringify(proto)).toBe('{"__proto__":{"x":"Bern"}}');
    expect(Object.getPrototypeOf(proto)).toBe(Object.prototype);
  });

  it("names the path of what cannot be filled", () => {
    const failing = () => fillValue({ a: [{}, { b: "x {{ nope }}" }] }, scope, STRICT);
    expect(failing).toThrow(expect.objectContaining({ code: "undefined", path: ["a", 1, "b"] }));
  });

  it("is at most 1 MiB, and made with bounded work", () => {
    const big = (name: string) => (name === "big" ? "x".repeat(600_000) : undefined);
    const tooLarge = expect.objectContaining({ code: "too_large" });
    expect(fillText("{{ big }}", big, STRICT)).toHaveLength(600_000);
    expect(() => fillText("{{ big }}{{ big }}", big, STRICT)).toThrow(tooLarge);
    expect(() =>
      fillText("{{ big | upper | lower | upper | lower | upper | lower | upper | length }}", big, STRICT),
    ).toThrow(tooLarge);
    expect(() => fillValue("ä".repeat(600_000), scope, STRICT)).toThrow(tooLarge);
    expect(() => fillText("{{ big | replace('x', 'yyyyyyyyyy') }}", big, STRICT)).toThrow(tooLarge);
    let deep: unknown = 1;
    for (let i = 0; i < 300; i++) deep = [deep];
    expect(() => fillValue(deep, scope, STRICT)).toThrow(tooLarge);
    expect(() => fillText("{{ deep }}", () => deep, STRICT)).toThrow(expect.objectContaining({ code: "template" }));
  });
});

describe("a condition", () => {
  it.each<[string, boolean]>([
    ["{{ list | length }}", true],
    ["list | length", true],
    ["{{ empty | length }}", false],
    ["{{ empty }}", false],
    ["order", true],
    ["{}", false],
    ["{{ false_text }}", false],
    ["'anything'", true],
    ["'0'", true],
    ["' OFF '", false],
    ["'N'", false],
    ["'None'", false],
    ["''", false],
    ["0", false],
    ["0.1", true],
    ["-1", true],
    ["true", true],
    ["nothing", false],
    ["nope", false],
    ["nope.a.b == None", true],
    ["nope != None", false],
    ["  {{- count == 3 -}}\n", true],
    ["{{ {'a': {'b': 1}} }}", true],
    ["step.status == 'own' if step else 0", true],
  ])("%s is %s", (source, value) => {
    expect(evaluateWhen(source, scope)).toEqual({ value, error: null });
  });

  it("is false with the reason where it cannot be evaluated", () => {
    expect(evaluateWhen("1 / 0", scope)).toEqual({ value: false, error: "division by zero" });
    expect(evaluateWhen("range(3)", scope).error).toMatch(/^range\(\) is not supported/);
    expect(evaluateWhen("city | raw", scope).error).toMatch(/^raw is allowed only/);
    const trap = () => {
      throw new Error("no");
    };
    expect(evaluateWhen("a", trap)).toEqual({ value: false, error: "the condition or its values are not readable" });
  });

  // The position is that of the first "^" in the second column.
  it.each<[string, string]>([
    ["", "^"],
    ["  ", "^"],
    ["{{ x }} == word", "        ^"],
    ["{{ x }}{{ y }}", "       ^"],
    ["x == {{ y }}", "     ^"],
    ["{{ }}", "   ^"],
    ["x y", "  ^"],
    ["{% if x %}", "^"],
    ["x }}", "  ^"],
  ])("%j is refused", (source, marker) => {
    expect(refusalOf(parseWhen, source).offset).toBe(marker.length - 1);
  });
});

describe("a mistake in a template", () => {
  it.each<[string, string, string, string]>([
    ["a {% if x %}b{% endif %}", "  ^", "template_statement", "write {{ a if condition else b }}"],
    ["{%- for x in y %}", "^", "template_statement", "use a loop step"],
    ["{% raw %}", "^", "template_statement", "{{ '{{' }}"],
    ["{{ x }}{%", "       ^", "template_statement", "{% … %} is not supported"],
    ["{{ x.get('a') }}", "   ^", "template_call", "write x.key | default(value)"],
    ["{{ len(x) }}", "   ^", "template_call", "len() is not supported, templates have no calls; write x | length"],
    ["a {{ 1 + range(3) }}", "         ^", "template_call", "use a slice"],
    ["{{ now(1) }}", "   ^", "template_call", "write now, without arguments"],
    ["{{ (x)('y') }}", "   ^", "template_call", "templates have no calls"],
    ["{{ x | upper }} {{ y.upper() }}", "                   ^", "template_call", "write x | upper"],
    ["{{ x", "  ^", "template_syntax", 'missing "}}"'],
    ["{{ x }", "  ^", "template_syntax", 'missing "}}"'],
    ["{{ it's }}", "     ^", "template_syntax", "does not end"],
    ["{{ x | uper }}", "       ^", "template_syntax", 'unknown filter "uper"; did you mean "upper"?'],
    ["{{ x is odd }}", "        ^", "template_syntax", 'unknown test "odd"'],
    ["{{ x | replace('a') }}", "       ^", "template_syntax", "has 2 arguments; got 1"],
    ["{{ x | raw | upper }}", "       ^", "template_syntax", "raw must be the last"],
    ["{{ (x | raw) }}", "        ^", "template_syntax", "raw must be the last"],
    ["{{ x = 1 }}", "     ^", "template_syntax", 'unexpected "="; write == to compare'],
    ["{{ 1 < x < 3 }}", "         ^", "template_syntax", 'need "and" or parentheses'],
    ["{{ x; y }}", "    ^", "template_syntax", '";" is not allowed'],
    ["{{ x 💥 }}", "     ^", "template_syntax", '"💥" is not allowed'],
    [String.raw`{{ 'a\d' }}`, "     ^", "template_syntax", "unknown escape"],
    ["{{ {'a' 1} }}", "        ^", "template_syntax", 'unexpected "1"; expected ":"'],
    ["{{ [1 2] }}", "      ^", "template_syntax", 'expected ","'],
    ["{{ x['a' y] }}", "         ^", "template_syntax", 'expected ":"'],
    ["{{ x. }}", "      ^", "template_syntax", "expected the name of a member"],
    ["{{ x | default('a').b }}", "                   ^", "template_syntax", 'unexpected "."'],
    ["{{ or }}", "   ^", "template_syntax", 'unexpected "or"'],
    ["{{ x }} {{ }}", "           ^", "template_syntax", "unexpected end"],
  ])("%s is reported with its position", (text, marker, code, message) => {
    const error = refusalOf(parseTemplate, text);
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) });
    expect(`${" ".repeat(error.offset)}^`).toBe(marker);
  });

  it("is one beyond a limit", () => {
    const within = [`'${"x".repeat(990)}'`, `[${"1,".repeat(99)}]`, `${"(".repeat(19)}1${")".repeat(19)}`];
    const beyond = [`'${"x".repeat(1_000)}'`, `[${"1,".repeat(100)}]`, `${"(".repeat(20)}1${")".repeat(20)}`];
    for (const each of within) expect(parseTemplate(`{{ ${each} }}`).isWhole).toBe(true);
    for (const each of [...beyond, `x${" ".repeat(1_000)}+ 1`]) {
      expect(refusalOf(parseTemplate, `{{ ${each} }}`).message).toMatch(
        /longer than 1000|more than 100|deeper than 20/,
      );
    }
    for (const each of ["(", "[", "{", "not ", "-", "a[", "1 if 1 else ", "x|int(", "a or ("]) {
      expect(refusalOf(parseTemplate, `{{ ${each.repeat(1_000 / each.length)} }}`).code).toBe("template_syntax");
    }
  });
});

describe("a parsed template", () => {
  it("has positions of its parts, and is frozen", () => {
    const template = parseTemplate("a {{ x }} b {{- y.z | raw }}");
    expect(template).toMatchObject({
      isWhole: false,
      parts: [
        "a ",
        { at: 2, end: 9, isRaw: false, tree: { kind: "name", name: "x", at: 5 } },
        " b",
        { at: 12, isRaw: true },
      ],
    });
    expect(Object.isFrozen(template.parts[1])).toBe(true);
    expect(parseTemplate("a {{ x }} b {{- y.z | raw }}")).toBe(template);
    expect(parseWhen(" x ").parts).toMatchObject([{ at: 1, end: 3 }]);
    expect(["{{", "a {% b", "{ {", "plain"].map(hasTemplate)).toEqual([true, true, false, false]);
  });

  it.each<[string, string[]]>([
    ["{{ a }} {{ b.c[0]['d'].e }}", ["a", "b.c.0.d.e"]],
    ["{{ a[b.c].d }}", ["a", "b.c"]],
    ["{{ a.b[1:c] }}", ["a.b", "c"]],
    ["{{ a.b | default(c) or d }}", ["(a.b)", "(c)", "d"]],
    ["{{ a is defined }}{{ b.c is none }}", ["(a)", "(b.c)"]],
    ["{{ a if b else a.c + b.d + e }}", ["(b)", "a", "a.c", "(b.d)", "e"]],
    ["{{ a and a.b == c }}", ["a", "(a.b)", "c"]],
    ["{{ a is defined and a.b }}", ["(a)", "(a.b)"]],
    ["{{ {a: [b, -c]} | join(d) }}", ["a", "b", "c", "d"]],
    ["{{ 'x' }} now", []],
  ])("of %s has the names %j", (text, names) => {
    const uses = namesOfTemplate(parseTemplate(text));
    const shown = uses.map(({ name, members, isCovered }) => {
      const path = [name, ...members].join(".");
      return isCovered ? `(${path})` : path;
    });
    expect(shown).toEqual(names);
    for (const { name, offset } of uses) expect(text.startsWith(name, offset)).toBe(true);
  });
});
