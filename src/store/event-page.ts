/** A page of the events of one namespace. Events have no index by namespace, which every write would pay for: the reader
 *  looks through all of them, a bounded number at a time and in all, and is told how far it came. So a page may be empty
 *  before the end, and nobody looks at foreign ones twice. */
import type { PerdureEvent } from "../core/event.ts";
import { nextTurn } from "../lib/turn.ts";
import { EVENTS_CHARS, type EventPage, type EventQuery } from "./pages.ts";

/** Events looked at in one go: a few milliseconds of work. */
export const LOOK = 2_000;
/** Goes for one page. */
const MAX_LOOKS = 50;

/** Events of a page, which ends where it is full: in number, or in characters. */
export interface Found {
  readonly events: readonly PerdureEvent[];
  /** Characters of their data. */
  readonly chars: number;
}

/** How many characters a page may have. */
export function charsOf({ limit, chars = EVENTS_CHARS }: Pick<EventQuery, "limit" | "chars">): number {
  return limit < 0 ? Number.MAX_SAFE_INTEGER : chars;
}

export interface Look extends Found {
  /** Of jobs of the namespace, and all of the engine's: few, and their namespace is inside their data. */
  readonly events: readonly PerdureEvent[];
  readonly upTo: number;
  /** There is nothing behind it. */
  readonly isEnd: boolean;
}

/** What was found among events that end at `end`: if they are as many as were asked for, there may be more before it. */
export function lookOf(
  { events, chars }: Found,
  most: { readonly limit: number; readonly chars: number },
  end: number,
  looked: number,
): Look {
  if (events.length >= most.limit || chars >= most.chars) {
    return { events, chars, upTo: (events.at(-1) as PerdureEvent).seq, isEnd: false };
  }
  return { events, chars, upTo: end, isEnd: looked < LOOK };
}

export async function namespacePage(
  { namespace, ...query }: EventQuery & { readonly namespace: string },
  look: (after: number, most: { readonly limit: number; readonly chars: number }) => Promise<Look>,
): Promise<EventPage> {
  const events: PerdureEvent[] = [];
  let upTo = query.after;
  let chars = charsOf(query);
  for (let looks = 0; events.length < query.limit && chars > 0 && looks < MAX_LOOKS; looks++) {
    const found = await look(upTo, { limit: query.limit - events.length, chars });
    chars -= found.chars;
    for (const event of found.events) {
      if (event.jobId !== null || event.data.namespace === namespace) events.push(event);
    }
    upTo = found.upTo;
    if (found.isEnd) return { events, upTo, isEnd: true };
    await nextTurn(); // others have their turn
  }
  return { events, upTo, isEnd: false };
}

/** A page that left nothing out. */
export function wholePage({ events, chars }: Found, query: EventQuery): EventPage {
  const { after, limit } = query;
  const isEnd = limit < 0 || (events.length < limit && chars < charsOf(query));
  return { events: [...events], upTo: events.at(-1)?.seq ?? after, isEnd };
}
