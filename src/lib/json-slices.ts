/** The raw text of parts of a JSON text, so that what was sent is kept byte for byte: parsing and printing would change
 *  numbers, escapes and spaces. Only for texts that `JSON.parse` has accepted: nothing is checked here. */

/** The text of a member of the top-level object; null if it is not there. Of a name given twice, the last, as parsed. */
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

/** The texts of the elements of a member that is a list; null if it is not there, or is none. */
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

/** After a value: the next one, or the closing bracket. */
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
      if (depth === 0) return i; // of a number or a word: the end of what holds it
      depth -= 1;
      if (depth === 0) return i + 1;
    } else if (depth === 0 && (c === 0x2c || c === 0x20 || (c >= 0x09 && c <= 0x0d))) return i;
  }
  return text.length;
}
