/** Checks that a reopened file is the same database and that its disk works. Other data at the same path, such as from
 *  a disk mounted empty or an old backup, must be rejected: acknowledged data would be lost. */
import { PerdureError } from "../../core/errors.ts";
import { type Database, rollback } from "./driver.ts";
import { isLocked } from "./writer.ts";

export interface DatabaseIdentity {
  readonly generation: string;
  readonly secret: string;
  readonly schema: number;
  /** The number of the last stored event; numbers only grow. */
  readonly lastEvent: number;
}

/** Read-only. Throws if the tables are missing. */
export function identityOf(db: Database): DatabaseIdentity {
  const meta = db.prepare("select value from meta where name = ?");
  const text = (name: string) => (meta.get(name) as { value: string } | undefined)?.value ?? "";
  const sequence = db.prepare("select seq from sqlite_sequence where name = 'event'").get() as
    | { seq: number }
    | undefined;
  const { user_version: schema } = db.prepare("pragma user_version").get() as { user_version: number };
  return { generation: text("generation"), secret: text("secret"), schema, lastEvent: sequence?.seq ?? 0 };
}

/** Throws unless it is the same database with all stored data. */
export function refuseOther(db: Database, was: DatabaseIdentity, path: string): void {
  const found = foundIn(db);
  const isSame = found?.generation === was.generation && found.secret === was.secret && found.schema === was.schema;
  if (isSame && found.lastEvent >= was.lastEvent) return;
  const what = isSame
    ? `an older state of the database (event ${found.lastEvent}, not ${was.lastEvent})`
    : "another database";
  throw new PerdureError("store_io", `${path} holds ${what}; restore the original file, or restart to use this one`);
}

function foundIn(db: Database): DatabaseIdentity | null {
  try {
    return identityOf(db);
  } catch (error) {
    if (isLocked(error)) throw error;
    return null;
  }
}

/** Writes and flushes with a new handle on the file. First the log is copied into the file: later writes must not
 *  depend on pages whose flush has failed, which the system considers clean. */
export function proveDisk(db: Database): void {
  // Required even if everything was copied: a log with readers is not reset, and would continue after those pages.
  const { busy } = db.prepare("pragma wal_checkpoint(truncate)").get() as { busy: number };
  if (busy !== 0)
    throw new PerdureError("store_io", "another process is reading the database; its log cannot be truncated");
  db.exec("begin immediate");
  try {
    // A counter, so that a page is written each time.
    const put = "insert into meta (name, value) values (?, 1) on conflict do update set value = value + 1";
    db.prepare(put).run("reopened");
    db.exec("commit");
  } catch (error) {
    rollback(db);
    throw error;
  }
}
