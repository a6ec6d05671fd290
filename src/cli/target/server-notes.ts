/** Files that a server leaves in its data directory: `server.json`, its process and address, and `database`, where its jobs
 *  are if they are not in the file of that directory. */
import { closeSync, rmSync } from "node:fs";
import { join } from "node:path";
import { holdLock, writeDurably } from "../../store/open.ts";
import { hasEnded, processName } from "../../worker/process-proof.ts";
import { CliError, EXIT } from "../exit.ts";
import { NOTE_BYTES, OWN, openPlainSync, readNote, readOpen } from "../input/read-file.ts";

// `server.json` prevents a second server on the same file, and gives commands on this machine the address. A killed server
// leaves it behind; the process number and start time then show that it has exited.

interface ServerFile {
  readonly pid: number;
  /** Identifies the process, so that a later process with the same number is not mistaken for it; null if not available. */
  readonly process: string | null;
  /** Null until the server listens. */
  readonly url: string | null;
}

export const SERVER_FILE = "server.json";

/** The live server of a data directory, if there is one. `check` receives the open file of a live server, and throws if it
 *  must not be trusted. */
export function liveServer(dir: string, check?: (descriptor: number, path: string) => void): ServerFile | null {
  const path = join(dir, SERVER_FILE);
  return readWith(path, (found, descriptor) => {
    if (found === null || isGone(found)) return null;
    check?.(descriptor, path);
    return found;
  });
}

export class ServerClaim {
  readonly #path: string;
  readonly #release: () => void;
  #written: ServerFile = { pid: process.pid, process: processName(), url: null };

  private constructor(path: string, release: () => void) {
    this.#path = path;
    this.#release = release;
    this.#write();
  }

  /** Throws if another server is running on this data. The kernel releases the lock when the process exits; the file beside it
   *  is only information. */
  static async take(dir: string): Promise<ServerClaim> {
    const path = join(dir, SERVER_FILE);
    const release = await holdLock(join(dir, "server.lock"));
    if (release !== null) return new ServerClaim(path, release);
    const other = read(path);
    const who = other === null ? "another server" : `the server with pid ${other.pid}`;
    const where = other?.url ? `, at ${other.url}` : "";
    const advice = "stop it first, or pass another directory with --data";
    throw new CliError(EXIT.failed, `${dir} is in use by ${who}${where}; ${advice}`);
  }

  listening(url: string): void {
    this.#written = { ...this.#written, url };
    this.#write();
  }

  release(): void {
    rmSync(this.#path, { force: true });
    this.#release();
  }

  /** Written atomically: others may read it at any time. */
  #write(): void {
    writeDurably(this.#path, JSON.stringify(this.#written), { replace: true });
  }
}

function read(path: string): ServerFile | null {
  return readWith(path, (found) => found);
}

function readWith(
  path: string,
  use: (found: ServerFile | null, descriptor: number) => ServerFile | null,
): ServerFile | null {
  let descriptor: number;
  try {
    descriptor = openPlainSync(path, path, OWN);
  } catch (error) {
    if (error instanceof CliError) throw error;
    return null;
  }
  try {
    return use(parsed(descriptor), descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function parsed(descriptor: number): ServerFile | null {
  try {
    const {
      pid,
      process: name,
      url,
    } = JSON.parse(readOpen(descriptor, NOTE_BYTES).toString("utf8")) as Partial<ServerFile>;
    return typeof pid === "number" ? { pid, process: name ?? null, url: url ?? null } : null;
  } catch {
    return null;
  }
}

/** Without a start time (another container on a shared directory, another system) only the number decides. */
function isGone({ pid, process: name }: ServerFile): boolean {
  if (name !== null && hasEnded({ pid, process: name })) return true;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

// `database` names the database that holds the jobs of this server if they are not in the file beside it. It stays when the
// server stops, so that no command stores jobs in an empty file where they would never run.

const DATABASE_NOTE = "database";

/** `shown`: the database without a password; null: the file in the directory. */
export function rememberDatabase(dir: string, shown: string | null): void {
  const path = join(dir, DATABASE_NOTE);
  if (shown === null) rmSync(path, { force: true });
  else if (databaseOf(dir) !== shown) writeDurably(path, `${shown}\n`, { replace: true });
}

/** Refuses a directory whose jobs are in another database. */
export function refuseOtherDatabase({ path, given }: { readonly path: string; readonly given: string }): void {
  const database = databaseOf(path);
  if (database === null) return;
  throw new CliError(
    EXIT.failed,
    `the jobs of ${given} are in ${database}, and its server is not running here: start it again, or name the database with ` +
      "PERDURE_DB or --db, or another server with --server. To use the file in the directory instead, start `perdure up` " +
      "without --db",
  );
}

/** The database that the directory's server used last; null: the file in the directory. */
export function databaseOf(dir: string): string | null {
  return readNote(join(dir, DATABASE_NOTE))?.trim().slice(0, 500) || null;
}
