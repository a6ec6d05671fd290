/** A lock that goes with its process, however that ends: an open transaction on a small SQLite file of its own. Node has no
 *  other way to have one from the kernel. */
import { chmodSync } from "node:fs";
import { openDatabase, SQLITE, sqliteCode } from "./driver.ts";

/** A function that lets go of it; null if somebody else has it. */
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
