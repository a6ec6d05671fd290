/** Text for people: one safe line whatever a value contains, instants in UTC, counts, and trimming in linear time. */
import { showMs } from "./duration.ts";

// Values in sentences for people: text stays on its line whatever it contains, instants are UTC.

/** Long enough for a message and its first cause, short enough that a page still holds a whole history. */
const TEXT_LIMIT = 300;

/** Controls move a terminal's cursor, separators break the line, format marks reorder or hide it, and half of a
 *  surrogate pair cannot be written at all. */
const UNSAFE = /^[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]$/u;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Somebody else's text on one line, with everything escaped that would not be seen as it is, cut to `limit`. */
export function showText(text: string, limit = TEXT_LIMIT): string {
  let shown = "";
  for (const char of text) {
    const piece = UNSAFE.test(char) ? (SHORT[char] ?? escaped(char)) : char;
    if (shown.length + piece.length > limit) return `${shown}…`;
    shown += piece;
  }
  return shown;
}

function escaped(char: string): string {
  const code = char.codePointAt(0) as number;
  const hex = code.toString(16);
  return code <= 0xff ? `\\x${hex.padStart(2, "0")}` : `\\u{${hex}}`;
}

export function quoted(text: string): string {
  return `"${showText(text)}"`;
}

/** An instant as ISO 8601 in UTC. */
export function showAt(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "an unknown time" : date.toISOString();
}

/** The span between two instants; nothing when clocks disagree on their order. */
export function showSpan(from: number, to: number): string {
  return showMs(Math.max(0, to - from));
}

/** `1 worker`, `3 workers`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** A text without the characters at its end that are among `drop`. An expression such as `/x+$/` takes quadratic time on a long
 *  row of them that does not end the text. */
export function withoutEnd(text: string, drop: string): string {
  let end = text.length;
  while (end > 0 && drop.includes(text[end - 1] as string)) end -= 1;
  return text.slice(0, end);
}
