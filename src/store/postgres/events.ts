/** How events are numbered, and up to which number they may be read. */
import { type Clock, sleep } from "../../lib/clock.ts";
import type { PostgresContext } from "./context.ts";

// A statement draws one number for all its events, after their rows are written and locked: so a job's events are in
// the order of their numbers, and the transaction already has its own number. Numbers per row would cost as much as the
// rows themselves.

/** More than the events of any statement. */
export const BATCH = 4_096;

/** The number of the statement's batch, after all of `rows` exist; no row if `rows` is empty. */
function batchAfter(rows: string): string {
  return `batch as materialized (
    select nextval('$s.event_seq') * ${BATCH} as base from (select count(*) as n from ${rows}) counted where n > 0
  )`;
}

/** Parts of a statement that write an event for each of `rows`. */
function writeEvents(
  rows: string,
  event: { job: string; n: string; at: string; name: string; data: string },
  place = "row_number() over ()",
): string {
  return `${batchAfter(rows)},
  written as (
    insert into $s.event (seq, job, n, at, name, data)
    select batch.base + ${place}, ${event.job}, ${event.n}, ${event.at}, ${event.name}, ${event.data}
    from batch cross join ${rows}
  )`;
}

/** Events of jobs: `rows` has no and revision; `place` is each row's position among them. */
export function writeJobEvents(rows: string, at: string, name: string, data: string, place?: string): string {
  return writeEvents(rows, { job: `${rows}.no`, n: `${rows}.revision`, at, name, data }, place);
}

/** Events of the engine itself. */
export function writeEngineEvents(rows: string, at: string, name: string, data: string): string {
  return writeEvents(rows, { job: "null::bigint", n: "0", at, name, data });
}

// The event feed: all events after a cursor, in order, without gaps. Numbers are assigned before a transaction commits,
// so a reader that simply asks for what comes after the last number would skip those that commit later. It follows a
// watermark instead: the last batch assigned so far is safe to read once every transaction that was in progress at that
// moment has ended. This works because every transaction gets its own number before it takes one for an event. A long
// transaction anywhere in the server delays the feed, never the engine.

/** How long a read waits for earlier transactions before it returns what is safe. */
const PATIENCE_MS = 1_000;
const POLL_EVERY_MS = 2;

/** A number, and the transaction that must have ended before it is safe. */
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
  #checking: Promise<number> | null = null;
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

  /** The number up to which all events can be read: at least those committed before this call, unless a transaction
   *  delays it. */
  safe(): Promise<number> {
    if (this.#checking === null) return this.#check();
    // The check in progress started before this call and may miss recent commits: all callers from now on share the
    // next one.
    this.#next ??= this.#checking.then(
      () => this.#check(),
      () => this.#check(),
    );
    return this.#next;
  }

  #check(): Promise<number> {
    this.#next = null;
    this.#checking = this.#advance().finally(() => {
      this.#checking = null;
    });
    return this.#checking;
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
      await sleep(this.#clock, POLL_EVERY_MS);
    }
  }
}
