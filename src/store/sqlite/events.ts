/** The event log as the verbs of one transaction write it: rows are gathered and inserted together. */
import { BulkInsert } from "./bulk.ts";
import type { Database, SqlValue } from "./driver.ts";

export class EventLog {
  readonly #insert: BulkInsert;
  #rows: SqlValue[] = [];

  constructor(db: Database) {
    this.#insert = new BulkInsert(db, "event", ["job", "n", "at", "name", "data"]);
  }

  add(job: number | null, n: number, at: number, name: string, data: object | string): void {
    this.#rows.push(job, n, at, name, typeof data === "string" ? data : JSON.stringify(data));
  }

  flush(): void {
    const rows = this.#rows;
    this.#rows = [];
    this.#insert.run(rows);
  }

  /** What a failed attempt at a group gathered must not leak into the next. */
  discard(): void {
    this.#rows = [];
  }
}
