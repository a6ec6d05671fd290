/** Pages of long lists: logs, attempts, sessions and events. Bounded in rows and in characters. */
import type { PerdureEvent } from "../core/job/event.ts";
import { type EventLoop, nextTurn } from "../lib/clock.ts";

// Pages of what may be very long: logs, attempts and events of a job, and sessions. Bounded in rows and in
// characters.

/** Which attempts of a job to read. */
export interface AttemptsPage {
  /** The last attempt that was read; 0: from the first on. */
  readonly after?: number;
  /** At most ATTEMPTS_PAGE, which is the default. */
  readonly limit?: number;
}

export const ATTEMPTS_PAGE = 100;
/** Characters of results and failures of a page; the attempt that goes beyond is the last of it. */
export const ATTEMPTS_CHARS = 4_194_304;
/** What an attempt logged is in its row up to this; all of it is to be had a page at a time (`log`). */
export const ATTEMPT_LOG = 65_536;

/** Sessions of one page. Each may name 32 KiB of kinds and queues. */
export const SESSIONS_PAGE = 200;

export interface SessionsQuery {
  /** Null: of all. */
  readonly namespace?: string | null;
  /** The last session that was read; null: from the first on. */
  readonly after?: string | null;
  /** At most SESSIONS_PAGE, which is the default. */
  readonly limit?: number;
  /** Without those that ended before this instant; null: with all. */
  readonly endedSince?: number | null;
}

/** A page of what an attempt logged: of at most LOG_PAGE pieces, each as long as one renewal may carry. */
export interface AttemptLog {
  readonly attempt: number;
  readonly text: string;
  /** Read on from here. */
  readonly next: number;
}

export const LOG_PAGE = 32;

/** Each event may carry a failure with its stack, or what a job was submitted with. */
const EVENTS_CHARS = 4_194_304;

/** The order of events: by their numbers, up or down. */
export type EventOrder = "oldest" | "newest";

export interface EventQuery {
  /** Only those after this number; 0: from the first on. */
  readonly after: number;
  /** Only those before this number: where the next page of the newest begins. */
  readonly before?: number;
  /** Default: oldest first. */
  readonly order?: EventOrder;
  /** Below 0: all there are. */
  readonly limit: number;
  /** Characters of data in a page; the event that exceeds it is the last of the page. Default: EVENTS_CHARS. */
  readonly chars?: number;
  readonly jobId?: string;
  /** Only events of jobs of this namespace, and those of the engine that name it. */
  readonly namespace?: string;
}

export interface EventPage {
  readonly events: PerdureEvent[];
  /** Every match up to this number was returned; newest first, down to it. The next page begins there, by `after` or
   *  `before`. */
  readonly upTo: number;
  /** There was nothing behind it. A page may be short, or empty, before the end. */
  readonly isEnd: boolean;
}

// A page of the events of one namespace. Events have no index by namespace, which every write would pay for: the
// reader looks through all of them, a bounded number at a time and in all, and is told how far it came. So a page may
// be empty before the end, and nobody looks at foreign ones twice.

/** Events scanned in one go: a few milliseconds of work. */
export const SCAN_EVENTS = 2_000;
/** Goes for one page. */
const MAX_SCANS = 50;

/** Events of a page, which ends where it is full: in number, or in characters. */
export interface FoundEvents {
  readonly events: readonly PerdureEvent[];
  /** Characters of their data. */
  readonly chars: number;
}

/** The numbers between which events are read, both exclusive. */
export type SeqRange = Required<Pick<EventQuery, "after" | "before">>;

export function seqRange({ after, before = Number.MAX_SAFE_INTEGER }: EventQuery): SeqRange {
  return { after, before };
}

/** How many characters a page may have. */
export function charsOf({ limit, chars = EVENTS_CHARS }: Pick<EventQuery, "limit" | "chars">): number {
  return limit < 0 ? Number.MAX_SAFE_INTEGER : chars;
}

export interface EventScan extends FoundEvents {
  /** Of jobs of the namespace, and all of the engine's: few, and their namespace is inside their data. */
  readonly events: readonly PerdureEvent[];
  readonly upTo: number;
  /** There is nothing behind it. */
  readonly isEnd: boolean;
}

/** What was found among events that end at `end`: if they are as many as were asked for, there may be more before it. */
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
  for (let looks = 0; events.length < query.limit && chars > 0 && looks < MAX_SCANS; looks++) {
    const found = await scan(range, { limit: query.limit - events.length, chars });
    chars -= found.chars;
    for (const event of found.events) {
      if (event.jobId !== null || event.data.namespace === namespace) events.push(event);
    }
    upTo = found.upTo;
    range = query.order === "newest" ? { ...range, before: upTo } : { ...range, after: upTo };
    if (found.isEnd) return { events, upTo, isEnd: true };
    await nextTurn(loop); // others have their turn
  }
  return { events, upTo, isEnd: false };
}

/** A page that left nothing out. */
export function wholePage({ events, chars }: FoundEvents, query: EventQuery): EventPage {
  const { after, limit } = query;
  const isEnd = limit < 0 || (events.length < limit && chars < charsOf(query));
  return { events: [...events], upTo: events.at(-1)?.seq ?? after, isEnd };
}
