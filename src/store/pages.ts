/** Pages of long lists: logs, attempts, sessions and events. Bounded in rows and in characters. */
import type { PerdureEvent } from "../core/job/event.ts";
import { type EventLoop, nextTurn } from "../lib/clock.ts";
import type { EventPage, EventQuery } from "./port/events.ts";

export const ATTEMPTS_PAGE = 100;
/** Characters of results and failures per page; the attempt that exceeds it is the last one on the page. */
export const ATTEMPTS_CHARS = 4_194_304;
/** How much of its log an attempt row has. The complete log is read in pages (`log`). */
export const ATTEMPT_LOG = 65_536;

/** Late reports of a job that are shown: the latest. An attempt may have one, and a job any number of attempts. */
export const LATE_REPORTS = 100;

/** Sessions per page. Each may have 32 KiB of kinds and queues. */
export const SESSIONS_PAGE = 200;

export const LOG_PAGE = 32;

/** Each event may have a failure with its stack, or the input of a submit. */
const EVENTS_CHARS = 4_194_304;

// A page of the events of one namespace. There is no index by namespace, because every write would pay for it: the
// reader scans all events, a bounded number per call, and gets the position it reached. So a page may be empty before
// the end, and no event is scanned twice.

/** Events scanned at once: a few milliseconds of work. */
export const SCAN_EVENTS = 2_000;
/** Scans per page. */
const MAX_SCANS = 50;

/** Events of a page, which ends when it is full: by number or by characters. */
export interface FoundEvents {
  readonly events: readonly PerdureEvent[];
  /** Characters of their data. */
  readonly chars: number;
}

/** Events between these numbers, both exclusive, are read. */
export type SeqRange = Required<Pick<EventQuery, "after" | "before">>;

export function seqRange({ after, before = Number.MAX_SAFE_INTEGER }: EventQuery): SeqRange {
  return { after, before };
}

/** The maximum number of characters of a page. */
export function charsOf({ limit, chars = EVENTS_CHARS }: Pick<EventQuery, "limit" | "chars">): number {
  return limit < 0 ? Number.MAX_SAFE_INTEGER : chars;
}

export interface EventScan extends FoundEvents {
  /** Of jobs of the namespace, and all engine events: those are few, and their namespace is inside their data. */
  readonly events: readonly PerdureEvent[];
  readonly upTo: number;
  /** There are no more events. */
  readonly isEnd: boolean;
}

/** The result of a scan that ends at `end`. If it found as many as requested, there may be more before `end`. */
export function eventScanOf(
  { events, chars }: FoundEvents,
  most: { readonly limit: number; readonly chars: number },
  end: number,
  scanned: number,
): EventScan {
  if (events.length >= most.limit || chars >= most.chars) {
    return { events, chars, upTo: (events.at(-1) as PerdureEvent).seq, isEnd: false };
  }
  return { events, chars, upTo: end, isEnd: scanned < SCAN_EVENTS };
}

export async function namespacePage(
  { namespace, ...query }: EventQuery & { readonly namespace: string },
  loop: Pick<EventLoop, "turn">,
  scan: (range: SeqRange, most: { readonly limit: number; readonly chars: number }) => Promise<EventScan>,
): Promise<EventPage> {
  const events: PerdureEvent[] = [];
  let range = seqRange(query);
  let upTo = query.after;
  let chars = charsOf(query);
  for (let scans = 0; events.length < query.limit && chars > 0 && scans < MAX_SCANS; scans++) {
    const found = await scan(range, { limit: query.limit - events.length, chars });
    chars -= found.chars;
    for (const event of found.events) {
      if (event.jobId !== null || event.data.namespace === namespace) events.push(event);
    }
    upTo = found.upTo;
    range = query.order === "newest" ? { ...range, before: upTo } : { ...range, after: upTo };
    if (found.isEnd) return { events, upTo, isEnd: true };
    await nextTurn(loop); // yield to other work
  }
  return { events, upTo, isEnd: false };
}

/** A page without gaps. */
export function wholePage({ events, chars }: FoundEvents, query: EventQuery): EventPage {
  const { after, limit } = query;
  const isEnd = limit < 0 || (events.length < limit && chars < charsOf(query));
  return { events: [...events], upTo: events.at(-1)?.seq ?? after, isEnd };
}
