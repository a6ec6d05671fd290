/** `perdure events ID --view VIEW --follow`: the events of a job as another system has them, those that are there and then those
 *  to come, until the job has ended. An event of ours may be several of theirs, and theirs are made of all that is recorded, so
 *  the view is read again when events came, at most every READ_EVERY_MS, and what is new in it, or has changed, is printed.
 *  A job that gets too many events for a view ends it, with the command that goes on from there. */
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

/** Each reading costs as much as all events that the job has. */
export const READ_EVERY_MS = 250;
/** The job is checked when an event came, and in any case this often. */
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
      // They may have come while the view was read.
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

/** Nobody knows what is to come, so columns have the width of the longest that there is. */
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
