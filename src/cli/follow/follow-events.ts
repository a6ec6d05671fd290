/** `perdure events --follow`: the last events, then new ones until Ctrl-C or until the job has ended. The feed is
 *  read forwards only, so the last events are found by binary search. */

import type { FeedOptions } from "../../core/api.ts";
import type { PerdureEvent } from "../../core/job/event.ts";
import type { CommandContext } from "../command.ts";
import { EXIT } from "../exit.ts";
import { EVENT_COLUMNS, eventCells } from "../output/event-row.ts";
import { writeJsonLine } from "../output/print.ts";
import { cutToWidth, padTo, painted, safeLine, textOf, textWidth } from "../output/terminal-text.ts";
import { untilInterrupted } from "../stop-signals.ts";

// `perdure events --follow`: the last events, and then those to come, until Ctrl-C, or until the job has ended. A
// line is printed when its event comes, so that columns have fixed widths; on a narrow terminal instants are shown
// without their date.

/** All events, or those of one job. */
interface EventSource {
  events(options: Omit<FeedOptions, "jobId">): AsyncGenerator<PerdureEvent, void, void>;
}

interface FollowEventsRequest {
  readonly after: number | undefined;
  /** How many of those that are there already. */
  readonly last: number;
  /** Those of several jobs: each line names its own. */
  readonly withId: boolean;
  /** Of one job: whether nothing comes after an event. */
  readonly isOver?: ((event: PerdureEvent) => Promise<boolean>) | null;
}

export function followEvents(
  context: CommandContext,
  source: EventSource,
  { after, last, withId, isOver = null }: FollowEventsRequest,
): Promise<number> {
  const { given, out, io } = context;
  const print = given.flag("json")
    ? (event: PerdureEvent) => writeJsonLine(io, out, event)
    : linesTo(context, withId).print;
  return untilInterrupted(context, async (signal) => {
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

// The last events that there are. A feed is read forwards only, from a number on, and numbers have gaps; so where it
// ends is searched for, and millions of events need not be read for the sake of twenty.

/** All events after this number that are there now. */
type ReadAfter = (after: number) => AsyncIterable<PerdureEvent>;

/** Where so few numbers are left to search, reading is as quick. */
const NEAR = 500;

export async function lastEvents(read: ReadAfter, count: number): Promise<PerdureEvent[]> {
  const near = await nearEnd(read);
  // Where there are too few behind it, from further and further before it.
  for (let back = count; ; back *= 4) {
    const from = Math.max(0, near - back);
    const found = await tail(read(from), count);
    if (found.length === count || from === 0) return found;
  }
}

/** A number after which there are events, and not many; 0 if there are none. */
async function nearEnd(read: ReadAfter): Promise<number> {
  let low = 0;
  let high = 1;
  while (await hasAfter(read, high)) {
    low = high;
    high *= 8;
  }
  while (high - low > NEAR) {
    const middle = Math.floor((low + high) / 2);
    if (await hasAfter(read, middle)) low = middle;
    else high = middle;
  }
  return low;
}

async function hasAfter(read: ReadAfter, after: number): Promise<boolean> {
  for await (const _ of read(after)) return true;
  return false;
}

async function tail(events: AsyncIterable<PerdureEvent>, count: number): Promise<PerdureEvent[]> {
  let kept: PerdureEvent[] = [];
  for await (const event of events) {
    kept.push(event);
    if (kept.length >= 2 * count) kept = kept.slice(-count);
  }
  return kept.slice(-count);
}
