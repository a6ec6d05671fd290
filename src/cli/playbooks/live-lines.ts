/** Lines on stderr. On a terminal the last ones may be updated in place: each has a key, and a line with a key stays below all
 *  others until it is finished. Elsewhere only finished lines are written. */
import type { Io } from "../io.ts";
import { cutToWidth, safeLine } from "../output/terminal-text.ts";

/** A line is repeated at most this often. */
const EVERY_MS = 100;

export class LiveLines {
  readonly #io: Pick<Io, "stderr" | "columns">;
  readonly #isTerminal: boolean;
  readonly #isQuiet: boolean;
  readonly #live = new Map<string, string>();
  #shown = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(io: Pick<Io, "stderr" | "columns">, isQuiet: boolean) {
    this.#io = io;
    this.#isQuiet = isQuiet;
    this.#isTerminal = (io.stderr as { isTTY?: boolean }).isTTY === true;
  }

  /** A line that stays. */
  note(text: string): void {
    if (this.#isQuiet) return;
    this.#write([text]);
  }

  /** A line that changes until `finish`. */
  update(key: string, text: string): void {
    if (this.#isQuiet || !this.#isTerminal) return;
    this.#live.set(key, text);
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#write([]);
    }, EVERY_MS).unref();
  }

  finish(key: string): void {
    if (this.#live.delete(key)) this.#write([]);
  }

  /** Clears what is not finished. */
  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#live.clear();
    if (this.#shown > 0) this.#write([]);
  }

  /** One write, to avoid flicker: what was live is cleared, the new lines come, and then what is live. */
  #write(lines: readonly string[]): void {
    // stdout may be a pipe.
    const width = (this.#io.stderr as { columns?: number }).columns || this.#io.columns || DEFAULT_WIDTH;
    const live = [...this.#live.values()].slice(0, MAX_LIVE).map((text) => cutToWidth(safeLine(text), width));
    const up = this.#shown === 0 ? "" : `\x1b[${this.#shown}A\r\x1b[J`;
    const text = [...lines.map(safeLine), ...live].map((line) => `${line}\n`).join("");
    this.#shown = live.length;
    if (up !== "" || text !== "") this.#io.stderr.write(up + text);
  }
}

const DEFAULT_WIDTH = 80;
/** More would fill a screen. */
const MAX_LIVE = 10;
