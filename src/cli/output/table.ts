/** Tables and lists of facts in lines no wider than the terminal. Cells are escaped here. */
import { cutToWidth, padTo, safeLine, type TextPiece, textOf, textWidth, withColour } from "./terminal-text.ts";

export interface Column {
  readonly head: string;
  /** Numbers and durations are right-aligned. */
  readonly side?: "left" | "right";
  /** May be cut if space is short. Ids are never cut, so that they can be copied. */
  readonly flexible?: boolean;
}

export interface TableLayout {
  /** Undefined: not limited. */
  readonly columns: number | undefined;
  readonly colour: boolean;
}

const GAP = 2;
/** A cell cut shorter than this is useless. */
const MIN_WIDTH = 6;

/** A heading and a line for each row; empty columns are left out. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly TextPiece[])[],
  layout: TableLayout,
): string[] {
  const used = columns.map((_, c) => c).filter((c) => rows.some((row) => textOf(row[c] ?? "") !== ""));
  const shown = used.map((c) => columns[c] as Column);
  const head = shown.map((column): TextPiece => ({ text: column.head, colour: "dim" }));
  const pieces = [head, ...rows.map((row) => used.map((c) => row[c] ?? ""))];
  const cells = pieces.map((row) => row.map((piece) => safeLine(textOf(piece))));
  const widths = fitted(shown, cells, layout.columns ?? Number.POSITIVE_INFINITY);
  return cells.map((row, r) => {
    let room = layout.columns ?? Number.POSITIVE_INFINITY;
    const parts = row.map((cell, c) => {
      const last = c === row.length - 1;
      const cut = cutToWidth(cell, Math.min(widths[c] as number, room));
      const side = shown[c]?.side ?? "left";
      const padded = last && side === "left" ? cut : padTo(cut, Math.min(widths[c] as number, room), side);
      room = Math.max(0, room - textWidth(padded) - GAP);
      return withColour(padded, pieces[r]?.[c] ?? "", layout.colour);
    });
    return parts.join(" ".repeat(GAP)).trimEnd();
  });
}

/** Natural widths; flexible columns are made narrower, the widest first, until the table fits. */
function fitted(columns: readonly Column[], cells: readonly (readonly string[])[], room: number): number[] {
  const widths = columns.map((_, c) => cells.reduce((most, row) => Math.max(most, textWidth(row[c] as string)), 0));
  let over = widths.reduce((sum, width) => sum + width, 0) + GAP * (widths.length - 1) - room;
  while (over > 0) {
    const flexible = widths.map((width, c) => (columns[c]?.flexible ? width : 0));
    const widest = flexible.indexOf(Math.max(...flexible));
    const width = flexible[widest] ?? 0;
    if (width <= MIN_WIDTH) break;
    const next = Math.max(0, ...flexible.filter((_, c) => c !== widest));
    // In one step to the next narrower column, else by one.
    const less = Math.min(over, width - MIN_WIDTH, Math.max(1, width - next));
    widths[widest] = width - less;
    over -= less;
  }
  return widths;
}

/** `name  value` lines, values in one column; null and empty values are left out. */
export function factLines(facts: readonly (readonly [string, TextPiece | null])[], layout: TableLayout): string[] {
  const known = facts.filter(
    (fact): fact is readonly [string, TextPiece] => fact[1] !== null && textOf(fact[1]) !== "",
  );
  const width = Math.max(0, ...known.map(([name]) => name.length));
  return known.map(([name, value]) => {
    const label = withColour(name.padEnd(width), { text: name, colour: "dim" }, layout.colour);
    return `${label}${" ".repeat(GAP)}${withColour(safeLine(textOf(value)), value, layout.colour)}`;
  });
}
