/** Looks at a database file without bringing it forward: which version its schema has, and whether SQLite finds it sound.
 *  A file that is not there is not made. What is in it stays; SQLite may move it from its log into the file on the way. */
import { statSync } from "node:fs";
import { PerdureError } from "../../core/errors.ts";
import type { SchemaVersion } from "../store.ts";
import { type Database, openDatabase } from "./driver.ts";
import { MIGRATIONS } from "./migrations.ts";
import { explained, pragma, refuseForeign, refuseNewer, whenFree } from "./open.ts";

/** Refuses what is not ours, or newer than we are, as opening does. */
export async function sqliteVersion(path: string, random: () => number): Promise<SchemaVersion> {
  const found = isThere(path)
    ? await withFile(path, random, (db) => {
        refuseForeign(db, path);
        refuseNewer(db, path);
        return pragma(db, "user_version");
      })
    : 0;
  return { found, known: MIGRATIONS.length };
}

/** What SQLite's quick check finds wrong; empty if nothing is. It reads the whole file. */
export async function sqliteFaults(path: string, random: () => number): Promise<string[]> {
  if (!isThere(path)) return [];
  return withFile(path, random, (db) => {
    const rows = db.prepare("pragma quick_check(10)").all() as { quick_check: string }[];
    const faults = rows.map((row) => String(row.quick_check));
    return faults.length === 1 && faults[0] === "ok" ? [] : faults;
  });
}

/** An empty file is what is left of a start that was cut short. */
function isThere(path: string): boolean {
  try {
    return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0;
  } catch (cause) {
    throw new PerdureError("store_io", `cannot open ${path}: ${(cause as Error).message}`, { cause });
  }
}

async function withFile<T>(path: string, random: () => number, look: (db: Database) => T): Promise<T> {
  let db: Database | null = null;
  try {
    const opened = await openDatabase(path);
    db = opened;
    let seen: { readonly value: T } | null = null;
    await whenFree(path, random, () => {
      seen = { value: look(opened) };
    });
    return (seen as unknown as { readonly value: T }).value;
  } catch (error) {
    throw explained(error, path);
  } finally {
    db?.close();
  }
}
