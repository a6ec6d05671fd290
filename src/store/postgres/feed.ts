/** The event feed: all events from a cursor on, in order, without gaps. Numbers are given out before a transaction
 *  commits, so a reader that simply asks for what comes after the last number skips those that commit later. It follows a
 *  watermark instead: the last batch of numbers given out so far is safe to read up to once every transaction that was
 *  under way at that moment has ended. It works because every transaction that writes an event has its own number before it takes
 *  one for the event. A long transaction anywhere in the server delays the feed, never the engine. */
import type { Clock } from "../../lib/clock.ts";
import { sleep } from "../../lib/clock.ts";
import type { Context } from "./context.ts";
import { BATCH } from "./events.ts";

/** How long a read waits for the transactions before it; then it gives what is safe. */
const PATIENCE_MS = 1_000;
const LOOK_EVERY_MS = 2;

/** A number, and the transaction that must have been passed before it is safe. */
interface Pending {
  readonly upTo: number;
  readonly xid: bigint;
}

export class Watermark {
  readonly #context: Context;
  readonly #clock: Clock;
  readonly #sql;
  #safe = 0;
  #pending: Pending | null = null;
  #looking: Promise<number> | null = null;
  #next: Promise<number> | null = null;

  constructor(context: Context) {
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
    const pending = this.#pending as Pending;
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
