/** What the verbs of one open database share, including the event log: events of a transaction are collected and
 *  inserted together. */
import type { StoredJob } from "../stored-job.ts";
import { BulkInsert, type Database, type SqlValue } from "./driver.ts";
import type { SqliteInterned } from "./interned.ts";

export interface SqliteContext {
  readonly db: Database;
  readonly interned: SqliteInterned;
  readonly events: EventLog;
  /** Jobs that this connection started, as they were then, until they are settled. If the revision is unchanged, so is
   *  the job, and it need not be read again. */
  readonly started: Map<string, StoredJob>;
  /** Identifies this database: a token of another database does not match. A copy of the file keeps it. */
  readonly generation: string;
}

// The event log of one transaction: rows are collected and inserted together.

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

  /** Drops what a failed try of a group collected. */
  discard(): void {
    this.#rows = [];
    this.#last = 0;
  }

  /** The number of the last event since the previous call; 0 if there is none. Call after the commit. */
  takeLast(): number {
    const last = this.#last;
    this.#last = 0;
    return last;
  }
}
