/** Captures the output of a command: its beginning and its end within a cap, and the exact number of bytes dropped between
 *  them. The pipe is always drained, and memory does not grow beyond the cap. */
import { type FileHandle, open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { type Clock, sleep } from "../../lib/clock.ts";
import { stderrSummary } from "./stderr-summary.ts";

export interface CapturedBytes {
  readonly bytes: number;
  readonly dropped: number;
}

/** The beginning of an output as text. */
export interface CapturedText {
  readonly text: string;
  /** There is more. */
  readonly isCut: boolean;
}

const TAIL_BYTES = 4_096;
/** Limit of the lines that are stored with a failure. */
const LINES_BYTES = 2_048;

export class Capture {
  readonly #path: string;
  readonly #headCap: number;
  readonly #tailCap: number;
  #file: FileHandle | null = null;
  #writing: Promise<void> = Promise.resolve();
  /** The error that made the file incomplete. A full disk does not fail the command. */
  #trouble: unknown = null;
  #bytes = 0;
  #head = 0;
  /** The last bytes, in a ring buffer that grows up to its cap. */
  #ring = Buffer.alloc(0);
  #ringAt = 0;
  #ringLength = 0;

  /** The first bytes, for `text`. */
  readonly #first: Buffer;
  #firstLength = 0;

  /** `textCap` is the limit of `text` in bytes of UTF-8; it is independent of `cap`. */
  constructor(path: string, cap: number, textCap = 0) {
    this.#path = path;
    this.#first = Buffer.alloc(textCap);
    this.#headCap = cap >> 1;
    this.#tailCap = cap - this.#headCap;
  }

  /** Creates the file before the command starts, so that followers can open it at once. */
  async open(): Promise<void> {
    this.#file = await open(this.#path, "wx", 0o600);
  }

  write(chunk: Buffer): void {
    this.#bytes += chunk.length;
    this.#firstLength += chunk.copy(this.#first, this.#firstLength);
    const headLeft = this.#headCap - this.#head;
    if (headLeft > 0) {
      const part = chunk.subarray(0, headLeft);
      this.#head += part.length;
      this.#append(part);
    }
    if (chunk.length > headLeft) this.#addToRing(chunk.subarray(Math.max(0, headLeft)));
  }

  async close(): Promise<CapturedBytes> {
    const dropped = this.#bytes - this.#head - this.#ringLength;
    const tail = this.#tail(this.#ringLength);
    if (dropped > 0) this.#append(Buffer.from(`\n[perdure: ${dropped} bytes dropped here]\n`));
    if (tail.length > 0) this.#append(tail);
    await this.#writing;
    await this.#file?.close().catch(() => {});
    return { bytes: this.#bytes, dropped };
  }

  /** The beginning; a character is never split, and what is not UTF-8 becomes U+FFFD. */
  text(): CapturedText {
    const first = this.#first.subarray(0, this.#firstLength);
    const hasMore = this.#bytes > first.length;
    const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(first, { stream: hasMore });
    // Each wrong byte becomes a character of three.
    const { read } = new TextEncoder().encodeInto(whole, new Uint8Array(this.#first.length));
    return { text: whole.slice(0, read), isCut: hasMore || read < whole.length };
  }

  get trouble(): string | null {
    return this.#trouble === null ? null : String((this.#trouble as Error).message);
  }

  /** The line that explains the failure best, from the last few kilobytes. */
  summary(): string {
    return stderrSummary(this.#last(TAIL_BYTES).toString("utf8"));
  }

  /** The last lines. They are whole, unless a single line exceeds the limit. */
  lastLines(): string {
    const text = this.#last(LINES_BYTES).toString("utf8");
    const cut = this.#bytes > LINES_BYTES ? text.indexOf("\n") + 1 : 0;
    return text.slice(cut === text.length ? 0 : cut);
  }

  #recent = Buffer.alloc(0);
  /** The last bytes written, from the ring and, if it has fewer, from the head. */
  #last(count: number): Buffer {
    return this.#ringLength >= count ? this.#tail(count) : Buffer.concat([this.#recent, this.#tail(this.#ringLength)]);
  }

  #append(bytes: Buffer): void {
    if (bytes.length === 0) return;
    const kept = Buffer.concat([this.#recent, bytes.subarray(-TAIL_BYTES)]);
    this.#recent = Buffer.from(kept.subarray(-TAIL_BYTES));
    this.#writing = this.#writing.then(async () => {
      if (this.#trouble !== null) return;
      try {
        await this.#file?.write(bytes);
      } catch (error) {
        this.#trouble = error;
      }
    });
  }

  #addToRing(bytes: Buffer): void {
    const part = bytes.subarray(-this.#tailCap);
    const needed = Math.min(this.#tailCap, this.#ringLength + part.length);
    if (needed > this.#ring.length) this.#grow(needed);
    const first = Math.min(part.length, this.#ring.length - this.#ringAt);
    part.copy(this.#ring, this.#ringAt, 0, first);
    part.copy(this.#ring, 0, first);
    this.#ringAt = (this.#ringAt + part.length) % this.#ring.length;
    this.#ringLength = Math.min(this.#ring.length, this.#ringLength + part.length);
  }

  #grow(needed: number): void {
    const next = Buffer.alloc(Math.min(this.#tailCap, Math.max(needed, 2 * this.#ring.length, 4_096)));
    this.#tail(this.#ringLength).copy(next);
    this.#ringAt = this.#ringLength % next.length;
    this.#ring = next;
  }

  #tail(count: number): Buffer {
    if (count === 0) return Buffer.alloc(0);
    const from = (this.#ringAt - count + this.#ring.length) % this.#ring.length;
    const first = this.#ring.subarray(from, Math.min(this.#ring.length, from + count));
    return Buffer.concat([first, this.#ring.subarray(0, count - first.length)]);
  }
}

interface PipeReaderParts {
  readonly stdout: Capture;
  readonly stderr: Capture;
  /** If it returns a promise, reading pauses until that resolves, and so may the command. */
  readonly onOutput: (stream: "stdout" | "stderr", bytes: Buffer) => Promise<void> | undefined;
}

/** After the last process of the command has ended, a pipe that stays open and silent for this long is held by a foreign process. */
const SILENCE_MS = 2_000;
/** The same for a pipe that is not silent. */
const DRAIN_MS = 5_000;

/** Reads one output stream of a command into its capture, and passes it on to `onOutput`. */
export class PipeReader {
  readonly #stream: Readable;
  readonly #ended: Promise<void>;
  #isOver = false;
  #bytes = 0;

  constructor(stream: Readable, name: "stdout" | "stderr", parts: PipeReaderParts) {
    this.#stream = stream;
    stream.on("data", (bytes: Buffer) => {
      this.#bytes += bytes.length;
      parts[name].write(bytes);
      const busy = parts.onOutput(name, bytes);
      if (busy === undefined || this.#isOver) return;
      stream.pause();
      void busy.finally(() => stream.resume());
    });
    this.#ended = new Promise((resolve) => {
      for (const event of ["end", "close", "error"]) stream.once(event, () => resolve());
    });
  }

  /** The command has ended: reads what is left, without waiting for `onOutput`. */
  async drain(clock: Clock): Promise<void> {
    this.#isOver = true;
    this.#stream.resume();
    const until = clock.monotonic() + DRAIN_MS;
    for (let before = -1; before !== this.#bytes && clock.monotonic() < until; ) {
      before = this.#bytes;
      const silence = new AbortController();
      const isEnded = await Promise.race([
        this.#ended.then(() => true),
        sleep(clock, SILENCE_MS, { signal: silence.signal }).then(() => false),
      ]);
      silence.abort();
      if (isEnded) break;
    }
    this.#stream.destroy();
  }
}
