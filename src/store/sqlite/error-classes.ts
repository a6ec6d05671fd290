/** Translates SQLite's errors about disk and locks into our error codes. */
import { PerdureError } from "../../core/errors.ts";
import { SQLITE, sqliteCode } from "./driver.ts";

/** Null: the error is about the data of a call, not about the disk. */
export function diskError(error: unknown): PerdureError | null {
  const cause = error;
  switch (sqliteCode(error)) {
    case SQLITE.FULL: {
      const message = "the disk is full: nothing of this call was stored; free space and repeat the call";
      return new PerdureError("store_full", message, { cause });
    }
    case SQLITE.IOERR:
    case SQLITE.CORRUPT:
    case SQLITE.NOTADB:
    case SQLITE.READONLY:
    case SQLITE.CANTOPEN: {
      const message = `the database cannot be used (${(error as Error).message}); repair the disk, then reopen it`;
      return new PerdureError("store_io", message, { cause });
    }
    default:
      return null;
  }
}

/** The file itself is damaged, not the disk below it: reopening does not help. */
export function isDamage(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === SQLITE.CORRUPT || code === SQLITE.NOTADB;
}

/** Wraps the error of a failed read. Our own JSON that does not parse was damaged on the disk, which SQLite does not
 *  check. */
export function readError(error: unknown): unknown {
  if (error instanceof SyntaxError) {
    const message = `the database holds damaged text (${error.message}); restore a backup`;
    return new PerdureError("store_io", message, { cause: error });
  }
  const code = sqliteCode(error);
  if (code === SQLITE.BUSY || code === SQLITE.LOCKED) {
    const message = "another process has kept the database locked for seconds; repeat the call";
    return new PerdureError("store_io", message, { cause: error });
  }
  if (code === SQLITE.FULL) {
    return new PerdureError("store_full", "the disk is full; free space and repeat the call", { cause: error });
  }
  return diskError(error) ?? error;
}
