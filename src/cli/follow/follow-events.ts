/** `perdure events --follow`: the last events, then new ones until Ctrl-C or until the job has ended. Each line is printed
 *  at once, so columns have fixed widths; on a narrow terminal the date is left out. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import type { PerdureEvent } from "../../core/job/event.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { CommandContext } from "../command.ts";
import { EXIT } from "../exit.ts";
import { EVENT_COLUMNS, eventCells } from "../output/event-row.ts";
import { writeJsonLine } from "../output/print.ts";
import { cutToWidth, padTo, painted, safeLine, textOf, textWidth } from "../output/terminal-text.ts";
import { untilInterrupted } from "../stop-signals.ts";

interface FollowEventsRequest {
  /** Undefined: the `last` events come first. */
  readonly after: number | undefined;
  readonly last: number;
}

/** Of one job, or of all. */
export function followEvents(
  context: CommandContext,
  source: Perdure | JobHandle<unknown>,
  { after, last }: FollowEventsRequest,
): Promise<number> {
  const { given, out, io } = context;
  const job = "id" in source ? source : null;
  const print = given.flag("json")
    ? (event: PerdureEvent) => writeJsonLine(io, out, event)
    : linesTo(context, job === null).print;
  return untilInterrupted(context, async (signal) => {
    let seen = after ?? 0;
    if (after === undefined) {
      const newest: PerdureEvent[] = [];
      for await (const event of source.events({ order: "newest", limit: last, signal })) newest.push(event);
      for (const event of newest.reverse()) await print(event);
      seen = newest.at(-1)?.seq ?? 0;
    }
    const hasEnded = job !== null && isTerminal((await job.get()).state);
    for await (const event of source.events({ after: seen, follow: !hasEnded, signal })) {
      await print(event);
      if (job === null || hasEnded) continue;
      const { state, revision } = await job.get();
      if (isTerminal(state) && event.n >= revision) break;
    }
    return EXIT.done;
  });
}

const FULL_TIME = 29;
const SHORT_TIME = 12;
/** On a narrower terminal the date would leave no space for the event. */
const NARROW = 140;

function linesTo(
  { out, io }: CommandContext,
  withId: boolean,
): { print(event: PerdureEvent): Promise<void> | undefined } {
  const isNarrow = io.columns !== undefined && io.columns < NARROW;
  const widths = [8, isNarrow ? SHORT_TIME : FULL_TIME, withId ? 30 : 0, isNarrow ? 15 : 36];
  const line = (texts: readonly string[]): string[] => {
    let room = io.columns ?? Number.POSITIVE_INFINITY;
    return texts.flatMap((text, c) => {
      const width = widths[c];
      if (width === 0) return [];
      const padded = width === undefined ? safeLine(text) : padTo(safeLine(text), width, EVENT_COLUMNS[c]?.side);
      const cell = cutToWidth(width === undefined ? padded : `${padded}  `, room);
      room = Math.max(0, room - textWidth(cell));
      return [cell];
    });
  };
  out.line(
    painted(
      "dim",
      line(EVENT_COLUMNS.map(({ head }) => head))
        .join("")
        .trimEnd(),
    ),
  );
  return {
    print(event) {
      const cells = eventCells(event, withId);
      const texts = cells.map((cell, c) => (c === 1 && isNarrow ? textOf(cell).slice(11, 23) : textOf(cell)));
      out.line(line(texts).join("").trimEnd());
      return undefined;
    },
  };
}
