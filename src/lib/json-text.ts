/** Examines JSON text without building its value: its depth, the position of a syntax error, and the raw text of its
 *  parts. */

/** How deeply a JSON text is nested, without parsing it: parsers and printers differ in how deep they can go. */
export function jsonDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (inString) {
      if (c === 0x5c) i += 1;
      else if (c === 0x22) inString = false;
    } else if (c === 0x22) inString = true;
    else if (c === 0x5b || c === 0x7b) {
      depth += 1;
      if (depth > deepest) deepest = depth;
    } else if (c === 0x5d || c === 0x7d) depth -= 1;
  }
  return deepest;
}

// Finds where a text stops being JSON, for messages: engines word the error differently, and not all give a position.

const SPACE = /[ \t\n\r]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids them
const STRING_PART = /[^"\\\u0000-\u001f]+/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const TOKEN = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:]/y;

type JsonExpectation = "value" | "first" | "key" | "first key" | "colon" | "rest" | "end";

const EXPECTED: Readonly<Record<JsonExpectation, string>> = {
  value: "a value",
  first: "a value or ]",
  key: "a name in quotes",
  "first key": "a name in quotes or }",
  colon: "a colon",
  rest: "a comma or the end of the list or object",
  end: "nothing more",
};

/** Such as `expected a comma … at line 3, column 7`. Only for texts that `JSON.parse` rejected. */
export function jsonFault(text: string): string {
  const open: string[] = [];
  let wants: JsonExpectation = "value";
  let at = 0;
  for (;;) {
    at = match(SPACE, text, at);
    const end = text[at] === '"' ? endOfStringOrFault(text, at) : match(TOKEN, text, at);
    if (end < 0) return `unterminated string, or a character that must be escaped, at ${place(text, -end)}`;
    const next: JsonExpectation | null = end === at ? null : step(text.charAt(at), wants, open);
    if (next === null) return `expected ${EXPECTED[wants]} at ${place(text, at)}`;
    wants = next;
    at = end;
  }
}

/** What is expected after the token that begins with `first`; null if that token was not expected. */
function step(first: string, wants: JsonExpectation, open: string[]): JsonExpectation | null {
  const closes = (bracket: string, also: JsonExpectation) =>
    open.at(-1) === bracket && (wants === "rest" || wants === also);
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

function close(open: string[]): JsonExpectation {
  open.pop();
  return open.length === 0 ? "end" : "rest";
}

/** Where the string ends; a negative number is the position of an error. */
function endOfStringOrFault(text: string, start: number): number {
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

// Returns the raw text of parts of a JSON text, so that values are kept byte for byte: parsing and printing would
// change numbers, escapes and spaces. Only for texts that `JSON.parse` has accepted: nothing is checked here.

/** The text of a member of the top-level object; null if missing. Of duplicate names the last one, as in parsing. */
export function sliceOf(text: string, name: string): string | null {
  let found: string | null = null;
  const start = skipSpace(text, 0);
  if (text[start] !== "{") return null;
  for (let at = skipSpace(text, start + 1); text[at] !== "}"; ) {
    const keyEnd = endOfString(text, at);
    const isIt = isName(text.slice(at, keyEnd), name);
    const from = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const to = endOfValue(text, from);
    if (isIt) found = text.slice(from, to);
    at = nextItem(text, to);
  }
  return found;
}

/** The texts of the elements of a list member; null if missing or not a list. */
export function slicesOf(text: string, name: string): string[] | null {
  const list = sliceOf(text, name);
  if (list?.[0] !== "[") return null;
  const found: string[] = [];
  for (let at = skipSpace(list, 1); list[at] !== "]"; ) {
    const to = endOfValue(list, at);
    found.push(list.slice(at, to));
    at = nextItem(list, to);
  }
  return found;
}

function isName(quoted: string, name: string): boolean {
  return quoted.includes("\\") ? JSON.parse(quoted) === name : quoted.slice(1, -1) === name;
}

/** After a value: the position of the next one, or of the closing bracket. */
function nextItem(text: string, at: number): number {
  const next = skipSpace(text, at);
  return text[next] === "," ? skipSpace(text, next + 1) : next;
}

function skipSpace(text: string, at: number): number {
  let i = at;
  for (let c = text.charCodeAt(i); c === 0x20 || (c >= 0x09 && c <= 0x0d); c = text.charCodeAt(i)) i += 1;
  return i;
}

function endOfString(text: string, at: number): number {
  for (let i = at + 1; ; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x5c) i += 1;
    else if (c === 0x22) return i + 1;
  }
}

function endOfValue(text: string, at: number): number {
  if (text[at] === '"') return endOfString(text, at);
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x22) i = endOfString(text, i) - 1;
    else if (c === 0x5b || c === 0x7b) depth += 1;
    else if (c === 0x5d || c === 0x7d) {
      if (depth === 0) return i; // the end of the container after a number or a literal
      depth -= 1;
      if (depth === 0) return i + 1;
    } else if (depth === 0 && (c === 0x2c || c === 0x20 || (c >= 0x09 && c <= 0x0d))) return i;
  }
  return text.length;
}
