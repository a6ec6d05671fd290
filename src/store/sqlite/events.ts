/** The event log as the verbs of one transaction write it: rows are gathered and inserted together. */
import { BulkInsert } from "./bulk.ts";
import type { Database, SqlValue } from "./driver.ts";

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
