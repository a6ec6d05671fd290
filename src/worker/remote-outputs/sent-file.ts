/** A file that only grows, the output of a command, on its way to the server: sent in pieces at their offsets,
 *  smaller ones over a slow line. A piece sent twice changes nothing, and a server that has less is sent the rest
 *  again. */

import { openPlain } from "../../files/plain-files.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { AttemptDirectory } from "../exec/exec-executor.ts";
import type { SessionFiles, StagedPiece } from "./session-files.ts";

// Sends pieces of one file. Over a slow line a whole piece may not get through in its time: then the next is smaller.

export const PIECE = 1_048_576;
const SLOWEST = 16_384;

export class PieceWriter {
  readonly #files: SessionFiles;
  readonly #placed: AttemptDirectory;
  readonly #name: string;
  #size = PIECE;

  constructor(files: SessionFiles, placed: AttemptDirectory, name: string) {
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

// A file of ours that only grows, the output of a command, on its way to the server: sent in pieces, each at its
// offset. A piece sent twice changes nothing, and a server that has less than we thought is given the rest again.

/** It may grow while it is read. */
const LEAST = 4_096;

export class SentFile {
  readonly name: string;
  readonly #path: string;
  readonly #owner: number | undefined;
  readonly #writer: PieceWriter;
  /** What the server has. Null: nothing was sent, and the file is not there yet. */
  #size: number | null = null;

  constructor(files: SessionFiles, placed: AttemptDirectory, name: string, path: string, owner?: number) {
    this.#writer = new PieceWriter(files, placed, name);
    this.name = name;
    this.#path = path;
    this.#owner = owner;
  }

  /** Sends what is new in it. At its end, also that it is empty. Throws what the call threw; repeated, it goes on. */
  async send({ isEnd }: { readonly isEnd: boolean }): Promise<void> {
    const file = await openPlain(this.#path, this.#owner);
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
        this.#size = await this.#writer.write(at, piece.subarray(0, Math.min(bytesRead, this.#writer.size)));
      }
    } finally {
      await file.close();
    }
  }
}
