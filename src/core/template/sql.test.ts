// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are texts of SQL
import { describe, expect, it } from "vitest";
import { FillError } from "./fill.ts";
import { checkSql, type FilledStatement, fillSql, SqlPlaceError } from "./sql.ts";

const VALUES: Readonly<Record<string, unknown>> = {
  x: "it's $1 ''; drop table t; --",
  n: 3,
  y: true,
  nothing: null,
  list: [1, "a"],
  zero: "a\0b",
};
const scope = (name: string) => VALUES[name];
const X = VALUES.x;

function fill(command: string, mode: "strict" | "empty" = "strict"): readonly FilledStatement[] | string {
  try {
    return fillSql(command, scope, { undefined: mode });
  } catch (error) {
    if (!(error instanceof FillError)) throw error;
    return `${error.code}: ${error.message}`;
  }
}

describe("a command of SQL", () => {
  it.each<[string, ...[text: string, ...values: unknown[]][]]>([
    ["select 1", ["select 1"]],
    ["select {{ x }}, {{n}}", ["select $1, $2", X, 3]],
    ["select '{{ x }}'", ["select $1", X]],
    ["select 'a {{ x }} b {{ n }}', {{ y }}", ["select $1, $2", `a ${X} b 3`, true]],
    ["select {{ nothing }}::int, {{ list }}::jsonb", ["select $1::int, $2::jsonb", null, '[1,"a"]']],
    ["select 'it''s {{ x }}''{{ n }}'''", ["select $1", `it's ${X}'3'`]],
    ["select '''{{ n }}'", ["select $1", "'3"]],
    ["select '' || '{{ n }}' || ''", ["select '' || $1 || ''", "3"]],
    // statements
    ["select {{ n }}; select {{ n }}, {{ x }};", ["select $1", 3], ["select $1, $2", 3, X]],
    [";; select 1 ;\n-- end\n; /* nothing */", ["select 1"]],
    ["select ';' , '{{ n }};{{ n }}'; select 2", ["select ';' , $1", "3;3"], ["select 2"]],
    ['select ";" from "a""b;" where a = {{ n }}', ['select ";" from "a""b;" where a = $1', 3]],
    ["select 1 -- it's ; here\n, {{ n }}", ["select 1 -- it's ; here\n, $1", 3]],
    ["/* ; /* ' */ \" */ select {{ n }}", ["/* ; /* ' */ \" */ select $1", 3]],
    ["do $$ begin; end $$; select {{ n }}", ["do $$ begin; end $$"], ["select $1", 3]],
    ["select $tag$ ; ' $$ $tagg$ $tag$, {{ n }}", ["select $tag$ ; ' $$ $tagg$ $tag$, $1", 3]],
    ["select a$b$c, {{ n }} from t$$; select 2", ["select a$b$c, $1 from t$$", 3], ["select 2"]],
    [
      "create rule r as on insert to t do (select 1; select 2); select 3",
      ["create rule r as on insert to t do (select 1; select 2)"],
      ["select 3"],
    ],
    ["(select {{ n }}) union (select 2)", ["(select $1) union (select 2)", 3]],
    [
      "WITH a AS (SELECT {{ n }}) INSERT INTO t SELECT * FROM a",
      ["WITH a AS (SELECT $1) INSERT INTO t SELECT * FROM a", 3],
    ],
    // literals
    [String.raw`select '\', '{{ n }}\'`, [String.raw`select '\', $1`, "3\\"]],
    [String.raw`select E'\'; ''', '{{ n }}'`, [String.raw`select E'\'; ''', $1`, "3"]],
    ["select name'{{ n }}'", ["select name $1", "3"]],
    ["select a like'{{ n }}%'and b", ["select a like $1 and b", "3%"]],
    ["select 'a {{ n }}'\n  -- it's\n 'b ''{{ n }}'", ["select $1", "a 3b '3"]],
    ["select E'a'\n'\\'', '{{ n }}'", ["select E'a'\n'\\'', $1", "3"]],
    ["select 'a' '{{ n }}'", ["select 'a' $1", "3"]],
    ["select b'1', X'1f', n'a', U&'a', U&\"a\", {{ n }}", ["select b'1', X'1f', n'a', U&'a', U&\"a\", $1", 3]],
    // operators and signs
    [
      "select a ? {{ x }}, a ?| b, a ?& c, a @> '{\"n\": {{ n }}}'",
      ["select a ? $1, a ?| b, a ?& c, a @> $2", X, '{"n": 3}'],
    ],
    [
      "select a->>'{{ n }}', -{{ n }}, {{ n }}::text, a[{{ n }}]",
      ["select a->>$1, -$2, $3::text, a[$4]", "3", 3, 3, 3],
    ],
    ["select '{{ '{{' }} ; {{ n }}'", ["select $1", "{{ ; 3"]],
    ["insert into t values ({{ n }}, '{{ x }}')", ["insert into t values ($1, $2)", 3, X]],
    ["create table t (a text default 'it''s;'); vacuum t", ["create table t (a text default 'it''s;')"], ["vacuum t"]],
  ])("%s", (command, ...statements) => {
    expect(() => checkSql(command)).not.toThrow();
    expect(fill(command)).toEqual(statements.map(([text, ...values]) => ({ text, values })));
  });

  it.each<[string, string]>([
    ["select {{ nope }}", "undefined: {{ nope }}: nope is undefined"],
    ["select '{{ nothing }}'", "template: {{ nothing }}: None has no text; add a default"],
    ["select {{ zero }}", "template: a text of PostgreSQL cannot have the character U+0000"],
    ['select "{{ x }}"', "template: a value cannot be in a name in quotes (at character 9)"],
    ["select {{ x", 'template: missing "}}" (at character 10)'],
    [`select ${"{{ n }},".repeat(1_001)}1`, "template: a text has more than 1000 expressions (at character 8008)"],
  ])("cannot be filled: case %#", (command, message) => {
    expect(fill(command)).toBe(message);
  });

  it("has NULL and an empty text for what is missing, where that is empty", () => {
    expect(fill("select {{ nope }}, 'a{{ nope }}'", "empty")).toEqual([{ text: "select $1, $2", values: [null, "a"] }]);
  });

  // The position is that of the first "^" in the second column.
  it.each<[string, string, string]>([
    ["", "^", "no statement"],
    ["-- nothing", "^", "no statement"],
    ['select "a {{ x }}"', "          ^", "in a name in quotes"],
    ["select $$ {{ x }} $$", "          ^", "in $$…$$"],
    ["do $a$ {{ x }} $a$", "       ^", "in $a$…$a$"],
    ["select E'{{ x }}'", "         ^", "in E'…'; use a plain '…'"],
    ["select U&'{{ x }}'", "          ^", "in U&'…'"],
    ["select E'a'\n'{{ x }}'", "             ^", "in E'…'"],
    ["select 1 -- {{ x }}", "            ^", "in a comment"],
    ["select /* /* */ {{ x }} */ 1", "                ^", "in a comment"],
    ["{{ x }}", "^", "a whole statement"],
    ["select 1; {{ x }} from t", "          ^", "a whole statement"],
    ["create table {{ x }} (a int)", "             ^", "begins with create; only in select"],
    ["set a = '{{ x }}'", "         ^", "begins with set"],
    ["select $1, {{ x }}", "       ^", "such as $1 is refused"],
    ["select a$1, $2", "            ^", "such as $1 is refused"],
    ["select t{{ x }}", "        ^", "part of a name"],
    ["select {{ x }}{{ n }}", "       ^", "part of a name"],
    ["select s.{{ x }}", "         ^", "part of a name"],
    ["select 'a'{{ x }}", "          ^", "part of a name"],
    ["select {{ x }}_id", "       ^", "part of a name"],
    ["select ${{ x }}", "        ^", "part of a name"],
    ["select interval '{{ n }} days'", "                 ^", "write '…'::interval"],
    ["select DATE '{{ x }}'", "             ^", "write '…'::date"],
    ["select {{ x | raw }}", "       ^", "raw is not allowed"],
    ["select 'a {{ x }}", "       ^", "does not end"],
    ["select $$ a", "       ^", "$$ does not end"],
    ["select /* a", "       ^", "a comment does not end"],
    ["select 1; begin; select 2", "          ^", "begin is refused"],
    ["COMMIT", "^", "commit is refused"],
    ["rollback to a", "^", "rollback is refused"],
    ["select (\n {{- n -}} ) ; commit", "                        ^", "commit is refused"],
  ])("%j is refused", (command, marker, message) => {
    try {
      checkSql(command);
      expect.unreachable();
    } catch (error) {
      if (!(error instanceof SqlPlaceError)) throw error;
      expect(error.message).toContain(message);
      expect(`${" ".repeat(error.offset)}^`).toBe(marker);
    }
  });
});
