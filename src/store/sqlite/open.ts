/** Opens a database file: creates it for its owner only, refuses what is not ours or newer than we are, migrates.
 *  Safe from two processes at once: each step looks again under the write lock. */
import { closeSync, constants, existsSync, fstatSync, openSync } from "node:fs";
import { basename, dirname } from "node:path";
import { PerdureError } from "../../core/errors.ts";
import { makeFolderDurablySync } from "../../files/durable.ts";
import { DATA_DIRECTORY, keepFromGit } from "../git-ignore.ts";
import type { Store, WallMark } from "../store.ts";
import { returnToWall } from "./clock-line.ts";
import { type Database, openDatabase, rollback, SQLITE, sqliteCode } from "./driver.ts";
import { filesInPlace, type Misplaced } from "./files-in-place.ts";
import { truncateErasedSecret } from "./former-secret.ts";
import { healingStore } from "./healing-store.ts";
import { APPLICATION_ID, MIGRATIONS } from "./migrations.ts";
import { type Identity, identityOf, proveDisk, refuseOther } from "./same-database.ts";
import { sqliteStore } from "./sqlite-store.ts";
import type { Broken } from "./writer.ts";

export interface OpenSqlite {
  /** A file, or `:memory:`. */
  readonly path: string;
  readonly random: () => number;
  /** Words for the operator. */
  readonly report?: (message: string) => void;
  /** For the store's generation, and what its cursors are checked by. */
  readonly newSecret: () => string;
  /** The clocks of this process. */
  readonly mark?: (() => WallMark) | undefined;
}

const WRITE_AHEAD = "pragma journal_mode = wal";
/** How long another process may keep a new file locked before we say so. */
const OPEN_WAIT_MS = 10_000;

export async function openSqlite({ path, random, newSecret, mark, report = () => {} }: OpenSqlite): Promise<Store> {
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
    const options = { random, report, shared };
    if (!shared) return sqliteStore(db, options);
    let live = { db, identity: identityOf(db), misplaced: filesInPlace(path) };
    const onEvents = (lastEvent: number) => {
      live.identity = { ...live.identity, lastEvent };
    };
    const storeOf = (of: Database, onBroken: (broken: Broken) => void) =>
      sqliteStore(of, { ...options, fileWatch: { onBroken, onEvents, misplaced: live.misplaced } });
    return healingStore({
      ...options,
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
  // A log of up to 40 MB before it is copied into the file: pages that are written again and again are copied once.
  // Jobs that fail once ran 14 % faster than with SQLite's 4 MB.
  db.exec("pragma temp_store = memory; pragma cache_size = -65536; pragma wal_autocheckpoint = 10000");
}

/** What the broken handle knows of its database, but not less than what this process has stored: where it cannot even read, or
 *  where the index of its log is that of another database, it knows too little. */
function identityNow({ db, identity }: { readonly db: Database; readonly identity: Identity }): Identity {
  try {
    return { ...identity, lastEvent: Math.max(identity.lastEvent, identityOf(db).lastEvent) };
  } catch {
    return identity;
  }
}

/** A handle on a database without its file would create it, and one without its log would miss what was stored last. Another file
 *  in its place may be the same database, as after a disk was mounted again: that is found out when it is opened. */
function refuseWithoutFiles(path: string, misplaced: Misplaced | null): void {
  if (misplaced === null || (misplaced.file === "database" && existsSync(path))) return;
  throw new PerdureError("store_io", misplaced.message);
}

/** The same database with a new handle, which has written to it. Nothing is created, and nothing changed in another file. */
async function openAgain(path: string, random: () => number, identity: Identity): Promise<Database> {
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

/** Directories 0700 and the file 0600, before SQLite opens it; its companions take the file's mode. */
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

/** Does not wait for the other end of a named pipe, which another user may have put there. */
function createFile(path: string): void {
  const file = openSync(
    path,
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK,
    0o600,
  );
  try {
    if (!fstatSync(file).isFile()) throw new Error("it is not a plain file");
  } finally {
    closeSync(file);
  }
}

export async function whenFree(path: string, random: () => number, work: () => void): Promise<void> {
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

export function pragma(db: Database, name: string): number {
  return (db.prepare(`pragma ${name}`).get() as Record<string, number>)[name] as number;
}

export function refuseForeign(db: Database, path: string): void {
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

export function refuseNewer(db: Database, path: string): void {
  const version = pragma(db, "user_version");
  if (version <= MIGRATIONS.length) return;
  const message =
    `${path} has schema ${version}, and this version of Perdure knows up to ${MIGRATIONS.length}: ` +
    "use the newer version that wrote it, or another file";
  throw new PerdureError("store_newer", message);
}

export function explained(error: unknown, path: string): unknown {
  const cause = error;
  switch (sqliteCode(error)) {
    case SQLITE.NOTADB:
      return new PerdureError(
        "store_not_a_database",
        `${path} is not an SQLite database; nothing was changed in it. Choose another file, or restore a backup`,
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
      // Also what should be there and is not: a table, a column.
      return new PerdureError("store_io", `cannot use ${path}: ${(error as Error).message}; restore a backup`, {
        cause,
      });
  }
}
