/** Shows what the command writes while it runs. On a terminal it is escaped, so that a command cannot clear the screen or
 *  write the clipboard; into a pipe or file bytes are copied unchanged. */
import type { OutputChunk } from "../../core/task/work-options.ts";
import type { Io } from "../io.ts";
import { TerminalStream } from "./terminal-text.ts";

const NEWLINE = 10;
const WAKES = ["drain", "close", "error"];

type OutputStreams = Pick<Io, "stdout" | "stderr">;

export class LiveOutput {
  readonly #io: Io;
  readonly #to: OutputStreams;
  #streams = { stdout: new TerminalStream(), stderr: new TerminalStream() };
  #attempt = 0;

  /** Whether the last shown line is still open. */
  readonly #isLineOpen = { stdout: false, stderr: false };

  /** `to`: the target of each stream. */
  constructor(io: Io, to: OutputStreams = io) {
    this.#io = io;
    this.#to = to;
  }

  /** Returns a promise while the reader is behind; the command waits, as it would if it wrote there directly. */
  show({ stream, bytes, attempt }: OutputChunk, gone: AbortSignal): Promise<void> | undefined {
    if (attempt !== this.#attempt) this.flush();
    this.#attempt = attempt;
    const to = this.#to[stream];
    const isGone = (to as { destroyed?: boolean }).destroyed === true || (gone.aborted && to === this.#io.stdout);
    if (bytes.length === 0 || isGone) return undefined;
    const isOpen = bytes.at(-1) !== NEWLINE;
    this.#isLineOpen[stream] = isOpen;
    if (this.#isShared()) this.#isLineOpen.stdout = this.#isLineOpen.stderr = isOpen;
    const isReady = to.write(this.#isTerminal(stream) ? this.#streams[stream].text(bytes) : bytes);
    if (isReady) return undefined;
    return new Promise((resolve) => {
      const done = () => {
        for (const name of WAKES) to.removeListener(name, done);
        gone.removeEventListener("abort", done);
        resolve();
      };
      for (const name of WAKES) to.once(name, done);
      gone.addEventListener("abort", done);
    });
  }

  /** Writes what was held back of an attempt that has ended. */
  flush(): void {
    for (const stream of ["stdout", "stderr"] as const) {
      const rest = this.#streams[stream].end();
      if (rest === "" || !this.#isTerminal(stream)) continue;
      this.#to[stream].write(rest);
      this.#isLineOpen[stream] = true;
    }
    this.#streams = { stdout: new TerminalStream(), stderr: new TerminalStream() };
  }

  /** Ends an open line before a line of Perdure is printed. */
  endLine(stream: "stdout" | "stderr"): void {
    if (!this.#isLineOpen[stream]) return;
    this.#to[stream].write("\n");
    this.#isLineOpen[stream] = false;
    if (this.#isShared()) this.#isLineOpen.stdout = this.#isLineOpen.stderr = false;
  }

  /** Whether both streams go to the same terminal. */
  #isShared(): boolean {
    return this.#isTerminal("stdout") && this.#isTerminal("stderr");
  }

  #isTerminal(stream: "stdout" | "stderr"): boolean {
    const to = this.#to[stream];
    return (to as { isTTY?: boolean }).isTTY === true || (to === this.#io.stdout && this.#io.isTTY);
  }
}
