/** Where a text stops being JSON, for messages: engines word it differently, and not all say where. */

const SPACE = /[ \t\n\r]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids them
const STRING_PART = /[^"\\\u0000-\u001f]+/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const TOKEN = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:]/y;

type Wants = "value" | "first" | "key" | "first key" | "colon" | "rest" | "end";

const EXPECTED: Readonly<Record<Wants, string>> = {
  value: "a value",
  first: "a value or ]",
  key: "a name in quotes",
  "first key": "a name in quotes or }",
  colon: "a colon",
  rest: "a comma or the end of the list or object",
  end: "nothing more",
};

/** As in `expected a comma … at line 3, column 7`. Only for texts that `JSON.parse` refused. */
export function jsonFault(text: string): string {
  const open: string[] = [];
  let wants: Wants = "value";
  let at = 0;
  for (;;) {
    at = match(SPACE, text, at);
    const end = text[at] === '"' ? endOfString(text, at) : match(TOKEN, text, at);
    if (end < 0)
      return `the text in quotes breaks off, or has a character that must be escaped, at ${place(text, -end)}`;
    const next: Wants | null = end === at ? null : step(text.charAt(at), wants, open);
    if (next === null) return `expected ${EXPECTED[wants]} at ${place(text, at)}`;
    wants = next;
    at = end;
  }
}

/** What is wanted after the token that begins so; null if it was not the one that was wanted. */
function step(first: string, wants: Wants, open: string[]): Wants | null {
  const closes = (bracket: string, also: Wants) => open.at(-1) === bracket && (wants === "rest" || wants === also);
  if (first === "}") return closes("{", "first key") ? close(open) : null;
  if (first === "]") return closes("[", "first") ? close(open) : null;
  if (first === ",") return wants === "rest" ? (open.at(-1) === "{" ? "key" : "value") : null;
  if (first === ":") return wants === "colon" ? "value" : null;
  if (first === '"' && (wants === "key" || wants === "first key")) return "colon";
  if (wants !== "value" && wants !== "first") return null;
  if (first === "{" || first === "[") {
    open.push(first);
    return first === "{" ? "first key" : "first";
  }
  return open.length === 0 ? "end" : "rest";
}

function close(open: string[]): Wants {
  open.pop();
  return open.length === 0 ? "end" : "rest";
}

/** Where it ends; if it does not, where it goes wrong, as a negative number. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; ; ) {
    at = match(STRING_PART, text, at);
    if (text[at] === '"') return at + 1;
    const next = match(ESCAPE, text, at);
    if (next === at) return -at;
    at = next;
  }
}

function match(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return at + (pattern.exec(text)?.[0].length ?? 0);
}

function place(text: string, at: number): string {
  if (at >= text.length) return "the end of the text";
  const before = text.slice(0, at).split("\n");
  return `line ${before.length}, column ${(before.at(-1) as string).length + 1}`;
}
