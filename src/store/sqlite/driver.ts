/** Wraps the SQLite driver: a few types, bulk inserts, and a file lock that ends with its process. */

import { chmodSync } from "node:fs";
import { createRequire } from "node:module";
import { PerdureError } from "../../core/errors.ts";

// Uses `node:sqlite` if Node has it without a flag (22.13), otherwise `@photostructure/sqlite`. Both are
// `DatabaseSync`; only this file distinguishes them.

export type SqlValue = string | number | null | Uint8Array;

export interface SqlStatement {
  run(...values: SqlValue[]): { changes: number | bigint; lastInsertRowid: number | bigint };
  get(...values: SqlValue[]): unknown;
  all(...values: SqlValue[]): unknown[];
  /** Row by row. A caller that stops early must close it, as `for … of` does. */
  iterate(...values: SqlValue[]): IterableIterator<unknown>;
  setReturnArrays(enabled: boolean): void;
}

export interface Database {
  exec(sql: string): void;
  prepare(sql: string): SqlStatement;
  close(): void;
}

type DatabaseClass = new (path: string, options: { timeout: number }) => Database;

export async function openDatabase(path: string): Promise<Database> {
  const DatabaseSync = await loadDriver();
  class LazyDatabase extends DatabaseSync {
    override prepare(sql: string): SqlStatement {
      return new LazyStatement(() => super.prepare(sql));
    }
  }
  // Locks of other processes are awaited on the event loop, never inside SQLite: see writer.ts.
  return new LazyDatabase(path, { timeout: 0 });
}

const METHODS = ["run", "get", "all", "iterate", "setReturnArrays"] as const;

/** A statement that SQLite compiles at its first use: a store has about 200, and a command uses a few of them. Afterwards each
 *  method is the driver's own. */
class LazyStatement implements SqlStatement {
  declare run: SqlStatement["run"];
  declare get: SqlStatement["get"];
  declare all: SqlStatement["all"];
  declare iterate: SqlStatement["iterate"];
  declare setReturnArrays: SqlStatement["setReturnArrays"];

  constructor(prepare: () => SqlStatement) {
    const methods = this as Record<(typeof METHODS)[number], (...values: never[]) => unknown>;
    for (const name of METHODS) {
      methods[name] = (...values) => {
        const statement = prepare();
        for (const each of METHODS) methods[each] = statement[each].bind(statement);
        return methods[name](...values);
      };
    }
  }
}

/** Rolls back unless SQLite already has, as it does when the disk fails: the first error is the one to report. */
export function rollback(db: Database): void {
  try {
    db.exec("rollback");
  } catch {
    // SQLite has already rolled back.
  }
}

/** For display: the driver and its SQLite version. */
export async function driverName(): Promise<string> {
  const db = await openDatabase(":memory:");
  try {
    const { version } = db.prepare("select sqlite_version() as version").get() as { version: string };
    return `${hasOwnDriver() ? "node:sqlite" : "@photostructure/sqlite"} with SQLite ${version}`;
  } finally {
    db.close();
  }
}

function hasOwnDriver(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 13);
}

async function loadDriver(): Promise<DatabaseClass> {
  if (hasOwnDriver()) {
    const own = withoutSqliteWarning(() => process.getBuiltinModule("node:sqlite"));
    return (own as unknown as { DatabaseSync: DatabaseClass }).DatabaseSync;
  }
  try {
    // Required, not imported: it is twice as fast, and a command waits for it.
    return (createRequire(import.meta.url)("@photostructure/sqlite") as { DatabaseSync: DatabaseClass }).DatabaseSync;
  } catch (cause) {
    const message =
      `no SQLite driver for Node ${process.versions.node}: install the optional dependency ` +
      `"@photostructure/sqlite" (npm install --include=optional), or use Node 22.13 or later`;
    throw new PerdureError("store_driver_missing", message, { cause });
  }
}

/** Suppresses Node 22's one warning on stderr that its SQLite is experimental; users cannot act on it. Other warnings
 *  are printed. `load` must be synchronous: the suppression ends when it returns. */
export function withoutSqliteWarning<T>(load: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = ((warning: string | Error, ...rest: unknown[]) => {
    const [type] = rest as [string | { readonly type?: string } | undefined];
    const isExperimental = (typeof type === "object" ? type.type : type) === "ExperimentalWarning";
    if (isExperimental && /^SQLite is an experimental feature/.test(String(warning))) return;
    Reflect.apply(emitWarning, process, [warning, ...rest]);
  }) as typeof emitWarning;
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}

export const SQLITE = {
  ...{ ERROR: 1, BUSY: 5, LOCKED: 6, READONLY: 8, IOERR: 10, CORRUPT: 11, FULL: 13, CANTOPEN: 14, NOTADB: 26 },
} as const;

/** SQLite's primary result code of an error, or null if SQLite did not raise it. */
export function sqliteCode(error: unknown): number | null {
  const { errcode, code, message } = (error ?? {}) as { errcode?: unknown; code?: unknown; message?: unknown };
  if (typeof errcode === "number") return errcode & 0xff;
  // `all` of the driver for Node 20 does not set the code, but SQLite's messages for these are fixed.
  return code === "ERR_SQLITE_ERROR" ? (CODES[String(message)] ?? SQLITE.ERROR) : null;
}

const CODES: Readonly<Record<string, number>> = {
  "database is locked": SQLITE.BUSY,
  "database table is locked": SQLITE.LOCKED,
  "attempt to write a readonly database": SQLITE.READONLY,
  "disk I/O error": SQLITE.IOERR,
  "database disk image is malformed": SQLITE.CORRUPT,
  "database or disk is full": SQLITE.FULL,
  "unable to open database file": SQLITE.CANTOPEN,
  "file is not a database": SQLITE.NOTADB,
};

// Inserts many rows with few calls: a statement for 50 rows costs little more than one for a single row.

const CHUNK = 50;

export class BulkInsert {
  readonly #many: SqlStatement;
  readonly #one: SqlStatement;
  readonly #width: number;

  constructor(db: Database, into: string, columns: readonly string[]) {
    const row = `(${columns.map(() => "?").join(", ")})`;
    const head = `insert into ${into} (${columns.join(", ")}) values `;
    this.#many = db.prepare(head + Array(CHUNK).fill(row).join(", "));
    this.#one = db.prepare(head + row);
    this.#width = columns.length;
  }

  /** `values`: all rows one after another. Returns the rowid of the last one; 0 if there is none. */
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

// A lock that ends with its process, however that exits: an open transaction on a small SQLite file. Node has no other
// way to get a lock from the kernel.

/** Returns a function that releases the lock; null if another process holds it. */
export async function holdLock(path: string): Promise<(() => void) | null> {
  const db = await openDatabase(path);
  try {
    db.exec("pragma journal_mode = memory"); // nothing is ever written
    db.exec("begin exclusive");
    chmodSync(path, 0o600);
    return () => db.close();
  } catch (error) {
    db.close();
    if (sqliteCode(error) === SQLITE.BUSY) return null;
    throw error;
  }
}
