/** `perdure events ID --view VIEW --follow`: the events of a job in the format of another system, until the job has ended.
 *  One event may become several of theirs, and they depend on the whole history, so the view is computed again when events
 *  arrive, at most every READ_EVERY_MS, and new or changed entries are printed. If a job gets too many events for a view, it
 *  ends with the command that continues from there. */
import type { Perdure } from "../../core/api.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { EventTable, ViewParts } from "../../dialects/dialect.ts";
import { VIEWED_EVENTS } from "../../dialects/read-view.ts";
import { type Clock, sleep } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { viewParts } from "../apply/job-views.ts";
import type { CommandContext } from "../command.ts";
import { CliError, EXIT } from "../exit.ts";
import { writeJsonLine } from "../output/print.ts";
import { cutToWidth, padTo, painted, safeLine } from "../output/terminal-text.ts";
import { untilInterrupted } from "../stop-signals.ts";
import { JobChanges } from "./follow-output.ts";

/** Each read costs as much as all events of the job. */
export const READ_EVERY_MS = 250;
/** The job is checked when an event arrives, and at least this often. */
const ASK_EVERY_MS = 5_000;

export interface EventView {
  readonly table: (parts: ViewParts) => EventTable;
  readonly json: (parts: ViewParts) => readonly unknown[];
}

export function followView(
  context: CommandContext,
  perdure: Perdure,
  id: string,
  view: EventView,
  clock: Pick<Clock, "after"> = systemClock,
): Promise<number> {
  const { given, io, out } = context;
  return untilInterrupted(context, async (signal) => {
    const lines = new TableLines(context);
    let shown: readonly string[] = [];
    const printNew = async (): Promise<ViewParts> => {
      const parts = await viewParts(perdure, id);
      if (given.flag("json")) {
        const all = view.json(parts);
        const texts = all.map((each) => JSON.stringify(each));
        for (const [i, text] of texts.entries()) if (text !== shown[i]) await writeJsonLine(io, out, all[i]);
        shown = texts;
      } else {
        const { heads, rows } = view.table(parts);
        const texts = rows.map((cells) => JSON.stringify(cells));
        for (const [i, text] of texts.entries())
          if (text !== shown[i]) lines.print(heads, rows[i] as readonly string[]);
        shown = texts;
      }
      return parts;
    };
    let { job, events } = await printNew();
    const handle = await perdure.job(id);
    using changes = new JobChanges(handle, signal, events.at(-1)?.seq ?? 0);
    while (!isTerminal(job.state) && !signal.aborted) {
      await sleep(clock, READ_EVERY_MS, { signal });
      await changes.within(ASK_EVERY_MS);
      const { revision } = await handle.get();
      // Events may have arrived while the view was read.
      if (revision === job.revision) continue;
      const seen = events.at(-1)?.seq ?? 0;
      try {
        ({ job, events } = await printNew());
      } catch (error) {
        throw (await handle.get()).revision > VIEWED_EVENTS ? tooManyEvents(id, seen) : error;
      }
    }
    return EXIT.done;
  });
}

function tooManyEvents(id: string, seen: number): CliError {
  const command = `perdure events ${id} --follow --after ${seen}`;
  const message = `${id} has more than ${VIEWED_EVENTS} events, too many for a view; for the events that follow, use ${command}`;
  return new CliError(EXIT.failed, message);
}

/** Later rows are not known yet, so a column is as wide as its longest possible value. */
const WIDTHS: Readonly<Record<string, number>> = { "#": 4, AT: 24, STATUS: 9, EVENT: 25 };
const GAP = "  ";

class TableLines {
  readonly #context: CommandContext;
  #hasHead = false;

  constructor(context: CommandContext) {
    this.#context = context;
  }

  print(heads: readonly string[], cells: readonly string[]): void {
    const { out } = this.#context;
    if (!this.#hasHead) out.line(painted("dim", this.#line(heads, heads)));
    this.#hasHead = true;
    out.line(this.#line(heads, cells));
  }

  #line(heads: readonly string[], cells: readonly string[]): string {
    const padded = cells.map((cell, c) => {
      const width = WIDTHS[heads[c] as string];
      const isLast = c === cells.length - 1;
      return isLast || width === undefined
        ? safeLine(cell)
        : padTo(safeLine(cell), width, heads[c] === "#" ? "right" : "left");
    });
    return cutToWidth(padded.join(GAP), this.#context.io.columns ?? Number.POSITIVE_INFINITY).trimEnd();
  }
}
