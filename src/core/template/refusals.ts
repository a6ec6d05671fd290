/** What to write instead of the statements and calls of Jinja, which templates do not have. */
import { TemplateError } from "./template-error.ts";

const STATEMENTS: ReadonlyMap<string, string> = new Map([
  ["if", "write {{ a if condition else b }}"],
  ["for", "use a loop step, or a filter such as {{ items | join(', ') }}"],
  ["set", "use the field set of a step, and {{ ctx.name }}"],
  ["raw", "write {{ '{{' }} for two braces"],
]);

const FUNCTIONS: ReadonlyMap<string, string> = new Map([
  ["now", "write now, without arguments"],
  ["len", "write x | length"],
  ["str", "write x | string"],
  ["sorted", "write x | sort"],
  ["list", "write the list itself, or x | values of an object"],
  ["dict", "write {'key': value}"],
  ["range", "use a slice such as items[0:5], or a loop step with limit"],
  ["token", "pass the value in the input of the run"],
  ...["int", "float", "abs", "round", "min", "max", "sum"].map((name) => [name, `write x | ${name}`] as const),
]);

const METHODS: ReadonlyMap<string, string> = new Map([
  ["get", "write x.key | default(value)"],
  ["items", "use x | keys and x | values"],
  ["strip", "write x | trim"],
  ["format", "write 'text ' ~ x"],
  ["append", "write items + [x]"],
  ["startswith", "write x[:3] == 'abc'"],
  ["endswith", "write x[-3:] == 'abc'"],
  ["encode", "write x | b64encode for Base64"],
  ["isoformat", "write x, which is a text already"],
  ...["keys", "values", "lower", "upper", "split", "replace", "join"].map(
    (name) => [name, `write x | ${name}`] as const,
  ),
]);

/** For `{%` at the offset. */
export function statementRefused(text: string, offset: number): TemplateError {
  const word = /^\{%[-+]?\s{0,20}([a-z]{1,20})/.exec(text.slice(offset, offset + 50))?.[1];
  const fix = STATEMENTS.get(word ?? "") ?? "write {{ a if condition else b }}, a filter or a loop step";
  return new TemplateError("template_statement", offset, `{% ${word ?? "…"} %} is not supported; ${fix}`);
}

/** For a call: of a function, or of a method of something. */
export function callRefused(name: string | null, isMethod: boolean, offset: number): TemplateError {
  const fix = (isMethod ? METHODS : FUNCTIONS).get(name ?? "") ?? "use a filter, such as x | default('')";
  const shown = name === null ? "a call" : `${isMethod ? "." : ""}${name}()`;
  return new TemplateError("template_call", offset, `${shown} is not supported, templates have no calls; ${fix}`);
}
