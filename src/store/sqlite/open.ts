/** Opens a database file: creates it privately, checks that it is ours and not newer than this version, and migrates
 *  it. Also reads the version and checks a file without migrating it. */
import { closeSync, constants, existsSync, fstatSync, openSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { PerdureError } from "../../core/errors.ts";
import { makeFolderDurablySync } from "../../files/durable.ts";
import { systemClock } from "../../lib/system-clock.ts";
import type { SchemaVersion, Store, WallMark } from "../store.ts";
import { returnToWall } from "./clock-line.ts";
import { type Database, openDatabase, rollback, SQLITE, sqliteCode } from "./driver.ts";
import { filesInPlace, type Misplaced } from "./files-in-place.ts";
import { APPLICATION_ID, MIGRATIONS } from "./migrations.ts";
import { reopeningStore } from "./reopening-store.ts";
import { type DatabaseIdentity, identityOf, proveDisk, refuseOther } from "./same-database.ts";
import { truncateErasedSecret } from "./settings.ts";
import { sqliteStore } from "./sqlite-store.ts";
import type { BrokenStore, WriterClock } from "./writer.ts";

// Safe from two processes at once: each step checks again under the write lock.

interface OpenSqlite {
  /** A file, or `:memory:`. */
  readonly path: string;
  /** For turns and timers of the writer. */
  readonly clock?: WriterClock;
  readonly random: () => number;
  /** Receives messages for the operator. */
  readonly report?: (message: string) => void;
  /** For the store's generation and the signature of its cursors. */
  readonly newSecret: () => string;
  /** The clocks of this process. */
  readonly mark?: (() => WallMark) | undefined;
}

const WRITE_AHEAD = "pragma journal_mode = wal";
/** How long another process may keep a new file locked before opening fails. */
const OPEN_WAIT_MS = 10_000;

export async function openSqlite(options: OpenSqlite): Promise<Store> {
  const { path, clock = systemClock, random, newSecret, mark, report = () => {} } = options;
  const shared = path !== ":memory:";
  if (shared) createPrivately(path);
  const db = await openDatabase(path);
  try {
    await whenFree(path, random, () => {
      refuseForeign(db, path);
      tune(db);
    });
    await whenFree(path, random, () => migrate(db, path, newSecret));
    if (shared) await whenFree(path, random, () => truncateErasedSecret(db));
    if (shared && mark !== undefined) {
      returnToWall(db, mark);
      await whenFree(path, random, () => db.exec(WRITE_AHEAD));
    }
    const storeOptions = { clock, random, report, shared };
    if (!shared) return sqliteStore(db, storeOptions);
    let live = { db, identity: identityOf(db), misplaced: filesInPlace(path) };
    const onEvents = (lastEvent: number) => {
      live.identity = { ...live.identity, lastEvent };
    };
    const storeOf = (of: Database, onBroken: (broken: BrokenStore) => void) =>
      sqliteStore(of, { ...storeOptions, fileWatch: { onBroken, onEvents, misplaced: live.misplaced } });
    return reopeningStore({
      ...storeOptions,
      first: (onBroken) => storeOf(db, onBroken),
      async reopen(onBroken) {
        const identity = identityNow(live);
        refuseWithoutFiles(path, live.misplaced());
        const next = await openAgain(path, random, identity);
        live = { db: next, identity, misplaced: filesInPlace(path) };
        return storeOf(next, onBroken);
      },
    });
  } catch (error) {
    db.close();
    throw explained(error, path);
  }
}

function tune(db: Database): void {
  // FULL: with NORMAL a power cut lost every one of 300 acknowledged inserts.
  db.exec(`${WRITE_AHEAD}; pragma synchronous = full`);
  // The log may grow to 40 MB before it is copied into the file: pages that are rewritten often are copied once. Jobs
  // that fail once ran 14 % faster than with SQLite's default of 4 MB.
  db.exec("pragma temp_store = memory; pragma cache_size = -65536; pragma wal_autocheckpoint = 10000");
}

/** What the broken handle reads of its database, but at least what this process has stored: if it cannot read, or the
 *  index of its log belongs to another database, it reports too little. */
function identityNow({
  db,
  identity,
}: {
  readonly db: Database;
  readonly identity: DatabaseIdentity;
}): DatabaseIdentity {
  try {
    return { ...identity, lastEvent: Math.max(identity.lastEvent, identityOf(db).lastEvent) };
  } catch {
    return identity;
  }
}

/** A handle on a database without its file would create it, and one without its log would miss the latest data. A
 *  different file at its path may be the same database, as after a disk was mounted again: that is checked after
 *  opening. */
function refuseWithoutFiles(path: string, misplaced: Misplaced | null): void {
  if (misplaced === null || (misplaced.file === "database" && existsSync(path))) return;
  throw new PerdureError("store_io", misplaced.message);
}

/** Opens the same database with a new handle and writes to it. Creates nothing, and changes nothing in another file. */
async function openAgain(path: string, random: () => number, identity: DatabaseIdentity): Promise<Database> {
  const db = await openDatabase(path);
  try {
    await whenFree(path, random, () => {
      refuseOther(db, identity, path);
      tune(db);
    });
    await whenFree(path, random, () => proveDisk(db));
    return db;
  } catch (error) {
    db.close();
    throw explained(error, path);
  }
}

/** Creates directories with 0700 and the file with 0600 before SQLite opens it; its companion files take the file's
 *  mode. */
function createPrivately(path: string): void {
  try {
    const dir = dirname(path);
    makeFolderDurablySync(dir);
    if (basename(dir) === DATA_DIRECTORY) keepFromGit(dir);
    createFile(path);
  } catch (cause) {
    throw new PerdureError("store_io", `cannot open ${path}: ${(cause as Error).message}`, { cause });
  }
}

/** Does not block on a named pipe, which another user may have put there. */
function createFile(path: string): void {
  const file = openSync(
    path,
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK,
    0o600,
  );
  try {
    if (!fstatSync(file).isFile()) throw new Error("not a regular file");
  } finally {
    closeSync(file);
  }
}

async function whenFree(path: string, random: () => number, work: () => void): Promise<void> {
  for (let waited = 0; ; ) {
    try {
      work();
      return;
    } catch (error) {
      if (sqliteCode(error) !== SQLITE.BUSY) throw error;
      if (waited > OPEN_WAIT_MS) {
        const message = `${path} has been locked by another process for ${OPEN_WAIT_MS / 1000} s`;
        throw new PerdureError("store_io", message, { cause: error });
      }
    }
    const delay = 1 + random() * 8;
    waited += delay;
    await new Promise((resolve) => setTimeout(resolve, delay));
  }
}

function pragma(db: Database, name: string): number {
  return (db.prepare(`pragma ${name}`).get() as Record<string, number>)[name] as number;
}

function refuseForeign(db: Database, path: string): void {
  const id = pragma(db, "application_id");
  const tables = (db.prepare("select count(*) as n from sqlite_master").get() as { n: number }).n;
  if (id === APPLICATION_ID || (id === 0 && tables === 0 && pragma(db, "user_version") === 0)) return;
  const message = `${path} is an SQLite database of another program (application_id ${id}, ${tables} tables); choose another file`;
  throw new PerdureError("store_not_a_database", message);
}

function migrate(db: Database, path: string, newSecret: () => string): void {
  refuseNewer(db, path);
  if (pragma(db, "user_version") === MIGRATIONS.length) return;
  db.exec("begin immediate");
  try {
    refuseNewer(db, path);
    const from = pragma(db, "user_version");
    for (const step of MIGRATIONS.slice(from)) db.exec(step);
    if (from === 0) {
      const add = db.prepare("insert into meta (name, value) values (?, ?)");
      add.run("generation", newSecret().slice(0, 8));
      add.run("secret", newSecret());
    }
    db.exec(`pragma application_id = ${APPLICATION_ID}; pragma user_version = ${MIGRATIONS.length}`);
    db.exec("commit");
  } catch (error) {
    rollback(db);
    throw error;
  }
}

function refuseNewer(db: Database, path: string): void {
  const version = pragma(db, "user_version");
  if (version <= MIGRATIONS.length) return;
  const message =
    `${path} has schema ${version}, but this version of Perdure supports up to ${MIGRATIONS.length}: ` +
    "upgrade Perdure, or choose another file";
  throw new PerdureError("store_newer", message);
}

function explained(error: unknown, path: string): unknown {
  const cause = error;
  switch (sqliteCode(error)) {
    case SQLITE.NOTADB:
      return new PerdureError(
        "store_not_a_database",
        `${path} is not an SQLite database and was not changed; choose another file, or restore a backup`,
        { cause },
      );
    case SQLITE.FULL:
      return new PerdureError("store_full", `the disk is full: ${path} could not be opened for writing`, { cause });
    case SQLITE.CANTOPEN:
    case SQLITE.READONLY:
    case SQLITE.IOERR:
      return new PerdureError("store_io", `cannot use ${path}: ${(error as Error).message}`, { cause });
    case null:
      return error;
    default:
      // Also a missing table or column.
      return new PerdureError("store_io", `cannot use ${path}: ${(error as Error).message}; restore a backup`, {
        cause,
      });
  }
}

// Inspects a database file without migrating it: the version of its schema, and SQLite's integrity check. A missing
// file is not created. The data stays the same; SQLite may copy its log into the file.

/** Refuses a file that is not ours or newer than this version, as opening does. */
export async function sqliteVersion(path: string, random: () => number): Promise<SchemaVersion> {
  const found = hasContent(path)
    ? await withFile(path, random, (db) => {
        refuseForeign(db, path);
        refuseNewer(db, path);
        return pragma(db, "user_version");
      })
    : 0;
  return { found, known: MIGRATIONS.length };
}

/** Errors found by SQLite's quick check; empty if there are none. Reads the whole file. */
export async function sqliteFaults(path: string, random: () => number): Promise<string[]> {
  if (!hasContent(path)) return [];
  return withFile(path, random, (db) => {
    const rows = db.prepare("pragma quick_check(10)").all() as { quick_check: string }[];
    const faults = rows.map((row) => String(row.quick_check));
    return faults.length === 1 && faults[0] === "ok" ? [] : faults;
  });
}

/** An empty file is left over from an interrupted start. */
function hasContent(path: string): boolean {
  try {
    return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0;
  } catch (cause) {
    throw new PerdureError("store_io", `cannot open ${path}: ${(cause as Error).message}`, { cause });
  }
}

async function withFile<T>(path: string, random: () => number, read: (db: Database) => T): Promise<T> {
  let db: Database | null = null;
  try {
    const opened = await openDatabase(path);
    db = opened;
    let seen: { readonly value: T } | null = null;
    await whenFree(path, random, () => {
      seen = { value: read(opened) };
    });
    return (seen as unknown as { readonly value: T }).value;
  } catch (error) {
    throw explained(error, path);
  } finally {
    db?.close();
  }
}

// Data directories contain jobs and tokens, which must not get into a repository.

/** The default data directory. */
export const DATA_DIRECTORY = ".perdure";

/** Creates a `.gitignore` there that excludes everything, unless one exists. Best effort. */
export function keepFromGit(dir: string): void {
  try {
    writeFileSync(join(dir, ".gitignore"), "# Jobs and tokens of Perdure.\n*\n", { flag: "wx", mode: 0o600 });
  } catch {
    // It exists, or cannot be written: then the database cannot be written either, and that is reported.
  }
}
