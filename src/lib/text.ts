/** Makes any string storable: well-formed, without NUL, within its limit. A single NUL makes a whole PostgreSQL batch
 *  fail, and SQLite silently truncates the string there. */

const REPLACEMENT = "\uFFFD";

/** `limit` is in UTF-16 units; a cut text ends with an ellipsis and never splits a pair. */
export function storable(text: string, limit: number): string {
  const cut = text.length > limit ? `${text.slice(0, isPair(text, limit - 2) ? limit - 2 : limit - 1)}…` : text;
  const formed = cut.isWellFormed() ? cut : cut.toWellFormed();
  return formed.includes("\0") ? formed.replaceAll("\0", REPLACEMENT) : formed;
}

function isPair(text: string, at: number): boolean {
  const [first, second] = [text.charCodeAt(at), text.charCodeAt(at + 1)];
  return first >= 0xd800 && first < 0xdc00 && second >= 0xdc00 && second < 0xe000;
}

/** Whether a text has more bytes in UTF-8; counts them only if the length does not already decide it. */
export function isOver(text: string, maxBytes: number): boolean {
  if (text.length > maxBytes) return true;
  return text.length * 3 > maxBytes && new TextEncoder().encode(text).length > maxBytes;
}
