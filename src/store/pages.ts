/** Pages of what may be very long: logs, attempts and events of a job, and sessions. Bounded in rows and in characters. */
import type { PerdureEvent } from "../core/event.ts";

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
export const EVENTS_CHARS = 4_194_304;

export interface EventQuery {
  readonly after: number;
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
  /** All that fits, up to this number, has been given: the place to go on from. */
  readonly upTo: number;
  /** There was nothing behind it. A page may be short, or empty, before the end. */
  readonly isEnd: boolean;
}
