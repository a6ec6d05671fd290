/** Whether a peer takes what is sent to it. It is asked now and then, and compares with the time before: bytes that the
 *  kernel has taken count as taken. A reply that goes out in one piece shows no progress before it has gone. */
import type { Socket } from "node:net";

/** While replies hold too much memory, whoever takes less than this for so long gives its memory back. */
const SLOW_MS = 2_000;
const SLOW_BYTES_PER_MS = 16;

export class WriteProgress {
  /** Since when nothing was taken, and since when there has always been something to take. */
  #stalledSince: number | null = null;
  #pendingSince = 0;
  #pendingFrom = 0;
  #flushed = 0;

  isStuck(socket: Socket, now: number, isPressed: boolean, writeMs: number): boolean {
    const pending = socket.writableLength;
    const flushed = socket.bytesWritten - pending;
    const before = this.#flushed;
    this.#flushed = flushed;
    if (pending === 0) {
      this.#stalledSince = null;
      return false;
    }
    if (this.#stalledSince === null) {
      this.#stalledSince = now;
      this.#pendingSince = now;
      this.#pendingFrom = flushed;
      return false;
    }
    if (flushed !== before) this.#stalledSince = now;
    const pendingMs = now - this.#pendingSince;
    const isSlow = pendingMs >= SLOW_MS && flushed - this.#pendingFrom < pendingMs * SLOW_BYTES_PER_MS;
    return now - this.#stalledSince >= writeMs || (isPressed && isSlow);
  }
}
