/** Prints results: lines, tables and facts for people, JSON for programs. All output of commands is printed here and escaped
 *  on the way. With `--json` stdout has exactly one document, and notes go to stderr. */
import { showMs } from "../../core/duration.ts";
import { CliError, EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { type Column, factLines, type TableLayout, tableLines } from "./table.ts";
import { safeJson, safeLine, safeText, type TextPiece, textOf, wantsColour, withColour } from "./terminal-text.ts";

/** More than people read at once. */
const TABLE_ROWS = 1_000;

export class Printer {
  readonly #io: Io;
  readonly #layout: TableLayout;
  readonly #gone = new AbortController();
  #failure: Error | null = null;

  constructor(io: Io) {
    this.#io = io;
    this.#layout = { columns: io.columns, colour: wantsColour(io) };
    // Never removed: a write may fail after the command has ended.
    io.stdout.on("error", (error: Error) => this.#failed(error));
    io.stderr.on("error", () => {}); // nowhere else to report it
  }

  /** Aborted when the reader of stdout has closed it (`| head`): printing may stop. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** One line, of several pieces. */
  line(...pieces: readonly TextPiece[]): void {
    this.#write(pieces.map((piece) => withColour(safeLine(textOf(piece)), piece, this.#layout.colour)).join(""));
  }

  /** Text of several lines. */
  block(text: string): void {
    this.#write(safeText(text));
  }

  /** `wide`: not cut to the terminal. */
  table(columns: readonly Column[], rows: readonly (readonly TextPiece[])[], wide = false): void {
    this.#write(...tableLines(columns, rows, wide ? { ...this.#layout, columns: undefined } : this.#layout));
  }

  /** A long list as several tables, so that it need not be in memory. Returns the number of rows. */
  async tables(columns: readonly Column[], rows: AsyncIterable<readonly TextPiece[]>): Promise<number> {
    let count = 0;
    let block: (readonly TextPiece[])[] = [];
    for await (const row of rows) {
      if (this.gone.aborted) return count;
      count += 1;
      block.push(row);
      if (block.length < TABLE_ROWS) continue;
      this.table(columns, block);
      block = [];
    }
    if (block.length > 0) this.table(columns, block);
    return count;
  }

  facts(facts: readonly (readonly [string, TextPiece | null])[]): void {
    this.#write(...factLines(facts, this.#layout));
  }

  json(value: unknown): void {
    this.#write(safeJson(JSON.stringify(value, null, 2)));
  }

  /** One array, written item by item, so that a long list need not be in memory. */
  async jsonList(items: AsyncIterable<unknown> | Iterable<unknown>): Promise<void> {
    let before = "[";
    for await (const item of items) {
      if (this.gone.aborted) return;
      this.#io.stdout.write(`${before}\n${safeJson(JSON.stringify(item))}`);
      before = ",";
    }
    this.#write(before === "[" ? "[]" : "\n]");
  }

  /** A note on stderr, beside the output. */
  note(text: string): void {
    this.#io.stderr.write(`${safeLine(text)}\n`);
  }

  /** Resolves when everything is written; throws if that failed. A reader that closed the output is not an error. */
  async flush(): Promise<void> {
    const { stdout } = this.#io;
    if (!this.gone.aborted && this.#failure === null) {
      // A stream that has failed may never call back for later writes.
      const error = await new Promise<Error | null>((resolve) => {
        stdout.once("error", resolve);
        stdout.write("", (error) => {
          stdout.off("error", resolve);
          resolve(error ?? null);
        });
      });
      if (error !== null) this.#failed(error);
    }
    if (this.#failure !== null) throw new CliError(EXIT.failed, `cannot write the output: ${this.#failure.message}`);
  }

  #write(...lines: readonly string[]): void {
    if (lines.length > 0 && !this.gone.aborted) this.#io.stdout.write(`${lines.join("\n")}\n`);
  }

  #failed(error: Error): void {
    if ((error as NodeJS.ErrnoException).code === "EPIPE") this.#gone.abort();
    else if (!this.gone.aborted) this.#failure ??= error;
  }
}

/** An instant as ISO 8601 in local time, with its offset: `2026-11-15T21:32:58.301+01:00`. */
export function showLocal(at: number): string {
  const offset = -new Date(at).getTimezoneOffset();
  const shifted = new Date(at + offset * 60_000);
  if (Number.isNaN(shifted.getTime())) return "an unknown time";
  const two = (n: number) => String(Math.floor(n)).padStart(2, "0");
  const zone = `${offset < 0 ? "-" : "+"}${two(Math.abs(offset) / 60)}:${two(Math.abs(offset) % 60)}`;
  return shifted.toISOString().replace("Z", zone);
}

/** How long ago, or how long; at least 0. */
export function showSince(from: number, to: number): string {
  return showMs(Math.max(0, to - from));
}

/** One JSON object on its own line, for lists without an end. Returns a promise while the reader is behind. */
export function writeJsonLine({ stdout }: Io, { gone }: Printer, value: unknown): Promise<void> | undefined {
  if (gone.aborted || stdout.write(`${safeJson(JSON.stringify(value))}\n`)) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      stdout.removeListener("drain", done);
      gone.removeEventListener("abort", done);
      resolve();
    };
    stdout.once("drain", done);
    gone.addEventListener("abort", done);
  });
}
