/** One file of an attempt on its way to the server: sent in pieces, each at its offset. A piece sent twice changes nothing,
 *  and a server that has less than we thought is given the rest again. */
import { openPlain } from "../../files/plain-files.ts";
import type { PlacedAttempt } from "../exec/exec-executor.ts";
import { WireError } from "../http-link/wire-error.ts";
import type { SessionFiles } from "./session-files.ts";

const PIECE = 1_048_576;
const SLOWEST = 16_384;
/** It may grow while it is read. */
const LEAST = 4_096;

export class SentFile {
  readonly name: string;
  readonly #path: string;
  readonly #files: SessionFiles;
  readonly #placed: PlacedAttempt;
  #pieceSize = PIECE;
  /** What the server has. Null: nothing was sent, and the file is not there yet. */
  #size: number | null = null;

  constructor(files: SessionFiles, placed: PlacedAttempt, name: string, path: string) {
    this.#files = files;
    this.#placed = placed;
    this.name = name;
    this.#path = path;
  }

  /** Over a slow line a whole piece may not get through in its time: what did is there, and the next piece is smaller. */
  async #write(at: number, piece: Uint8Array): Promise<number> {
    try {
      const size = await this.#files.write(this.#placed, this.name, at, piece);
      this.#pieceSize = Math.min(PIECE, this.#pieceSize * 2);
      return size;
    } catch (error) {
      if (!(error instanceof WireError) || error.code !== "server_unreachable" || this.#pieceSize === SLOWEST)
        throw error;
      this.#pieceSize = Math.max(SLOWEST, this.#pieceSize >> 1);
      const size = await this.#files.sizeOf(this.#placed, this.name);
      if (size < at) return size; // it has less than we thought
      return Math.min(size, at + piece.length);
    }
  }

  /** Half a file under its name would pass for the whole: it is emptied, and can be sent from the beginning. */
  async drop(): Promise<void> {
    await this.#files.write(this.#placed, this.name, 0, Buffer.alloc(0));
    this.#size = null;
  }

  /** Sends what is new in it. At its end, also that it is empty. Throws what the call threw; repeated, it goes on. */
  async send({ isEnd }: { readonly isEnd: boolean }): Promise<void> {
    const file = await openPlain(this.#path);
    if (file === null) return;
    try {
      const { size } = await file.stat();
      const isNew = size > (this.#size ?? 0) || (isEnd && this.#size === null);
      if (!isNew) return;
      const piece = Buffer.allocUnsafe(Math.min(PIECE, Math.max(LEAST, size - (this.#size ?? 0))));
      for (;;) {
        const at = this.#size ?? 0;
        const { bytesRead } = await file.read(piece, 0, piece.length, at);
        if (bytesRead === 0 && !(isEnd && this.#size === null)) return;
        this.#size = await this.#write(at, piece.subarray(0, Math.min(bytesRead, this.#pieceSize)));
      }
    } finally {
      await file.close();
    }
  }
}
