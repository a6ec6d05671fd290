/** Untrusted text for a terminal. What a job printed or was called may contain sequences that clear the screen, set the
 *  title or write the clipboard: all are escaped (`\x1b`). Also measures width (approximately) and applies colours. A piece
 *  of text names its colour; where it is printed it is escaped first and coloured then. */

import { StringDecoder } from "node:string_decoder";
import type { Io } from "../io.ts";

/** Controls and lone surrogates, characters that move or reorder text (Cf: bidi, zero-width, tags), line separators, and
 *  other invisible characters. The two emoji variation selectors are harmless and common. */
const UNSAFE = /(?!\n|\t|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\r": "\\r", "\n": "\\n", "\t": "\\t" };

/** A block of text: lines and tabs stay. The CR of a CRLF is removed. */
export function safeText(text: string): string {
  return text.replaceAll("\r\n", "\n").replaceAll(UNSAFE, escaped);
}

/** Text on one line, whatever it contains. */
export function safeLine(text: string): string {
  return text.replaceAll(UNSAFE, escaped).replaceAll(/[\n\t]/g, escaped);
}

/** The result is JSON with the same value: unsafe characters become `\u….`. */
export function safeJson(json: string): string {
  return json.replaceAll(UNSAFE, (char) => {
    const units = Array.from({ length: char.length }, (_, i) => char.charCodeAt(i));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
  });
}

/** The result is YAML with the same value, if all unsafe characters are in double quotes. */
export function safeYaml(text: string): string {
  return text.replaceAll(UNSAFE, (char) => {
    const hex = (char.codePointAt(0) as number).toString(16);
    return hex.length > 4 ? `\\U${hex.padStart(8, "0")}` : `\\u${hex.padStart(4, "0")}`;
  });
}

function escaped(char: string): string {
  const code = char.codePointAt(0) as number;
  const hex = code.toString(16);
  return SHORT[char] ?? (code <= 0xff ? `\\x${hex.padStart(2, "0")}` : `\\u{${hex}}`);
}

const PLAIN = /^[\x20-\x7e]*$/;
const ZERO = /[\p{Mn}\p{Me}]/u;
/** East Asian wide and full-width blocks, and emoji. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{17000}-\u{18aff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}\p{Emoji_Presentation}]/u;

/** The width of one line of safe text in terminal columns. */
export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const char of text) width += charWidth(char);
  return width;
}

function charWidth(char: string): number {
  if (ZERO.test(char)) return 0;
  return WIDE.test(char) ? 2 : 1;
}

/** One line of safe text in at most `columns` columns; an ellipsis marks a cut. */
export function cutToWidth(text: string, columns: number): string {
  // No character is wider than two columns, so the length is enough for most texts.
  if (text.length * 2 <= columns || textWidth(text) <= columns) return text;
  let cut = "";
  let width = 0;
  for (const char of text) {
    width += charWidth(char);
    if (width > columns - 1) break;
    cut += char;
  }
  return columns < 1 ? "" : `${cut}…`;
}

/** Padded with spaces to `columns` columns. */
export function padTo(text: string, columns: number, side: "left" | "right" = "left"): string {
  const space = " ".repeat(Math.max(0, columns - textWidth(text)));
  return side === "left" ? text + space : space + text;
}

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Colour = keyof typeof CODES;

export interface ColouredText {
  readonly text: string;
  readonly colour: Colour | null;
}
/** Text to be printed; it may be unsafe. */
export type TextPiece = string | ColouredText;

export function painted(colour: Colour | null, text: string): ColouredText {
  return { text, colour };
}

export function textOf(piece: TextPiece): string {
  return typeof piece === "string" ? piece : piece.text;
}

/** Expects text that is already safe. */
export function withColour(text: string, piece: TextPiece, wanted: boolean): string {
  if (!wanted || text === "" || typeof piece === "string" || piece.colour === null) return text;
  return `\x1b[${CODES[piece.colour]}m${text}\x1b[0m`;
}

/** On a terminal with colours, unless NO_COLOR is set (no-color.org). FORCE_COLOR is for pipes and tests. */
export function wantsColour({ isTTY, env }: Pick<Io, "isTTY" | "env">): boolean {
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== "") return false;
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== "") return env.FORCE_COLOR !== "0";
  return isTTY && env.TERM !== "dumb";
}

// Escapes a stream of untrusted bytes. A character or line end that is split between two chunks is held until it is complete.

export class TerminalStream {
  readonly #decoder = new StringDecoder("utf8");
  /** A carriage return at the end of a chunk: the next character decides whether it ends a line. */
  #held = "";

  text(bytes: Uint8Array): string {
    const text = this.#held + this.#decoder.write(Buffer.from(bytes));
    this.#held = text.endsWith("\r") ? "\r" : "";
    return safeText(this.#held === "" ? text : text.slice(0, -1));
  }

  /** Returns what was held back at the end of the stream. */
  end(): string {
    const rest = this.#held + this.#decoder.end();
    this.#held = "";
    return safeText(rest);
  }
}
