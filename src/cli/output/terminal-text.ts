/** Text for a terminal: unsafe characters escaped (also in a stream of bytes), width measured, colours applied. A
 *  piece of text names its colour, and whether colours are shown is decided where it is printed, so text is always
 *  escaped first. */

import { StringDecoder } from "node:string_decoder";
import type { Io } from "../io.ts";

// Text of strangers for a terminal. What a job printed, threw or was called may hold sequences that clear the screen,
// set the title, write the clipboard or turn letters round: all of it is shown escaped (`\x1b`), none of it is sent.
// Also how wide text is there, roughly: a terminal's own tables differ in the details.

/** Controls and halves of pairs, what moves or reorders (Cf: bidi, zero-width, tags), separators that break the line, and
 *  whatever else is defined to be invisible. The two selectors that make a sign an emoji are harmless and common. */
const UNSAFE = /(?!\n|\t|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\r": "\\r", "\n": "\\n", "\t": "\\t" };

/** A block of text: its lines and tabs stay. A CR that ends a line with its LF moves nothing and is left out. */
export function safeText(text: string): string {
  return text.replaceAll("\r\n", "\n").replaceAll(UNSAFE, escaped);
}

/** Text on one line, whatever it contains. */
export function safeLine(text: string): string {
  return text.replaceAll(UNSAFE, escaped).replaceAll(/[\n\t]/g, escaped);
}

/** JSON stays JSON and means the same: what JSON itself lets through is written as `\u….`. */
export function safeJson(json: string): string {
  return json.replaceAll(UNSAFE, (char) => {
    const units = Array.from({ length: char.length }, (_, i) => char.charCodeAt(i));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
  });
}

/** YAML whose unsafe characters all stand in double quotes stays YAML and means the same. */
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
/** East Asian wide and full-width blocks, and what is drawn as an emoji by itself. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{17000}-\u{18aff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}\p{Emoji_Presentation}]/u;

/** Columns of a terminal that one line of safe text takes. */
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

/** One line of safe text in at most so many columns; what was cut ends with an ellipsis. */
export function cutToWidth(text: string, columns: number): string {
  // Nothing is wider than two columns, so the length settles it for most texts.
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

/** Padded with spaces to so many columns. */
export function padTo(text: string, columns: number, side: "left" | "right" = "left"): string {
  const space = " ".repeat(Math.max(0, columns - textWidth(text)));
  return side === "left" ? text + space : space + text;
}

// Colours, as a wish: a piece of text names one, and whether it is shown is decided where the piece is printed. So
// text is always escaped before colour codes are put around it, and no caller can get that the wrong way round.

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Colour = keyof typeof CODES;

export interface ColouredText {
  readonly text: string;
  readonly colour: Colour | null;
}
/** Text to be printed; it may hold anything. */
export type TextPiece = string | ColouredText;

export function painted(colour: Colour | null, text: string): ColouredText {
  return { text, colour };
}

export function textOf(piece: TextPiece): string {
  return typeof piece === "string" ? piece : piece.text;
}

/** Around text that is safe already. */
export function withColour(text: string, piece: TextPiece, wanted: boolean): string {
  if (!wanted || text === "" || typeof piece === "string" || piece.colour === null) return text;
  return `\x1b[${CODES[piece.colour]}m${text}\x1b[0m`;
}

/** On a terminal that knows them, unless NO_COLOR (no-color.org) says no. FORCE_COLOR is for pipes and tests. */
export function wantsColour({ isTTY, env }: Pick<Io, "isTTY" | "env">): boolean {
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== "") return false;
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== "") return env.FORCE_COLOR !== "0";
  return isTTY && env.TERM !== "dumb";
}

// Bytes of a stranger's, as they come, for a terminal. A character or a line end that is cut in two by the chunks is
// held back until the rest of it has come.

export class TerminalStream {
  readonly #decoder = new StringDecoder("utf8");
  /** A carriage return at the end: whether it ends a line is seen with what follows. */
  #held = "";

  text(bytes: Uint8Array): string {
    const text = this.#held + this.#decoder.write(Buffer.from(bytes));
    this.#held = text.endsWith("\r") ? "\r" : "";
    return safeText(this.#held === "" ? text : text.slice(0, -1));
  }

  /** What was held back, when no more comes. */
  end(): string {
    const rest = this.#held + this.#decoder.end();
    this.#held = "";
    return safeText(rest);
  }
}
