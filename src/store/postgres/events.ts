/** How events are numbered, and up to which number they may be read. A statement draws one number for all its events
 *  once their rows are written and locked, so a job's events are in the order of their numbers. */
import { type Clock, sleep } from "../../lib/clock.ts";
import type { PostgresContext } from "./context.ts";

// How events are numbered. A statement draws one number for all its events, when the rows they tell of are written
// and locked: so a job's events are in the order of their numbers, and the transaction has its own number before
// (feed.ts). Drawn row by row they cost as much as the rows themselves.

/** More than the events of any statement. */
export const BATCH = 4_096;

/** The number of the statement's batch, once all of `rows` is there; no row where there is none. */
function batchAfter(rows: string): string {
  return `batch as materialized (
    select nextval('$s.event_seq') * ${BATCH} as base from (select count(*) as n from ${rows}) counted where n > 0
  )`;
}

/** Writes an event for each of `rows`, as parts of a statement. */
function writeEvents(
  rows: string,
  event: { job: string; n: string; at: string; name: string; data: string },
  place = "row_number() over ()",
): string {
  return `${batchAfter(rows)},
  told as (
    insert into $s.event (seq, job, n, at, name, data)
    select batch.base + ${place}, ${event.job}, ${event.n}, ${event.at}, ${event.name}, ${event.data}
    from batch cross join ${rows}
  )`;
}

/** Events of jobs: `rows` has no and revision, and may have each row's place among them. */
export function writeJobEvents(rows: string, at: string, name: string, data: string, place?: string): string {
  return writeEvents(rows, { job: `${rows}.no`, n: `${rows}.revision`, at, name, data }, place);
}

/** Events of the engine itself. */
export function writeEngineEvents(rows: string, at: string, name: string, data: string): string {
  return writeEvents(rows, { job: "null::bigint", n: "0", at, name, data });
}

// The event feed: all events from a cursor on, in order, without gaps. Numbers are given out before a transaction
// commits, so a reader that simply asks for what comes after the last number skips those that commit later. It
// follows a watermark instead: the last batch of numbers given out so far is safe to read up to once every
// transaction that was under way at that moment has ended. It works because every transaction that writes an event
// has its own number before it takes one for the event. A long transaction anywhere in the server delays the feed,
// never the engine.

/** How long a read waits for the transactions before it; then it gives what is safe. */
const PATIENCE_MS = 1_000;
const LOOK_EVERY_MS = 2;

/** A number, and the transaction that must have been passed before it is safe. */
interface PendingEvents {
  readonly upTo: number;
  readonly xid: bigint;
}

export class Watermark {
  readonly #context: PostgresContext;
  readonly #clock: Clock;
  readonly #sql;
  #safe = 0;
  #pending: PendingEvents | null = null;
  #looking: Promise<number> | null = null;
  #next: Promise<number> | null = null;

  constructor(context: PostgresContext) {
    const { sql } = context;
    this.#context = context;
    this.#clock = context.clock;
    this.#sql = {
      last: sql("feed_last", "select case when is_called then last_value else 0 end from $s.event_seq"),
      xid: sql("feed_xid", "select pg_current_xact_id()::text"),
      oldest: sql("feed_oldest", "select pg_snapshot_xmin(pg_current_snapshot())::text"),
    };
  }

  /** The number up to which all events can be read: at least those committed before this call, if nobody holds it up. */
  safe(): Promise<number> {
    if (this.#looking === null) return this.#look();
    // The look under way began before this call, and may miss what was committed since: all who come now share the next.
    this.#next ??= this.#looking.then(
      () => this.#look(),
      () => this.#look(),
    );
    return this.#next;
  }

  #look(): Promise<number> {
    this.#next = null;
    this.#looking = this.#advance().finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #advance(): Promise<number> {
    const { db } = this.#context;
    const until = this.#clock.monotonic() + PATIENCE_MS;
    if (this.#pending !== null) await this.#passed(until);
    if (this.#pending !== null) return this.#safe;
    const upTo = (Number((await db.read(this.#sql.last))[0]?.[0]) + 1) * BATCH - 1;
    if (upTo <= this.#safe) return this.#safe;
    const xid = BigInt((await db.read(this.#sql.xid))[0]?.[0] as string);
    this.#pending = { upTo, xid };
    await this.#passed(until);
    return this.#safe;
  }

  async #passed(until: number): Promise<void> {
    const pending = this.#pending as PendingEvents;
    for (;;) {
      const oldest = BigInt((await this.#context.db.read(this.#sql.oldest))[0]?.[0] as string);
      if (oldest > pending.xid) {
        this.#safe = pending.upTo;
        this.#pending = null;
        return;
      }
      if (this.#clock.monotonic() >= until) return;
      await sleep(this.#clock, LOOK_EVERY_MS);
    }
  }
}
