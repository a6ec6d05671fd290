/** A table on a terminal that is drawn anew each second, in its place. It is cut to the height of the terminal: what has
 *  scrolled away cannot be drawn over. While the server is away, the last one stays. */
import { isOutage } from "../../core/errors.ts";
import { systemClock } from "../../engine/clock.ts";
import { sleep } from "../../lib/clock.ts";
import { type Piece, painted, wantsColour, withColour } from "../colour.ts";
import type { Context } from "../command.ts";
import type { Io } from "../io.ts";
import { type Column, tableLines } from "../table.ts";
import { cutToWidth, safeLine } from "../terminal-text.ts";
import { untilLeft } from "./until-left.ts";

const EVERY_MS = 1_000;
const DEFAULT_HEIGHT = 24;

export interface Look {
  readonly rows: readonly (readonly Piece[])[];
  readonly hasMore: boolean;
}

export function watchTable(context: Context, columns: readonly Column[], look: () => Promise<Look>): Promise<number> {
  const { io } = context;
  const screen = new Screen(io);
  return untilLeft(context, async (signal) => {
    let last: Look = { rows: [], hasMore: false };
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      let trouble: string | null = null;
      try {
        last = await look();
      } catch (error) {
        // The first look tells whether it can work at all.
        if (isFirst || !isOutage(error)) throw error;
        trouble = (error as Error).message;
      }
      if (signal.aborted) break;
      screen.draw(columns, last, trouble);
      await sleep(systemClock, EVERY_MS, { signal });
    }
    return 0;
  });
}

class Screen {
  readonly #io: Io;
  #height = 0;

  constructor(io: Io) {
    this.#io = io;
  }

  draw(columns: readonly Column[], { rows, hasMore }: Look, trouble: string | null): void {
    // Asked for each time: a terminal may change its size, or not know it (0).
    const { columns: wide, rows: high } = this.#io.stdout as Partial<NodeJS.WriteStream>;
    const width = wide || this.#io.columns;
    const height = high || DEFAULT_HEIGHT;
    const colour = wantsColour(this.#io);
    const room = Math.max(1, height - 3);
    const shown = rows.slice(0, room);
    const lines = shown.length === 0 ? ["no matching jobs"] : tableLines(columns, shown, { columns: width, colour });
    const notes = [new Date().toLocaleTimeString("en-GB"), "Ctrl-C ends it"];
    if (hasMore || shown.length < rows.length) notes.push("there are more");
    const status = painted(trouble === null ? "dim" : "red", trouble ?? notes.join(", "));
    const text = cutToWidth(safeLine(status.text), width ?? Number.POSITIVE_INFINITY);
    lines.push(withColour(text, status, colour));
    const up = this.#height === 0 ? "" : `\x1b[${this.#height}A`;
    // In one write, so that nothing flickers. A line is cleared first: behind a full one that would take its last character.
    this.#io.stdout.write(`${up}\r${lines.map((line) => `\x1b[2K${line}\n`).join("")}\x1b[J`);
    this.#height = lines.length;
  }
}
