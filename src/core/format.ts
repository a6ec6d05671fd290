/** Formats values for sentences: text on one safe line, instants in UTC, counts. */
import { showMs } from "./duration.ts";

/** Enough for a message and its first cause. */
const TEXT_LIMIT = 300;

/** Control characters, line separators, format characters that reorder or hide text, and halves of surrogate pairs. */
const UNSAFE = /^[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]$/u;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Untrusted text on one line, with invisible characters escaped, cut to `limit`. */
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

/** The time between two instants; 0 ms if they are in the wrong order. */
export function showSpan(from: number, to: number): string {
  return showMs(Math.max(0, to - from));
}

/** `1 worker`, `3 workers`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Quoted for a shell where it must be, so that it is clear where an argument ends. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A text without trailing characters of `drop`, in linear time, unlike `/x+$/`. */
export function withoutEnd(text: string, drop: string): string {
  let end = text.length;
  while (end > 0 && drop.includes(text[end - 1] as string)) end -= 1;
  return text.slice(0, end);
}
