/** Takes in what a command writes: into its capture always, and to whoever looks on, for whom it may wait. */
import type { Readable } from "node:stream";
import { type Clock, sleep } from "../../lib/clock.ts";
import type { Capture } from "./capture.ts";

export interface ListenerParts {
  readonly stdout: Capture;
  readonly stderr: Capture;
  /** A promise holds the command up until it resolves. */
  readonly onOutput: (stream: "stdout" | "stderr", bytes: Buffer) => Promise<void> | undefined;
}

/** A pipe that is open, and silent, when nobody of the tree is left is held by somebody else. */
const SILENCE_MS = 2_000;
/** And one that is not silent by then too. */
const DRAIN_MS = 5_000;

export class Listener {
  readonly #stream: Readable;
  readonly #ended: Promise<void>;
  #isOver = false;
  #bytes = 0;

  constructor(stream: Readable, name: "stdout" | "stderr", parts: ListenerParts) {
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

  /** The command is over: the rest is taken in, and nobody is waited for any more. */
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
