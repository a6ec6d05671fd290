/** A table on a terminal that is redrawn in place each second. It is cut to the height of the terminal, because lines that
 *  scrolled away cannot be redrawn. While the server is unreachable, the last table stays. */
import { isOutage } from "../../core/errors.ts";
import { sleep } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import type { CommandContext } from "../command.ts";
import type { Io } from "../io.ts";
import { type Column, tableLines } from "../output/table.ts";
import { cutToWidth, painted, safeLine, type TextPiece, wantsColour, withColour } from "../output/terminal-text.ts";
import { untilInterrupted } from "../stop-signals.ts";

const EVERY_MS = 1_000;
const DEFAULT_HEIGHT = 24;

export interface WatchedRows {
  readonly rows: readonly (readonly TextPiece[])[];
  readonly hasMore: boolean;
}

export function watchTable(
  context: CommandContext,
  columns: readonly Column[],
  read: () => Promise<WatchedRows>,
): Promise<number> {
  const { io } = context;
  const screen = new TableScreen(io);
  return untilInterrupted(context, async (signal) => {
    let last: WatchedRows = { rows: [], hasMore: false };
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      let failure: string | null = null;
      try {
        last = await read();
      } catch (error) {
        // The first read shows whether it works at all: its error ends the command.
        if (isFirst || !isOutage(error)) throw error;
        failure = (error as Error).message;
      }
      if (signal.aborted) break;
      screen.draw(columns, last, failure);
      await sleep(systemClock, EVERY_MS, { signal });
    }
    return 0;
  });
}

class TableScreen {
  readonly #io: Io;
  #height = 0;

  constructor(io: Io) {
    this.#io = io;
  }

  draw(columns: readonly Column[], { rows, hasMore }: WatchedRows, failure: string | null): void {
    // Read each time: a terminal may be resized, or not know its size (0).
    const { columns: wide, rows: high } = this.#io.stdout as Partial<NodeJS.WriteStream>;
    const width = wide || this.#io.columns;
    const height = high || DEFAULT_HEIGHT;
    const colour = wantsColour(this.#io);
    const room = Math.max(1, height - 3);
    const shown = rows.slice(0, room);
    const lines = shown.length === 0 ? ["no matching jobs"] : tableLines(columns, shown, { columns: width, colour });
    const notes = [new Date().toLocaleTimeString("en-GB"), "Ctrl-C ends it"];
    if (hasMore || shown.length < rows.length) notes.push("there are more");
    const status = painted(failure === null ? "dim" : "red", failure ?? notes.join(", "));
    const text = cutToWidth(safeLine(status.text), width ?? Number.POSITIVE_INFINITY);
    lines.push(withColour(text, status, colour));
    const up = this.#height === 0 ? "" : `\x1b[${this.#height}A`;
    // One write, to avoid flicker. Each line is cleared before it is written: clearing after a full line would remove its
    // last character.
    this.#io.stdout.write(`${up}\r${lines.map((line) => `\x1b[2K${line}\n`).join("")}\x1b[J`);
    this.#height = lines.length;
  }
}
