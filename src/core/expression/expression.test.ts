import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { ConfigError } from "../errors.ts";
import { type ConditionNode, evaluate, isTrue } from "./evaluate.ts";
import { CONDITION_VARIABLES, type Condition, evaluateCondition, parseCondition } from "./expression.ts";
import { FILTERS, TESTS } from "./filters.ts";

const VARIABLES = {
  result: { ok: false, items: [1, [2, 3], { name: "x" }], total: null },
  data: { state: "PENDING", in: 1, list: ["a", "b", null], nested: { deep: { er: 7 } }, 7: "seven", text: " Yes " },
  status_code: 503,
  error: "connect ETIMEDOUT",
  success: false,
  attempt: 3,
  exit_code: null,
};

/** The value of an expression, or the error's text. */
function calc(source: string, variables: Record<string, unknown> = VARIABLES): unknown {
  try {
    return evaluate(parseCondition(source).tree, variables);
  } catch (error) {
    return `error: ${(error as Error).message}`;
  }
}

function refusalOf(source: string, path?: string, names?: readonly string[]): ConfigError {
  try {
    parseCondition(source, path, names);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error(`accepted: ${source}`);
}

describe("the value of an expression", () => {
  it.each<[string, unknown]>([
    // literals
    ["1", 1],
    ["1.25", 1.25],
    ["'a'", "a"],
    [`"it's"`, "it's"],
    [String.raw`'a\n\t\'\"\\'`, "a\n\t'\"\\"],
    ["'{% generation %} {{ x }} {# y #}'", "{% generation %} {{ x }} {# y #}"],
    ["true", true],
    ["True", true],
    ["false", false],
    ["False", false],
    ["none", null],
    ["None", null],
    ["null", null],
    ["[]", []],
    ["[1, 'a', [true]]", [1, "a", [true]]],
    ["(1, 2)", [1, 2]],
    ["((1))", 1],
    // names and members
    ["attempt", 3],
    ["signal", undefined],
    ["signal.a['b'][0]", undefined],
    ["data.state", "PENDING"],
    ["data['state']", "PENDING"],
    ["data.in", 1],
    ["data.nested.deep.er", 7],
    ["data.7", "seven"],
    ["data[7]", "seven"],
    ["data[7.5]", undefined],
    ["data[true]", undefined],
    ["data[none]", undefined],
    ["result.items[0]", 1],
    ["result.items.1.0", 2],
    ["result.items[-1].name", "x"],
    ["result.items[-4]", undefined],
    ["result.items[3]", undefined],
    ["result.items['0']", undefined],
    ["result.items.length", undefined],
    ["error.length", undefined],
    ["error[0]", undefined],
    ["attempt.toFixed", undefined],
    ["data[data.list[0]]", undefined],
    ["[1, 2][1]", 2],
    // comparison
    ["status_code == 503", true],
    ["status_code != 503", false],
    ["status_code == '503'", false],
    ["'503' == status_code", false],
    ["1 == true", true],
    ["0 == False", true],
    ["1 == 1.0", true],
    ["true == 'true'", false],
    ["signal == None", true],
    ["exit_code == None", true],
    ["error != None", true],
    ["None == 0", false],
    ["'' == None", false],
    ["'ab' == 'ac'", false],
    ["'ab' == 'abc'", false],
    ["[1, [2]] == (1, [2])", true],
    ["[1] == [1, 2]", false],
    ["[1] == [2]", false],
    ["[] == 'x'", false],
    ["[] == data", false],
    ["0 == []", false],
    ["result.items[2] == result.items[2]", true],
    ["result == data", false],
    ["data.nested == data.nested.deep", false],
    ["2 < 3", true],
    ["3 < 3", false],
    ["3 <= 3", true],
    ["3 > 2", true],
    ["2 >= 3", false],
    ["'a' < 'b'", true],
    ["'a' <= 'a'", true],
    ["'b' > 'a'", true],
    ["'10' > 9", false],
    ["'10' <= 9", false],
    ["signal < 1", false],
    ["signal >= 1", false],
    ["None < 1", false],
    ["1 <= None", false],
    ["true < 2", false],
    ["[1] < [2]", false],
    // and, or, not
    ["1 and 2", 2],
    ["0 and 2", 0],
    ["0 or 'x'", "x"],
    ["'a' or 'x'", "a"],
    ["'' or []", []],
    ["not ''", true],
    ["not []", true],
    ["not [0]", false],
    ["not data", false],
    ["not signal", true],
    ["not 0.0", true],
    ["not not 1", true],
    ["not 1 == 2", true],
    ["true or 1 / 0", true],
    ["false and 1 / 0", false],
    ["1 or 0 and 0", 1],
    // in
    ["503 in [500, 503]", true],
    ["504 in (500, 503)", false],
    ["504 not in [500, 503]", true],
    ["[2, 3] in result.items", true],
    ["None in data.list", true],
    ["'ETIMEDOUT' in error", true],
    ["'' in ''", true],
    ["'longer than it' in 'it'", false],
    ["5 in '5'", false],
    ["'state' in data", true],
    ["'State' in data", false],
    ["7 in data", false],
    ["'x' in signal", false],
    ["'x' not in None", true],
    ["not 'x' in error", true],
    ["'x' in 5", 'error: "in" cannot search a number'],
    // arithmetic
    ["1 + 2 * 3", 7],
    ["(1 + 2) * 3", 9],
    ["7 - 2 - 1", 4],
    ["attempt -1", 2],
    ["7 / 2", 3.5],
    ["7 // 2", 3],
    ["-7 // 2", -4],
    ["7 % 3", 1],
    ["-7 % 3", 2],
    ["7 % -3", -2],
    ["6 % -3", 0],
    ["-attempt", -3],
    ["- -attempt", 3],
    ["-0", 0],
    ["2--1", 3],
    ["'a' + 'b'", "ab"],
    ["[1] + [2, 3]", [1, 2, 3]],
    ["'a' ~ 1 ~ true ~ false ~ None ~ signal", "a1TrueFalse"],
    ["1 / 0", "error: division by zero"],
    ["1 // 0", "error: division by zero"],
    ["1 % 0", "error: division by zero"],
    ["'a' * 3", "error: cannot calculate text * a number"],
    ["3 * 'a'", "error: cannot calculate a number * text"],
    ["[1] * 3", "error: cannot calculate a list * a number"],
    ["data + result", "error: cannot calculate an object + an object"],
    ["signal + 1", "error: cannot calculate None + a number"],
    ["true + 1", "error: cannot calculate true or false + a number"],
    ["'a' + [1]", "error: cannot calculate text + a list"],
    ["[1] + 'a'", "error: cannot calculate a list + text"],
    ["-'a'", "error: cannot calculate a number - text"],
    ["'a' ~ []", "error: a list is not text"],
    [`1${"0".repeat(300)} * 1${"0".repeat(300)}`, "error: 1e+300 * 1e+300 is too large"],
    // tests
    ["error is defined", true],
    ["exit_code is defined", true],
    ["signal is defined", false],
    ["signal is not defined", true],
    ["signal is undefined", true],
    ["data.missing is defined", false],
    ["exit_code is none", true],
    ["signal is None", true],
    ["error is not null", true],
    ["success is false", true],
    ["success is False", true],
    ["success is true", false],
    ["1 is True", false],
    ["success is boolean", true],
    ["attempt is number", true],
    ["error is string", true],
    ["not error is none and true", true],
    ["2 * 3 == 6 is defined", false],
    // filters
    ["error | length", 17],
    ["result.items|length", 3],
    ["result|length == 3", true],
    ["signal|length", 0],
    ["None|length", 0],
    ["5|length", "error: a number has no length"],
    ["true|length", "error: true or false has no length"],
    ["error|lower", "connect etimedout"],
    ["error|upper|lower|length", 17],
    ["'timed' in error|lower", true],
    ["signal|upper", ""],
    ["503|upper", "503"],
    ["data|lower", "error: an object is not text"],
    ["data.text|trim", "Yes"],
    ["signal|default('x')", "x"],
    ["signal|default", ""],
    ["exit_code|default(1)", null],
    ["exit_code|default(1, true)", 1],
    ["exit_code|default(1, false)", null],
    ["attempt|default(1, true)", 3],
    ["' 12 '|int", 12],
    ["'12.9'|int", 12],
    ["-12.9|int", -12],
    ["'1e3'|float", 1000],
    ["'.5'|float", 0.5],
    ["'-5.'|float", -5],
    ["true|int", 1],
    ["'x'|int", 0],
    ["''|int", 0],
    ["'0x10'|int", 0],
    ["'1e999'|float", 0],
    ["'x'|int(-1)", -1],
    ["'x'|float(signal)", 0],
    ["None|float(2.5)", 2.5],
    ["[1]|int", 0],
    ["'1' * 2 | int", "error: cannot calculate text * a number"],
    ["('1'|int) * 2", 2],
  ])("%s", (source, expected) => {
    expect(calc(source)).toEqual(expected);
  });

  it("is read from own variables only", () => {
    const inherited = Object.create({ error: "inherited" });
    expect(calc("error", inherited)).toBeUndefined();
    expect(calc("error", { error: "own" })).toBe("own");
  });

  it.each<[string, unknown]>([
    ["a function", () => 1],
    ["a symbol", Symbol("x")],
    ["a bigint", 1n],
    ["a date", new Date(0)],
    ["a map", new Map([["a", 1]])],
    [
      "an instance",
      new (class Secret {
        a = 1;
      })(),
    ],
  ])("takes %s for missing", (_, value) => {
    expect(calc("data is defined", { data: value })).toBe(false);
    expect(calc("data.a is defined", { data: { a: value } })).toBe(false);
    expect(calc("data == [None]", { data: [value] })).toBe(true);
  });

  it("reads objects without a prototype", () => {
    const data = Object.assign(Object.create(null), { a: 1 });
    expect(calc("data.a == 1 and data == result", { data, result: { a: 1 } })).toBe(true);
    expect(calc("data == result", { data: { a: 1 }, result: { b: 1 } })).toBe(false);
  });
});

describe("evaluateCondition", () => {
  it.each<[unknown, boolean]>([
    [true, true],
    [1, true],
    ["true", true],
    ["yes", true],
    ["1", true],
    [" YES\n", true],
    ["True", true],
    [false, false],
    [0, false],
    [2, false],
    ["", false],
    ["no", false],
    ["on", false],
    ["truely", false],
    ["1.0", false],
    [null, false],
    [undefined, false],
    [[true], false],
    [{ a: 1 }, false],
  ])("takes the result %j for %j", (value, expected) => {
    expect(isTrue(value)).toBe(expected);
    expect(evaluateCondition("{{ result }}", { result: value })).toEqual({ value: expected, error: null });
  });

  it.each<[string, boolean]>([
    ["{{ status_code >= 500 or error != None }}", true],
    ["{{status_code>=500}}", true],
    ["  {{- status_code >= 500 -}}\n", true],
    ["status_code >= 500 and status_code < 600", true],
    ["{{ data.state == 'PENDING' }}", true],
    ["{{ success == true }}", false],
    ["{{ exit_code in [137, 139] }}", false],
    ["{{7*7}}", false],
    ["-1", false],
    ["{{ '}}' in '{{ }}' }}", true],
    ["status_code\n>=\t500", true],
  ])("evaluates %j", (source, value) => {
    expect(evaluateCondition(source, VARIABLES)).toEqual({ value, error: null });
    expect(evaluateCondition(parseCondition(source), VARIABLES)).toEqual({ value, error: null });
  });

  it("returns false and the reason when there is no value", () => {
    expect(evaluateCondition("1 / 0 == 1", {})).toEqual({ value: false, error: "division by zero" });
    expect(evaluateCondition("not (1 / 0)", {})).toEqual({ value: false, error: "division by zero" });
    const { value, error } = evaluateCondition("statuscode == 1", {});
    expect(value).toBe(false);
    expect(error).toMatch(/^condition: unknown name "statuscode" at character 1; .* Did you mean "status_code"\?$/);
  });

  it("survives variables that throw, and trees that are not ours", () => {
    const trap = new Proxy({}, { getOwnPropertyDescriptor: () => expect.unreachable() });
    const error = "the condition or its variables are not readable";
    expect(evaluateCondition("error", trap)).toEqual({ value: false, error });
    expect(evaluateCondition("data.a", { data: trap })).toEqual({ value: false, error });
    expect(evaluateCondition(null as never, {})).toEqual({ value: false, error });
    const forged = { source: "x()", tree: { kind: "call" } } as unknown as Condition;
    expect(evaluateCondition(forged, {}).error).toBe("the condition is not from parseCondition");
  });
});

describe("parseCondition", () => {
  it("gives a frozen plain tree that survives JSON", () => {
    const condition = parseCondition("{{ data.a not in [1] }}");
    expect(condition).toEqual({
      source: "{{ data.a not in [1] }}",
      tree: {
        kind: "binary",
        operator: "not in",
        left: { kind: "member", object: { kind: "name", name: "data" }, key: { kind: "literal", value: "a" } },
        right: { kind: "list", items: [{ kind: "literal", value: 1 }] },
      },
    });
    expect(Object.isFrozen(condition) && Object.isFrozen(condition.tree)).toBe(true);
    expect(evaluateCondition(JSON.parse(JSON.stringify(condition)), { data: { a: 2 } }).value).toBe(true);
  });

  it("knows every documented variable, and others when they are named", () => {
    for (const name of CONDITION_VARIABLES) expect(parseCondition(name).tree).toEqual({ kind: "name", name });
    expect(parseCondition("steps.a", "when", ["steps"]).source).toBe("steps.a");
    expect(refusalOf("error", "when", ["steps"]).message).toMatch(/^when: unknown name "error" at character 1;/);
  });

  // The position is that of the first "^" in the second column.
  it.each<[string, string, string]>([
    // not one expression
    ["", "^", "unexpected end"],
    ["  ", "  ^", "unexpected end"],
    ["{{}}", "  ^", "unexpected end"],
    ["{{-}}", "   ^", "unexpected end"],
    ["{{--}}", "   ^", "unexpected end"],
    ["{{ }}", "   ^", "unexpected end"],
    ["{{ error", "        ^", 'missing "}}"'],
    ["  {{ attempt > 2  ", "                ^", 'missing "}}"'],
    ["{{ attempt\n> 2 }", "                ^", 'missing "}}"'],
    ["{{}", "   ^", 'missing "}}"'],
    ["{{ error == '}}'", "^", '"{{" is not allowed'],
    ["error }}", "      ^", '"}}" is not allowed'],
    ["{{ error }} {{ data }}", "         ^", '"}}" is not allowed'],
    ["{{ error }} or so", "^", '"{{" is not allowed'],
    ["is {{ error }}", "   ^", '"{{" is not allowed'],
    ["{{ {{ error }} }}", "   ^", '"{{" is not allowed'],
    ["{% if error %}1{% endif %}", "^", '"{%" is not allowed'],
    ["{{ error {% generation %} }}", "         ^", '"{%" is not allowed'],
    ["error %}", "      ^", '"%}" is not allowed'],
    ["{# error #}", "^", '"{#" is not allowed'],
    ["{{ error #} }}", "         ^", '"#}" is not allowed'],
    ["error, data", "     ^", 'unexpected ","'],
    ["error data", "      ^", 'unexpected "data"'],
    ["error 'x'", "      ^", 'unexpected "x"'],
    ["'a' 'b'", "    ^", 'unexpected "b"'],
    // characters and literals
    ["error @ 1", "      ^", '"@" is not allowed'],
    ["error == '💥' 💥", "              ^", '"💥" is not allowed'],
    ["erreur_é", "       ^", '"é" is not allowed'],
    ["error == 'x", "         ^", "unterminated text"],
    ['error == "x\\"', "         ^", "unterminated text"],
    [String.raw`error == 'a\d'`, "           ^", String.raw`unknown escape "\\d"`],
    ["1e5", " ^", 'unexpected "e5"'],
    ["1_000", " ^", 'unexpected "_000"'],
    ["attempt.", "        ^", "unexpected end"],
    ["attempt > 1.", "            ^", "unexpected end"],
    ["attempt > .5", "          ^", 'unexpected "."'],
    [`attempt < ${"9".repeat(400)}`, "          ^", "number too large"],
    ["{'a': 1}", "^", '"{" is not allowed'],
    // calls
    ["range(30000000)", "^", "calls are not allowed"],
    ["error and range (3)", "          ^", "calls are not allowed"],
    ["data.get('x')", "     ^", "calls are not allowed"],
    ["data['get']('x')", "          ^", "calls are not allowed"],
    ["(error)('x')", "      ^", "calls are not allowed"],
    ["'a'('x')", "^", "calls are not allowed"],
    ["5('x')", "^", "calls are not allowed"],
    ["none()", "^", "calls are not allowed"],
    ["attempt is divisibleby(2)", "           ^", "calls are not allowed"],
    ["error|default('a')('b')", "                 ^", "calls are not allowed"],
    ["constructor.constructor('return process')()", "^", 'unknown name "constructor"'],
    ["data.constructor.constructor('return process')()", "                 ^", "calls are not allowed"],
    // filters and tests
    ["error|replace('a', 'b')", "      ^", 'unknown filter "replace"'],
    ["error | lenght", "        ^", 'unknown filter "lenght"'],
    ["error|constructor", "      ^", 'unknown filter "constructor"'],
    ["error|in", "      ^", 'unknown filter "in"'],
    ["error|lower('a')", "      ^", "too many arguments for lower"],
    ["1 and (error|int(1, 2))", "             ^", "too many arguments for int"],
    ["error|default(1, 2, 3)", "      ^", "too many arguments for default"],
    ["error|default('a').b", "^", "unsupported expression"],
    ["1 + error|default('a')[0]", "  ^", "unsupported expression"],
    ["error|default(*data)", "              ^", 'unexpected "*"'],
    ["error|default(**data)", "              ^", '"**" is not allowed'],
    ["error|default(data=1)", "                  ^", '"=" is not allowed'],
    ["error|(lower)", "      ^", 'unexpected "("'],
    ["error||data", "      ^", 'unexpected "|"'],
    ["error is odd", "         ^", 'unknown test "odd"'],
    ["error is in [1]", "         ^", 'unknown test "in"'],
    ["error is not in [1]", "             ^", 'unknown test "in"'],
    ["error is not not none", "             ^", 'unknown test "not"'],
    ["error is (none)", "         ^", 'unexpected "("'],
    ["error is not (none)", "             ^", 'unexpected "("'],
    ["error is 'none'", "         ^", 'unexpected "none"'],
    ["error is", "        ^", "unexpected end"],
    ["error is not", "            ^", "unexpected end"],
    // names
    ["status == 500", "^", 'unknown name "status"'],
    ["error == Null", "         ^", 'unknown name "Null"'],
    ["__proto__", "^", 'unknown name "__proto__"'],
    ["process.env", "^", 'unknown name "process"'],
    ["loop.index", "^", 'unknown name "loop"'],
    // forms of Jinja that conditions do not have
    ["error = 1", "      ^", '"=" is not allowed'],
    ["error === 1", "        ^", '"=" is not allowed'],
    ["attempt ** 2", "        ^", '"**" is not allowed'],
    ["1 if error else 2", "  ^", "if is not allowed"],
    ["data if error", "     ^", "if is not allowed"],
    ["error else 2", "      ^", "else is not allowed"],
    ["data[1:2]", "      ^", '":" is not allowed'],
    ["+attempt", "^", 'unexpected "+"'],
    ["1 < attempt < 5", "            ^", 'comparisons in a row need "and" or parentheses'],
    ["1 in [1] == true", "         ^", 'comparisons in a row need "and" or parentheses'],
    ["1 == 2 not in data", "       ^", 'comparisons in a row need "and" or parentheses'],
    // what the parser would misread
    ["[1 2]", "   ^", 'unexpected "2"'],
    ["[1 not error]", "   ^", 'unexpected "not"'],
    ["data['a' error]", "         ^", 'unexpected "error"'],
    ["data.(error)", "     ^", 'unexpected "("'],
    ["data.-1", "     ^", 'unexpected "-"'],
    ["data.'a'", "     ^", 'unexpected "a"'],
    ["error == not", "         ^", 'unexpected "not"'],
    ["- not error", "  ^", 'unexpected "not"'],
    ["or", "^", 'unexpected "or"'],
    ["error and or", "          ^", 'unexpected "or"'],
    ["not in error", "^", 'unexpected "in"'],
    // other grammar
    ["error and", "         ^", "unexpected end"],
    ["error ==", "        ^", "unexpected end"],
    ["{{ error == }}", "            ^", "unexpected end"],
    ["== error", "^", 'unexpected "=="'],
    ["error & data", "      ^", '"&" is not allowed'],
    ["!error", "^", '"!" is not allowed'],
    ["error -", "       ^", "unexpected end"],
    ["(error", "      ^", "unexpected end"],
    ["error)", "     ^", 'unexpected ")"'],
    ["(error]", "      ^", 'unexpected "]"'],
    ["[1, 2", "     ^", "unexpected end"],
    ["[1,, 2]", "   ^", 'unexpected ","'],
    ["()", " ^", 'unexpected ")"'],
    ["(1,)", "   ^", 'unexpected ")"'],
    ["data[]", "     ^", 'unexpected "]"'],
    ["data[1, 2]", "      ^", 'unexpected ","'],
    [`error ${"x".repeat(50)}`, "      ^", `unexpected "${"x".repeat(37)}..."`],
  ])("refuses %j", (source, marker, problem) => {
    const error = refusalOf(source, "retryWhen");
    expect(error.message).toContain(`retryWhen: ${problem} at character ${marker.length};`);
    expect(error).toMatchObject({ code: "invalid_config", path: "retryWhen", given: source });
  });

  it.each([
    ["statuscode", "status_code"],
    ["Error", "error"],
    ["error|lenght", "length"],
    ["error is define", "defined"],
    ["error = 1", "=="],
    ["error && data", "and"],
    ["!error", "not"],
    ["something_else", null],
  ])("answers %j with a hint", (source, hint) => {
    expect(refusalOf(source).nearest).toBe(hint);
  });

  it("names what is allowed", () => {
    expect(refusalOf("x").allowed).toBe(CONDITION_VARIABLES.join(", "));
    expect(refusalOf("error|x").allowed).toBe([...FILTERS.keys()].join(", "));
    expect(refusalOf("error is x").allowed).toBe([...TESTS.keys()].join(", "));
    expect(refusalOf("error(1)").allowed).toMatch(/^one Jinja expression of .*, without calls$/);
    expect(refusalOf(5 as never).message).toBe("condition: must be a condition as text; got 5.");
  });
});

describe("limits", () => {
  const repeat = (count: number, text: string) => text.repeat(count);
  /** `1 in [1, …]` has three nodes beside its items. */
  const listOf = (items: number) => `1 in [${Array(items).fill("1").join(",")}]`;

  it.each<[string, string, string, string]>([
    [
      "characters",
      `error${repeat(995, " ")}`,
      `error${repeat(996, " ")}`,
      "longer than 1000 characters at character 1001",
    ],
    ["characters", `'${repeat(998, "x")}'`, `'${repeat(999, "x")}'`, "longer than 1000 characters at character 1001"],
    ["nodes", listOf(97), listOf(98), "more than 100 nodes at character 3"],
    [
      "depth of not",
      `${repeat(19, "not ")}error`,
      `${repeat(20, "not ")}error`,
      "nested deeper than 20 at character 81",
    ],
    ["depth of minus", `${repeat(19, "-")}1`, `${repeat(20, "-")}1`, "nested deeper than 20 at character 20"],
    [
      "depth of or",
      `${repeat(19, "(1 or ")}1${repeat(19, ")")}`,
      `${repeat(20, "(1 or ")}1${repeat(20, ")")}`,
      "deeper than 20",
    ],
    ["a list of or", `0${repeat(49, " or 1")}`, `0${repeat(50, " or 1")}`, "more than 100 nodes"],
    ["depth of members", `data${repeat(19, ".a")}`, `data${repeat(20, ".a")}`, "nested deeper than 20 at character 1"],
    [
      "depth of filters",
      `'a'${repeat(19, "|int")}`,
      `'a'${repeat(20, "|int")}`,
      "nested deeper than 20 at character 1",
    ],
    [
      "brackets",
      `${repeat(20, "(")}1${repeat(20, ")")}`,
      `${repeat(21, "(")}1${repeat(21, ")")}`,
      "deeper than 20 at character 21",
    ],
    [
      "lists",
      `${repeat(19, "[")}1${repeat(19, "]")}`,
      `${repeat(20, "[")}1${repeat(20, "]")}`,
      "deeper than 20 at character 1",
    ],
  ])("bounds %s", (_, within, beyond, message) => {
    expect(evaluateCondition(within, {}).error).toBeNull();
    expect(refusalOf(beyond).message).toContain(message);
  });

  it("does not overflow the stack on a thousand brackets", () => {
    for (const text of ["(", "[", "not ", "-", "data[", "1|int("]) {
      expect(refusalOf(text.repeat(1000 / text.length)).message).toMatch(/nested deeper than 20|unexpected end|calls/);
    }
  });

  it.each<[string, Record<string, unknown>, string]>([
    [`data${repeat(15, " ~ data")} == ''`, { data: repeat(1_000_000, "x") }, "too large"],
    [`data|upper${repeat(10, "|lower")} == ''`, { data: repeat(1_000_000, "x") }, "too large"],
    [`data${repeat(15, " + data")} == []`, { data: Array(100_000).fill(1) }, "too large"],
    ["data == result", { data: Array(300_000).fill(1), result: Array(300_000).fill(1) }, "too large"],
    ["data == result", { data: repeat(5_000_000, "x"), result: repeat(4_999_999, "x").concat("x") }, "too large"],
    ["data < result", { data: repeat(5_000_000, "x"), result: repeat(5_000_001, "x") }, "too large"],
    ["not data", { data: Object.fromEntries(Array.from({ length: 300_000 }, (_, i) => [`k${i}`, i])) }, "too large"],
    ["'a' in data", { data: repeat(5_000_000, "x") }, "too large"],
    ["result in data", { data: repeat(1_000_000, "a"), result: repeat(201, "a") }, "at most 200 characters"],
    ["data == result", { data: deep(300), result: deep(300) }, "nested too deep"],
    ["data == result", { data: cycle(), result: cycle() }, "nested too deep"],
  ])("bounds the work of %s", (source, variables, error) => {
    const start = process.cpuUsage();
    expect(evaluateCondition(source, variables)).toEqual({ value: false, error: expect.stringContaining(error) });
    expect(spentMs(start)).toBeLessThan(2_000);
  });

  it("searches in the longest result in time, whatever is looked for", () => {
    const data = repeat(1 << 20, "a");
    const start = process.cpuUsage();
    for (const split of [0, 50, 100, 150, 199]) {
      const result = `${repeat(split, "a")}b${repeat(199 - split, "a")}`;
      expect(evaluateCondition("result in data", { data, result })).toEqual({ value: false, error: null });
    }
    expect(spentMs(start)).toBeLessThan(2_000);
  });

  /** Of this process, not of the clock on the wall: what else the machine does is no matter. Some 10 ms alone; without the
   *  bounds it would be minutes. */
  function spentMs(start: NodeJS.CpuUsage): number {
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1_000;
  }

  function deep(levels: number): unknown {
    return levels === 0 ? 1 : [deep(levels - 1)];
  }

  function cycle(): unknown {
    const ring: Record<string, unknown> = {};
    ring.next = ring;
    return ring;
  }
});

describe("what a condition cannot reach", () => {
  it.each([
    "data.__proto__",
    "data['__proto__']",
    "data['__pro' + 'to__']",
    "data.constructor",
    "data['constructor'].prototype",
    "data.prototype",
    "data.toString",
    "data.hasOwnProperty",
    "data.getter",
    "data.method",
    "data.list.map",
    "data.list['length']",
    "data.list.constructor",
    "''.constructor",
    "error.__proto__",
    "attempt.constructor",
    "true.constructor",
    "[].constructor",
  ])("%s is missing", (source) => {
    const data = {
      get getter() {
        throw new Error("a getter was run");
      },
      method: () => 1,
      list: [1],
      // An own property of such a name, as JSON.parse can make it, is not read either.
      ...JSON.parse('{"constructor": {"prototype": 1}, "prototype": 1}'),
    };
    Object.defineProperty(data, "__proto__", { value: 1, enumerable: true });
    expect(calc(source, { data, error: "x", attempt: 1 })).toBeUndefined();
    expect(calc("'__proto__' in data or 'constructor' in data", { data })).toBe(false);
  });

  it("no method or getter of a list is run", () => {
    const ran: string[] = [];
    const list: unknown[] = [1, 2];
    Object.defineProperty(list, 1, { get: () => ran.push("getter"), enumerable: true });
    for (const name of ["every", "some", "concat", "constructor"]) {
      Object.defineProperty(list, name, { value: () => ran.push(name) });
    }
    const data = { list };
    expect(calc("data.list == data.list and [1, None] == data.list and 1 in data.list", { data })).toBe(true);
    expect(calc("data.list + data.list", { data })).toEqual([1, undefined, 1, undefined]);
    expect(calc("2 in data.list", { data })).toBe(false);
    expect(ran).toEqual([]);
  });
});

describe("any text", () => {
  const pieces = fc.constantFrom(
    ..."( ) [ ] { } {{ }} {% %} {# #} , . | : = == != < <= > >= + - ~ * / // % ** ! & ' \" \\ 1 0.5 'a' not in is and or if else".split(
      " ",
    ),
    ...[
      "error",
      "data",
      "true",
      "None",
      "x",
      "defined",
      "none",
      "default",
      "int",
      "range",
      "constructor",
      "{{-",
      "-}}",
    ],
  );
  const soup = fc
    .array(fc.tuple(pieces, fc.constantFrom("", " ", "\n")), { maxLength: 30 })
    .map((all) => all.flat().join(""));
  const value = fc.jsonValue();

  it.each<[string, fc.Arbitrary<string>]>([
    ["of any characters", fc.string({ unit: "binary", maxLength: 1100 })],
    ["of pieces of expressions", soup],
    ["of pieces between braces", soup.map((text) => `{{ ${text} }}`)],
  ])("%s is a condition or refused with a position", (_, texts) => {
    fc.assert(
      fc.property(texts, value, (source, data) => {
        const { value: holds, error } = evaluateCondition(source, { data, error: data });
        expect(typeof holds).toBe("boolean");
        try {
          parseCondition(source);
        } catch (refused) {
          expect(refused).toBeInstanceOf(ConfigError);
          const position = Number(/ at character (\d+);/.exec((refused as ConfigError).message)?.[1]);
          expect(position).toBeGreaterThanOrEqual(1);
          expect(position).toBeLessThanOrEqual(source.length + 1);
          expect(error).toBe((refused as ConfigError).message);
        }
      }),
      { numRuns: rounds(2_000) },
    );
    expect(Object.keys(Object.prototype)).toEqual([]);
  });
});

describe("any tree", () => {
  const operators = [..."and or in == != < <= > >= + - * / // % ~".split(" "), "not in"];
  const { node } = fc.letrec<{ node: ConditionNode }>((tie) => {
    const part = tie("node");
    const text = fc.string({ unit: fc.constantFrom(..."ab'\"\\\n{%}# ") });
    const literal = fc.oneof(text, fc.nat(), fc.constantFrom(0.5, true, false, null));
    const names = fc.constantFrom("data", "error", "result");
    const args = fc.array(part, { maxLength: 1 });
    return {
      node: fc.oneof(
        { depthSize: "medium", withCrossShrink: true },
        literal.map((value) => ({ kind: "literal", value })),
        names.map((name) => ({ kind: "name", name })),
        fc.array(part, { maxLength: 3 }).map((items) => ({ kind: "list", items })),
        fc.record({ kind: fc.constant("member"), object: part, key: part }),
        fc.record({ kind: fc.constant("unary"), operator: fc.constantFrom("not", "-"), operand: part }),
        fc.record({ kind: fc.constant("binary"), operator: fc.constantFrom(...operators), left: part, right: part }),
        fc.record({
          kind: fc.constant("test"),
          test: fc.constantFrom(...TESTS.keys()),
          negated: fc.boolean(),
          operand: part,
        }),
        fc.record({ kind: fc.constant("filter"), filter: fc.constantFrom("default", "int"), operand: part, args }),
        fc
          .record({ kind: fc.constant("filter"), filter: fc.constantFrom(...FILTERS.keys()), operand: part })
          .map((filter) => ({ ...filter, args: [] })),
      ) as fc.Arbitrary<ConditionNode>,
    };
  });

  /** With brackets around everything, so that precedence plays no part. */
  function print(tree: ConditionNode): string {
    switch (tree.kind) {
      case "literal":
        if (typeof tree.value !== "string") return String(tree.value);
        return `'${tree.value.replace(/['\\]/g, "\\$&")}'`;
      case "name":
        return tree.name;
      case "list":
        return `[${tree.items.map(print).join(", ")}]`;
      case "member":
        return `(${print(tree.object)})[${print(tree.key)}]`;
      case "unary":
        return `(${tree.operator} (${print(tree.operand)}))`;
      case "binary":
        return `((${print(tree.left)}) ${tree.operator} (${print(tree.right)}))`;
      case "test":
        return `((${print(tree.operand)}) is ${tree.negated ? "not " : ""}${tree.test})`;
      case "filter":
        return `((${print(tree.operand)})|${tree.filter}${tree.args.length > 0 ? `(${tree.args.map(print)})` : ""})`;
      default:
        throw new Error(`${tree.kind} is only in templates`);
    }
  }

  it("comes back from its text, and evaluates without throwing", () => {
    let parsed = 0;
    fc.assert(
      fc.property(node, fc.jsonValue(), fc.jsonValue(), (tree, data, error) => {
        const source = print(tree);
        const before = JSON.stringify([data, error]);
        expect(typeof evaluateCondition({ source, tree }, { data, error }).value).toBe("boolean");
        expect(JSON.stringify([data, error])).toBe(before);
        try {
          expect(parseCondition(source).tree).toEqual(tree);
          parsed += 1;
        } catch (refused) {
          if (!(refused instanceof ConfigError)) throw refused;
          expect(refused.message).toMatch(/longer than 1000|deeper than 20|more than 100 nodes/);
        }
      }),
      { numRuns: rounds(2_000) },
    );
    expect(parsed).toBeGreaterThan(rounds(2_000) / 8);
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  it("never holds when it has an error, whatever the variables are", () => {
    fc.assert(
      fc.property(node, fc.anything({ withMap: true, withDate: true, withNullPrototype: true }), (tree, data) => {
        const { value, error } = evaluateCondition({ source: "", tree }, { data });
        expect(error === null || value === false).toBe(true);
      }),
    );
  });
});
