/** Makes conditions at random: good ones from the grammar, hostile ones as an attacker would write them, soup of pieces, and
 *  all of these with a few characters changed. */
import type { Dice } from "../dice.ts";

const NAMES = ["result", "data", "status_code", "error", "success", "attempt", "execution_id", "node_id", "failure"];
const KEYS = ["a", "list", "getter", "method", "deep", "state", "length", "0", "__proto__", "constructor", "prototype"];
const OPERATORS = [..."and or in == != < <= > >= + - * / // % ~".split(" "), "not in"];
const FILTERS = ["length", "lower", "upper", "trim", "int", "float", "default", "default(0)", "default('x', true)"];
const TESTS = ["defined", "undefined", "none", "None", "true", "number", "string", "boolean"];
const TEXTS = [
  "'a'",
  '"b"',
  "''",
  "'503'",
  "'__proto__'",
  "'constructor'",
  "'it\\'s'",
  "'é😀\u202e'",
  `'${"x".repeat(150)}'`,
];
const NUMBERS = ["0", "1", "503", "0.5", "1000000", "9".repeat(300), "9".repeat(400), `0.${"1".repeat(200)}`];

/** What has broken out of other template engines, or hung them. */
const HOSTILE = [
  ...["data.__proto__", "data['__proto__']['polluted']", "data['__pro' ~ 'to__']", "data.constructor.prototype"],
  ...["''.constructor", "''.__class__.__mro__[1].__subclasses__()", "[].constructor.constructor", "(1).constructor"],
  ...["data.constructor('return process')()", "data['constructor']['constructor']", "data.method()", "data.getter"],
  ...["range(30000000)", "range(1, 10**9) | length", "cycler.__init__.__globals__.os", "lipsum.__globals__", "self"],
  ...["joiner()", "namespace(a=1)", "dict(a=1)", "{'a': 1}.a", "{% for x in range(9) %}{{ x }}{% endfor %}", "{# c #}"],
  ...["data | attr('__proto__')", "data | map('constructor') | list", "data | tojson", "error | safe", "error | e"],
  ...[
    "globalThis",
    "process.env",
    "this",
    "require('fs')",
    "import('fs')",
    "eval('1')",
    "`$" + "{1}`",
    "$&",
    "\\u0041",
  ],
  ...[
    "data.list.map",
    "data.list.constructor",
    "data.list['length']",
    "failure.every",
    "failure.concat",
    "failure[-1]",
  ],
  ...["failure + failure", "failure + failure + failure", "failure == failure", "1 in failure", "result == result"],
  ...["result == data", "result in [result, data]", "result.toString", "result['then']", "result.toJSON", "not result"],
  ...["error ~ error ~ error ~ error", "error in error", "error * 1000000", "1 / 0", "1 // 0", "1 % 0", "9 ** 9 ** 9"],
  ...[
    "1 if true else 2",
    "a = 1",
    "x := 1",
    "a; b",
    "data?.a",
    "data!.a",
    "a ? b : c",
    "!a",
    "a && b",
    "a || b",
    "a === b",
  ],
];

const PIECES = [
  ...NAMES,
  ...KEYS,
  ...OPERATORS,
  ..."( ) [ ] { } {{ }} {% %} {# #} , . | : ; = ! & ' \" \\ ` $ ? is not if else for in None True".split(" "),
  ..."1 0.5 1e9 0x10 \u0000 \u2028 \ud800 é 😀 ① ｄａｔａ".split(" "),
];

export function expression(dice: Dice): string {
  const source = dice.pick([valid, valid, hostile, soup, nested, long] as const)?.(dice) ?? "";
  const changed = dice.chance(0.25) ? mutated(dice, source) : source;
  return dice.chance(0.5) ? `{{ ${changed} }}` : changed;
}

function valid(dice: Dice): string {
  return part(dice, dice.below(6));
}

function part(dice: Dice, depth: number): string {
  const inner = () => part(dice, depth - 1 - dice.below(2));
  if (depth <= 0) return dice.pick([dice.pick(NAMES), dice.pick(TEXTS), dice.pick(NUMBERS), "None", "True"]) ?? "1";
  switch (dice.below(8)) {
    case 0:
      return `${dice.pick(NAMES)}.${dice.pick(KEYS)}`;
    case 1:
      return `${dice.pick(NAMES)}[${inner()}]`;
    case 2:
      return `(not ${inner()})`;
    case 3:
      return `(${inner()} | ${dice.pick(FILTERS)})`;
    case 4:
      return `(${inner()} is ${dice.pick(TESTS)})`;
    case 5:
      return `[${dice.times(dice.below(4), inner).join(", ")}]`;
    default:
      return `(${inner()} ${dice.pick(OPERATORS)} ${inner()})`;
  }
}

function hostile(dice: Dice): string {
  const one = dice.pick(HOSTILE) ?? "";
  if (dice.chance(0.5)) return one;
  return `${one} ${dice.pick(OPERATORS)} ${dice.chance(0.5) ? dice.pick(HOSTILE) : valid(dice)}`;
}

function soup(dice: Dice): string {
  const gap = dice.pick(["", " ", "\n", "\t"]);
  return dice.times(dice.below(40), () => dice.pick(PIECES)).join(gap);
}

/** Deeper than allowed, as often as not; with and without its end. */
function nested(dice: Dice): string {
  const [open, close] =
    dice.pick([
      ["(", ")"],
      ["[", "]"],
      ["not ", ""],
      ["-", ""],
      ["data[", "]"],
      ["(1 + ", ")"],
    ]) ?? [];
  const depth = 1 + dice.below(dice.chance(0.3) ? 2_000 : 30);
  return `${open?.repeat(depth)}${valid(dice)}${dice.chance(0.8) ? close?.repeat(depth) : ""}`;
}

function long(dice: Dice): string {
  const one = ` ${dice.pick(["or", "and", "+", "~", ",", "|", "."])} ${dice.pick([...PIECES, ...TEXTS])}`;
  return `${dice.pick(NAMES)}${one.repeat(dice.below(dice.chance(0.2) ? 10_000 : 120))}`;
}

function mutated(dice: Dice, source: string): string {
  let text = source;
  for (let change = 0; change <= dice.below(4); change++) {
    const at = dice.below(text.length + 1);
    const [before, after] = [text.slice(0, at), text.slice(at)];
    text =
      dice.pick([`${before}${after.slice(1)}`, `${before}${dice.pick(PIECES)}${after}`, `${after}${before}`]) ?? text;
  }
  return text;
}
