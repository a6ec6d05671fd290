/** Colours, as a wish: a piece of text names one, and whether it is shown is decided where the piece is printed. So text
 *  is always escaped before colour codes are put around it, and no caller can get that the wrong way round. */
import type { Io } from "./io.ts";

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Colour = keyof typeof CODES;

export interface Painted {
  readonly text: string;
  readonly colour: Colour | null;
}
/** Text to be printed; it may hold anything. */
export type Piece = string | Painted;

export function painted(colour: Colour | null, text: string): Painted {
  return { text, colour };
}

export function textOf(piece: Piece): string {
  return typeof piece === "string" ? piece : piece.text;
}

/** Around text that is safe already. */
export function withColour(text: string, piece: Piece, wanted: boolean): string {
  if (!wanted || text === "" || typeof piece === "string" || piece.colour === null) return text;
  return `\x1b[${CODES[piece.colour]}m${text}\x1b[0m`;
}

/** On a terminal that knows them, unless NO_COLOR (no-color.org) says no. FORCE_COLOR is for pipes and tests. */
export function wantsColour({ isTTY, env }: Pick<Io, "isTTY" | "env">): boolean {
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== "") return false;
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== "") return env.FORCE_COLOR !== "0";
  return isTTY && env.TERM !== "dumb";
}
