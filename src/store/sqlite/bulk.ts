/** Inserts many rows with few calls: a statement for 50 rows costs little more than one for one. */
import type { Database, SqlValue, Statement } from "./driver.ts";

const CHUNK = 50;

export class BulkInsert {
  readonly #many: Statement;
  readonly #one: Statement;
  readonly #width: number;

  constructor(db: Database, into: string, columns: readonly string[]) {
    const row = `(${columns.map(() => "?").join(", ")})`;
    const head = `insert into ${into} (${columns.join(", ")}) values `;
    this.#many = db.prepare(head + Array(CHUNK).fill(row).join(", "));
    this.#one = db.prepare(head + row);
    this.#width = columns.length;
  }

  /** `values`: all rows one after the other. Returns the rowid of the last one; 0 if there is none. */
  run(values: readonly SqlValue[]): number {
    const step = CHUNK * this.#width;
    let [at, last]: [number, number | bigint] = [0, 0];
    for (; at + step <= values.length; at += step)
      last = this.#many.run(...values.slice(at, at + step)).lastInsertRowid;
    for (; at < values.length; at += this.#width) {
      last = this.#one.run(...values.slice(at, at + this.#width)).lastInsertRowid;
    }
    return Number(last);
  }
}
