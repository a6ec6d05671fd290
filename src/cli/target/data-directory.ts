/** The data directory: where it is, whether it holds data, and how it is created. */

import { randomBytes } from "node:crypto";
import { closeSync, mkdirSync, openSync, rmdirSync, statSync, unlinkSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { DATA_DIRECTORY, flushFolderSync, keepFromGit } from "../../store/open.ts";
import { CliError, EXIT, usageError, valueError } from "../exit.ts";

/** The file of the database in a data directory. */
export const DATABASE = "perdure.db";

/** The directory as it was given, for messages, and its full path. */
export interface DataDir {
  readonly given: string;
  /** What named it: `--data`, `PERDURE_DATA`, or nothing. */
  readonly from: string | null;
  readonly path: string;
  /** The database in it. */
  readonly file: string;
}

/** `source` is what named it: `--data`, `PERDURE_DATA`, a file of settings, or nothing but our default. */
export function dataAt(dir: string, source: string, cwd: string): DataDir {
  const from = source === "default" ? null : source;
  // Not shown: there may be a password in it.
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(dir)) throw usageError(`${from}: must be a directory; got an address`);
  if (dir.trim() === "" || dir.includes("\0")) throw valueError(from ?? "--data", dir, "a directory");
  const path = resolve(cwd, dir);
  return { given: dir, from, path, file: join(path, DATABASE) };
}

export function noData({ given, path }: DataDir): CliError {
  const advised = fileAdvice({ given, path });
  if (advised !== null) return new CliError(EXIT.failed, `${given} is a file: ${advised}`);
  const advice = "run `perdure run -- COMMAND` or `perdure up` first, or pass another directory with --data";
  return new CliError(EXIT.failed, `no Perdure data in ${given}; ${advice}`);
}

/** What to do if a file was passed instead of a directory; null if it is not a file. A program may have its database anywhere;
 *  a data directory has it under one name. */
function fileAdvice({ given, path }: Pick<DataDir, "given" | "path">): string | null {
  if (!isFile(path)) return null;
  if (basename(path) === DATABASE) return `pass its directory, --data ${dirname(given)}`;
  return `--data must be a directory with a ${DATABASE}; pass a database file with --db ${given}`;
}

/** False if it cannot be read: that error is reported elsewhere. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** An empty file is left behind by an interrupted start. */
export function holdsData({ given, file }: DataDir): boolean {
  try {
    return statSync(file).size > 0;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw new CliError(EXIT.failed, `cannot read ${given}: ${message}`);
  }
}

/** Beats, reaping and pruning are what an engine does in the background, and by this clock their time never comes. Waits
 *  of a reader, as for the next event, pass as usual. */
export const stillClock: Clock = {
  ...systemClock,
  after: (ms, call, options) => (options?.background ? () => {} : systemClock.after(ms, call, options)),
};

// Creates the data directory, before anything is opened, so that an error names the directory.

export function makeDataDirectory(dir: DataDir): DataDir {
  const made: string[] = [];
  try {
    make(dir.path, made);
    for (const path of made) flushFolderSync(dirname(path)); // what is stored in it is found again after a power cut
    // Tried, not asked: to root everything seems to be allowed.
    const probe = join(dir.path, `.probe-${randomBytes(6).toString("hex")}`);
    closeSync(openSync(probe, "wx", 0o600));
    unlinkSync(probe);
    // A directory that was there is somebody else's to ignore, unless it has our own name.
    if (made.includes(dir.path) || basename(dir.path) === DATA_DIRECTORY) keepFromGit(dir.path);
    return dir;
  } catch (error) {
    for (const path of made.reverse()) rmdirSync(path); // nothing is left of what did not work
    const { code } = error as NodeJS.ErrnoException;
    const named = dir.from === null ? "" : `${dir.from}: `;
    const advice = fileAdvice(dir) ?? "pass another directory with --data";
    throw usageError(`${named}cannot write to ${dir.given} (${code}); ${advice}`);
  }
}

/** Level by level: Node's own way never ends where a file system refuses new directories, as /proc does. */
function make(path: string, made: string[]): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (dirname(path) !== path) make(dirname(path), made);
  try {
    mkdirSync(path, { mode: 0o700 });
    made.push(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !statSync(path).isDirectory()) throw error;
  }
}
