/** Conditions of NoETL as expressions. NoETL fills templates in a text and judges the text that comes out; here a condition is one
 *  expression. `{{ x }} == word` becomes a comparison of texts, and names such as `event.name` and `outcome.error.retryable` are
 *  replaced by what they mean here. Texts in quotes are left as they are. */
import type { SourcePath } from "../../../core/playbook/problem.ts";
import type { Draft } from "./draft.ts";

const MAX_CONDITION = 1_000;

/** The expression of a condition, without braces; null without one, or after a problem. */
export function readWhen(draft: Draft, value: unknown, path: SourcePath): string | null {
  if (value === undefined || value === null || value === true) return null;
  if (value === false) return "false";
  if (typeof value === "number") return String(value);
  if (typeof value !== "string") {
    draft.invalid(path, value, "a condition as text");
    return null;
  }
  if (value.length > MAX_CONDITION) {
    draft.problem(
      "too_large",
      path,
      `the condition has ${value.length} characters; at most ${MAX_CONDITION} are allowed`,
    );
    return null;
  }
  if (/\{%/.test(value)) {
    const message = "{% … %} is not supported in conditions; use and, or, not, or the form `a if c else b`";
    draft.problem("template_statement", path, message);
    return null;
  }
  const whole = wholeExpression(value);
  const text = whole ?? joinedExpression(value);
  if (text === null) {
    draft.problem("template_syntax", path, "the condition mixes templates and text; write it as one {{ … }}");
    return null;
  }
  if (whole === null && value.includes("{{")) {
    draft.note("conditions such as `{{ x }} == word` are evaluated as comparisons of texts");
  }
  const shown = renamed(text).trim();
  const kind = /\berror\.kind\b/.exec(withoutQuoted(shown));
  if (kind !== null) {
    const known = Object.keys(ERROR_KINDS).join(", ");
    const message = `this use of error.kind is not supported; compare it with one of ${known}, or use status_code`;
    draft.problem("keyword_refused", path, message);
    return null;
  }
  return shown === "" || /^\(?\s*[Tt]rue\s*\)?$/.test(shown) ? null : shown;
}

function withoutQuoted(text: string): string {
  return text
    .split(QUOTED)
    .filter((_, i) => i % 2 === 0)
    .join("''");
}

/** `not (c)`. */
export function negated(condition: string): string {
  return `not (${condition})`;
}

/** Both; null is always true. */
export function both(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b;
  return `(${a}) and (${b})`;
}

export function either(conditions: readonly string[]): string {
  return conditions.length === 1 ? (conditions[0] as string) : conditions.map((one) => `(${one})`).join(" or ");
}

/** What is between the braces of a text that is one template, or has none; null for a mixture. */
function wholeExpression(value: string): string | null {
  const text = value.trim();
  if (!text.includes("{{")) return text;
  const inner = /^\{\{-?([\s\S]*?)-?\}\}$/.exec(text);
  if (inner === null || (inner[1] as string).includes("{{") || (inner[1] as string).includes("}}")) return null;
  return inner[1] as string;
}

const PIECE =
  /\{\{-?([\s\S]*?)-?\}\}|('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(==|!=|<=|>=|<|>|\(|\))|([\w.+-]+)|(\s+)|(.)/gsu;
const WORDS: ReadonlySet<string> = new Set([
  "and",
  "or",
  "not",
  "in",
  "is",
  "true",
  "false",
  "True",
  "False",
  "none",
  "None",
]);

interface Piece {
  readonly kind: "template" | "text" | "sign" | "word";
  readonly text: string;
}

/** `{{ a }} == b and {{ c }}` as one expression; null if it cannot be one. */
function joinedExpression(value: string): string | null {
  const pieces: Piece[] = [];
  for (const [, template, text, sign, word, space, other] of value.matchAll(PIECE)) {
    if (space !== undefined) continue;
    if (other !== undefined) return null;
    if (template !== undefined) pieces.push({ kind: "template", text: template.trim() });
    else if (text !== undefined) pieces.push({ kind: "text", text: filledText(text) });
    else if (sign !== undefined) pieces.push({ kind: "sign", text: sign });
    else if (word !== undefined) pieces.push(wordPiece(word));
  }
  const out: string[] = [];
  for (let i = 0; i < pieces.length; i++) {
    const [left, sign, right] = [pieces[i], pieces[i + 1], pieces[i + 2]] as [Piece, Piece?, Piece?];
    const isComparison = sign?.kind === "sign" && (sign.text === "==" || sign.text === "!=");
    if (
      isComparison &&
      isValue(left) &&
      right !== undefined &&
      isValue(right) &&
      !isConstant(left) &&
      !isConstant(right)
    ) {
      out.push(`(${asText(left)} ${sign.text} ${asText(right)})`);
      i += 2;
    } else out.push(left.kind === "template" ? `(${left.text})` : left.text);
  }
  return out.join(" ");
}

function wordPiece(word: string): Piece {
  if (WORDS.has(word)) return { kind: "word", text: word };
  if (/^-?\d+(\.\d+)?$/.test(word)) return { kind: "text", text: word };
  return { kind: "text", text: `'${word.replace(/[\\']/g, "\\$&")}'` };
}

/** `'{{ x }}'` is the value of x as text. */
function filledText(quoted: string): string {
  const inner = /^["']\s*\{\{-?([\s\S]*?)-?\}\}\s*["']$/.exec(quoted);
  return inner === null ? quoted : `((${(inner[1] as string).trim()}) ~ '')`;
}

function isValue({ kind }: Piece): boolean {
  return kind === "template" || kind === "text" || kind === "word";
}

/** A comparison with true or none is one of values. */
function isConstant({ kind }: Piece): boolean {
  return kind === "word";
}

function asText({ kind, text }: Piece): string {
  if (kind === "template") return `(${text}) ~ ''`;
  return /^-?\d/.test(text) ? `'${text}'` : text;
}

// Names of NoETL that are more than a name here. The rest are aliases of the playbook (names.ts).

const FAILED = "(error != None)";
const OK = "(error == None)";
const RETRYABLE = `(${FAILED} and (status_code == None or status_code in [408, 425, 429] or status_code >= 500))`;

/** What follows `outcome.error.kind ==`. */
const ERROR_KINDS: Readonly<Record<string, string>> = {
  rate_limit: "(status_code == 429)",
  server_error: "(status_code >= 500)",
  client_error: "(status_code >= 400 and status_code < 500)",
  not_found: "(status_code == 404)",
  auth: "(status_code in [401, 403])",
  network: "(error != None and status_code == None)",
  connection: "(error != None and status_code == None)",
};

const TERMS: readonly (readonly [RegExp, string])[] = [
  [/\b(?:outcome|output)\.error\.retryable\s*==\s*(?:true|True)\b/g, RETRYABLE],
  [/\b(?:outcome|output)\.error\.retryable\s*==\s*(?:false|False)\b/g, `(not ${RETRYABLE})`],
  [/\b(?:outcome|output)\.error\.retryable\b/g, RETRYABLE],
  [/\b(?:(?:outcome|output)\.)?error\s+is\s+not\s+defined\b/g, OK],
  [/\b(?:(?:outcome|output)\.)?error\s+is\s+defined\b/g, FAILED],
  [/\b(?:response|result)\s+is\s+defined\b/g, OK],
  [/\b(?:(?:outcome|output)\.)?error\.(?:http\.)?status(?:_code)?\b/g, "status_code"],
  [/\b(?:outcome|output)\.(?:http|result|data|error\.http)\.status(?:_code)?\b/g, "status_code"],
  [/\b(?:response|output)\.status(?:_code)?\b/g, "status_code"],
  [/\b(?:outcome|output)\.attempt\b/g, "attempt"],
  [/\b(?:outcome|output)\.error\.message\b/g, "error"],
  [/\b(?:outcome|output)\.error\b/g, "error"],
];
/** `outcome.status == 'error'`, with the text in group 3, and `outcome.error.kind == 'auth'`. */
const OUTCOME = /\b(?:outcome|output)\.status\s*(==|!=)\s*(['"])(\w+)\2/g;
const ERROR_KIND = /\b(?:(?:outcome|output)\.)?error\.kind\s*(==|!=)\s*(['"])(\w+)\2/g;
const GOOD: ReadonlySet<string> = new Set(["ok", "success", "succeeded", "completed", "done"]);
const QUOTED = /('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")/s;

/** The condition with these terms replaced, outside of quotes. */
export function renamed(condition: string): string {
  const text = condition
    .replace(OUTCOME, (_, operator: string, __: string, word: string) => {
      return GOOD.has(word) === (operator === "==") ? OK : FAILED;
    })
    .replace(ERROR_KIND, (all: string, operator: string, __: string, word: string) => {
      const meant = Object.hasOwn(ERROR_KINDS, word) ? (ERROR_KINDS[word] as string) : null;
      if (meant === null) return all;
      return operator === "==" ? meant : `(not ${meant})`;
    });
  const parts = text.split(QUOTED);
  return parts
    .map((part, i) => (i % 2 === 1 ? part : TERMS.reduce((now, [term, to]) => now.replace(term, to), part)))
    .join("");
}

// Events in the conditions of `case`.

/** What an event of NoETL's `case` is here. */
export type CaseEvent = "success" | "failure" | "enter" | "other";

const EVENT_EQUAL = /\bevent\.name\s*==\s*(['"])([\w.]+)\1/g;
const EVENT_IN = /\bevent\.name\s+in\s+[[(]([^\])]*)[\])]/g;

/** Which events a condition is about, and what else it asks. */
export function eventsOf(condition: string): { readonly events: readonly CaseEvent[]; readonly rest: string | null } {
  const events = new Set<CaseEvent>();
  const kinds = (names: readonly string[]) => {
    for (const name of names) events.add(eventOf(name));
    return "true";
  };
  const rest = condition
    .replace(EVENT_EQUAL, (_, __: string, name: string) => kinds([name]))
    .replace(EVENT_IN, (_, list: string) =>
      kinds([...list.matchAll(/['"]([\w.]+)['"]/g)].map(([, name = ""]) => name)),
    );
  const bare = rest
    .replace(/^\s*true\s+and\s+/, "")
    .replace(/\s+and\s+true\s*$/, "")
    .trim();
  return { events: [...events], rest: /^\(?\s*true\s*\)?$/.test(bare) ? null : bare };
}

function eventOf(name: string): CaseEvent {
  if (["step.exit", "call.done", "loop.done", "step.done", "action.completed"].includes(name)) return "success";
  if (["call.error", "step.error", "action.failed", "step.failed", "loop.error"].includes(name)) return "failure";
  return name === "step.enter" || name === "step.start" ? "enter" : "other";
}
