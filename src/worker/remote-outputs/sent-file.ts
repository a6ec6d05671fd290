/** Uploads a file that only grows, such as the output of a command: in pieces at their offsets, smaller ones over a slow
 *  connection. Sending a piece twice has no effect, and if the server has less than expected, the rest is sent again. */

import { openPlain } from "../../files/plain-files.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { RunningAttempt } from "../exec/exec-executor.ts";
import type { SessionFiles, StagedPiece } from "./session-files.ts";

export const PIECE = 1_048_576;
const SMALLEST_PIECE = 16_384;

/** Sends pieces of one file. If a piece cannot be sent in time over a slow connection, the next one is smaller. */
export class PieceWriter {
  readonly #files: SessionFiles;
  readonly #running: RunningAttempt;
  readonly #name: string;
  #size = PIECE;

  constructor(files: SessionFiles, running: RunningAttempt, name: string) {
    this.#files = files;
    this.#running = running;
    this.#name = name;
  }

  /** The maximum size of the next piece. */
  get size(): number {
    return this.#size;
  }

  /** Returns the size that the server has afterwards; it is less than `at` if the server has lost a part. */
  async write(at: number, piece: Uint8Array, staged?: StagedPiece): Promise<number> {
    try {
      const size = await this.#files.write(this.#running, this.#name, at, piece, staged);
      this.#size = Math.min(PIECE, this.#size * 2);
      return size;
    } catch (error) {
      if (!(error instanceof WireError) || error.code !== "server_unreachable" || this.#size === SMALLEST_PIECE)
        throw error;
      this.#size = Math.max(SMALLEST_PIECE, this.#size >> 1);
      const size = await this.#files.sizeOf(this.#running, this.#name, staged?.upload);
      return Math.min(size, at + piece.length);
    }
  }
}

/** The smallest buffer: the file may grow while it is read. */
const LEAST = 4_096;

export class SentFile {
  readonly name: string;
  readonly #path: string;
  readonly #owner: number | undefined;
  readonly #writer: PieceWriter;
  /** The size on the server; null if the file does not exist there yet. */
  #size: number | null = null;

  constructor(files: SessionFiles, running: RunningAttempt, name: string, path: string, owner?: number) {
    this.#writer = new PieceWriter(files, running, name);
    this.name = name;
    this.#path = path;
    this.#owner = owner;
  }

  /** Sends new bytes; with `isEnd`, also creates an empty file. Throws the error of the call; a repeated call resumes. */
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
