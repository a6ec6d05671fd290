/** Events in the port: the feed of all events, and those of one job. */
import type { PerdureEvent } from "../../core/job/event.ts";

export interface EventStore {
  page(query: EventQuery): Promise<EventPage>;
  /** The sequence number of the newest event. */
  lastSeq(): Promise<number>;
}

/** The order of events by their sequence numbers. */
export type EventOrder = "oldest" | "newest";

export interface EventQuery {
  /** Only events after this number; 0: start with the first. */
  readonly after: number;
  /** Only events before this number: where the next page begins in newest-first order. */
  readonly before?: number;
  /** Default: oldest first. */
  readonly order?: EventOrder;
  /** Negative: no limit. */
  readonly limit: number;
  /** Characters of data in a page; the event that exceeds it is the last of the page. Default: EVENTS_CHARS. */
  readonly chars?: number;
  readonly jobId?: string;
  /** Only events of jobs in this namespace, and engine events with this namespace. */
  readonly namespace?: string;
}

export interface EventPage {
  readonly events: PerdureEvent[];
  /** Every match up to this number was returned (newest first: down to it). The next page starts here, by `after` or
   *  `before`. */
  readonly upTo: number;
  /** There are no more events. A page may be short or empty before the end. */
  readonly isEnd: boolean;
}
