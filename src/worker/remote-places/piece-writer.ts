/** Sends pieces of one file. Over a slow line a whole piece may not get through in its time: then the next is smaller. */
import type { PlacedAttempt } from "../exec/exec-executor.ts";
import { WireError } from "../http-link/wire-error.ts";
import type { SessionFiles, StagedPiece } from "./session-files.ts";

export const PIECE = 1_048_576;
const SLOWEST = 16_384;

export class PieceWriter {
  readonly #files: SessionFiles;
  readonly #placed: PlacedAttempt;
  readonly #name: string;
  #size = PIECE;

  constructor(files: SessionFiles, placed: PlacedAttempt, name: string) {
    this.#files = files;
    this.#placed = placed;
    this.#name = name;
  }

  /** Bytes that the next piece may have. */
  get size(): number {
    return this.#size;
  }

  /** What the server has then; less than `at` where it has lost some, or all, of it. */
  async write(at: number, piece: Uint8Array, staged?: StagedPiece): Promise<number> {
    try {
      const size = await this.#files.write(this.#placed, this.#name, at, piece, staged);
      this.#size = Math.min(PIECE, this.#size * 2);
      return size;
    } catch (error) {
      if (!(error instanceof WireError) || error.code !== "server_unreachable" || this.#size === SLOWEST) throw error;
      this.#size = Math.max(SLOWEST, this.#size >> 1);
      const size = await this.#files.sizeOf(this.#placed, this.#name, staged?.upload);
      return Math.min(size, at + piece.length);
    }
  }
}
