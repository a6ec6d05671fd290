/** `perdure events --follow`: the last events, and then those to come, until Ctrl-C, or until the job has ended. A line is printed when its event comes,
 *  so that columns have fixed widths; on a narrow terminal instants are shown without their date. */
import type { PerdureEvent } from "../../core/event.ts";
import type { FeedOptions } from "../../core/face.ts";
import { painted, textOf } from "../colour.ts";
import type { Context } from "../command.ts";
import { EXIT } from "../exit.ts";
import { cutToWidth, padTo, safeLine, textWidth } from "../terminal-text.ts";
import { COLUMNS, row } from "./event-row.ts";
import { writeJsonLine } from "./json-line.ts";
import { lastEvents } from "./last-events.ts";
import { untilLeft } from "./until-left.ts";

/** All events, or those of one job. */
export interface EventSource {
  events(options: Omit<FeedOptions, "jobId">): AsyncGenerator<PerdureEvent, void, void>;
}

export interface EventsWanted {
  readonly after: number | undefined;
  /** How many of those that are there already. */
  readonly last: number;
  /** Those of several jobs: each line names its own. */
  readonly withId: boolean;
  /** Of one job: whether nothing comes after an event. */
  readonly isOver?: ((event: PerdureEvent) => Promise<boolean>) | null;
}

export function followEvents(
  context: Context,
  source: EventSource,
  { after, last, withId, isOver = null }: EventsWanted,
): Promise<number> {
  const { given, out, io } = context;
  const print = given.flag("json")
    ? (event: PerdureEvent) => writeJsonLine(io, out, event)
    : linesTo(context, withId).print;
  return untilLeft(context, async (signal) => {
    const read = (from: number) => source.events({ after: from, signal });
    const before = after === undefined || isOver !== null ? await lastEvents(read, after === undefined ? last : 1) : [];
    if (after === undefined) for (const event of before) await print(event);
    const latest = before.at(-1);
    const seen = after ?? latest?.seq ?? 0;
    // With --after, some may still be to come that are there already.
    if (latest !== undefined && latest.seq <= seen && (await isOver?.(latest)) === true) return EXIT.done;
    for await (const event of source.events({ after: seen, follow: true, signal })) {
      await print(event);
      if ((await isOver?.(event)) === true) return EXIT.done;
    }
    return EXIT.done;
  });
}

const FULL_TIME = 29;
const SHORT_TIME = 12;
/** Below this, a line with the date would leave nothing for what happened. */
const NARROW = 140;

function linesTo({ out, io }: Context, withId: boolean): { print(event: PerdureEvent): Promise<void> | undefined } {
  const isNarrow = io.columns !== undefined && io.columns < NARROW;
  const widths = [8, isNarrow ? SHORT_TIME : FULL_TIME, withId ? 30 : 0, isNarrow ? 15 : 36];
  const line = (texts: readonly string[]): string[] => {
    let room = io.columns ?? Number.POSITIVE_INFINITY;
    return texts.flatMap((text, c) => {
      const width = widths[c];
      if (width === 0) return [];
      const padded = width === undefined ? safeLine(text) : padTo(safeLine(text), width, COLUMNS[c]?.side);
      const cell = cutToWidth(width === undefined ? padded : `${padded}  `, room);
      room = Math.max(0, room - textWidth(cell));
      return [cell];
    });
  };
  out.line(
    painted(
      "dim",
      line(COLUMNS.map(({ head }) => head))
        .join("")
        .trimEnd(),
    ),
  );
  return {
    print(event) {
      const cells = row(event, withId);
      const texts = cells.map((cell, c) => (c === 1 && isNarrow ? textOf(cell).slice(11, 23) : textOf(cell)));
      out.line(line(texts).join("").trimEnd());
      return undefined;
    },
  };
}
