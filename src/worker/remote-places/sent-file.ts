/** A file of ours that only grows, the output of a command, on its way to the server: sent in pieces, each at its offset. A
 *  piece sent twice changes nothing, and a server that has less than we thought is given the rest again. */
import { openPlain } from "../../files/plain-files.ts";
import type { PlacedAttempt } from "../exec/exec-executor.ts";
import { PIECE, PieceWriter } from "./piece-writer.ts";
import type { SessionFiles } from "./session-files.ts";

/** It may grow while it is read. */
const LEAST = 4_096;

export class SentFile {
  readonly name: string;
  readonly #path: string;
  readonly #owner: number | undefined;
  readonly #writer: PieceWriter;
  /** What the server has. Null: nothing was sent, and the file is not there yet. */
  #size: number | null = null;

  constructor(files: SessionFiles, placed: PlacedAttempt, name: string, path: string, owner?: number) {
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
