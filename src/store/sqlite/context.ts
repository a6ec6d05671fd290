/** What the verbs of one open database share, with the event log: events of a transaction are collected and inserted
 *  together. */
import type { StoredJob } from "../stored-job.ts";
import { BulkInsert, type Database, type SqlValue } from "./driver.ts";
import type { SqliteInterned } from "./interned.ts";

// What the verbs of one open database share.

export interface SqliteContext {
  readonly db: Database;
  readonly interned: SqliteInterned;
  readonly events: EventLog;
  /** Jobs this connection started, as they were then, until they are settled. A job whose revision has not moved is
   *  still the same, and need not be read again. */
  readonly started: Map<string, StoredJob>;
  /** Names this database: a token of another one does not fit. A copy keeps the name. */
  readonly generation: string;
}

// The event log as the verbs of one transaction write it: rows are gathered and inserted together.

export class EventLog {
  readonly #insert: BulkInsert;
  #rows: SqlValue[] = [];
  #last = 0;

  constructor(db: Database) {
    this.#insert = new BulkInsert(db, "event", ["job", "n", "at", "name", "data"]);
  }

  add(job: number | null, n: number, at: number, name: string, data: object | string): void {
    this.#rows.push(job, n, at, name, typeof data === "string" ? data : JSON.stringify(data));
  }

  flush(): void {
    const rows = this.#rows;
    this.#rows = [];
    this.#last = this.#insert.run(rows) || this.#last;
  }

  /** What a failed attempt at a group gathered must not leak into the next. */
  discard(): void {
    this.#rows = [];
    this.#last = 0;
  }

  /** The number of the last event since this was asked before; 0 if there is none. After the commit. */
  takeLast(): number {
    const last = this.#last;
    this.#last = 0;
    return last;
  }
}
