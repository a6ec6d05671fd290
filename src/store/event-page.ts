/** A page of the events of one namespace. Events have no index by namespace, which every write would pay for: the reader
 *  looks through all of them, a bounded number at a time and in all, and is told how far it came. So a page may be empty
 *  before the end, and nobody looks at foreign ones twice. */
import type { PerdureEvent } from "../core/event.ts";
import { nextTurn } from "../lib/turn.ts";
import type { EventPage, EventQuery } from "./store.ts";

/** Events looked at in one go: a few milliseconds of work. */
export const LOOK = 2_000;
/** Goes for one page. */
const MAX_LOOKS = 50;

export interface Look {
  /** Of jobs of the namespace, and all of the engine's: few, and their namespace is inside their data. */
  readonly events: readonly PerdureEvent[];
  readonly upTo: number;
  /** There is nothing behind it. */
  readonly isEnd: boolean;
}

/** What was found among events that end at `end`: if they are as many as were asked for, there may be more before it. */
export function lookOf(events: readonly PerdureEvent[], limit: number, end: number, looked: number): Look {
  if (events.length >= limit) return { events, upTo: (events.at(-1) as PerdureEvent).seq, isEnd: false };
  return { events, upTo: end, isEnd: looked < LOOK };
}

export async function namespacePage(
  { after, limit, namespace }: { readonly after: number; readonly limit: number; readonly namespace: string },
  look: (after: number, limit: number) => Promise<Look>,
): Promise<EventPage> {
  const events: PerdureEvent[] = [];
  let upTo = after;
  for (let looks = 0; events.length < limit && looks < MAX_LOOKS; looks++) {
    const found = await look(upTo, limit - events.length);
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
export function wholePage(events: PerdureEvent[], { after, limit }: Pick<EventQuery, "after" | "limit">): EventPage {
  return { events, upTo: events.at(-1)?.seq ?? after, isEnd: limit < 0 || events.length < limit };
}
