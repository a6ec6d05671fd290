/** That a file which is opened again is the database it was, and that its disk works. Other data under the same name, as of
 *  a disk that was mounted empty or of an old backup, must not be taken for ours: what was acknowledged would be gone. */
import { PerdureError } from "../../core/errors.ts";
import { type Database, rollback } from "./driver.ts";
import { isLocked } from "./writer.ts";

export interface DatabaseIdentity {
  readonly generation: string;
  readonly secret: string;
  readonly schema: number;
  /** The number of the last event that was stored; they only grow. */
  readonly lastEvent: number;
}

/** Reads only. Throws where the tables are missing. */
export function identityOf(db: Database): DatabaseIdentity {
  const meta = db.prepare("select value from meta where name = ?");
  const text = (name: string) => (meta.get(name) as { value: string } | undefined)?.value ?? "";
  const sequence = db.prepare("select seq from sqlite_sequence where name = 'event'").get() as
    | { seq: number }
    | undefined;
  const { user_version: schema } = db.prepare("pragma user_version").get() as { user_version: number };
  return { generation: text("generation"), secret: text("secret"), schema, lastEvent: sequence?.seq ?? 0 };
}

/** Throws unless it is the same, with all that was stored. */
export function refuseOther(db: Database, was: DatabaseIdentity, path: string): void {
  const found = foundIn(db);
  const isSame = found?.generation === was.generation && found.secret === was.secret && found.schema === was.schema;
  if (isSame && found.lastEvent >= was.lastEvent) return;
  const what = isSame
    ? `an older state of the database (event ${found.lastEvent}, not ${was.lastEvent})`
    : "another database";
  throw new PerdureError("store_io", `${path} holds ${what}; put back the file that was there, or restart on this one`);
}

function foundIn(db: Database): DatabaseIdentity | null {
  try {
    return identityOf(db);
  } catch (error) {
    if (isLocked(error)) throw error;
    return null;
  }
}

/** Writes, with a new handle on the file, and flushes. First the log is copied into the file: nothing that is written from now
 *  on may rest on pages whose flush has failed, which the system holds for clean. */
export function proveDisk(db: Database): void {
  // Also where all of it was copied: a log that somebody reads is not begun anew, and goes on behind those pages.
  const { busy } = db.prepare("pragma wal_checkpoint(truncate)").get() as { busy: number };
  if (busy !== 0) throw new PerdureError("store_io", "another process reads the database; its log stays");
  db.exec("begin immediate");
  try {
    // Counted, so that each time a page is written.
    const put = "insert into meta (name, value) values (?, 1) on conflict do update set value = value + 1";
    db.prepare(put).run("reopened");
    db.exec("commit");
  } catch (error) {
    rollback(db);
    throw error;
  }
}
