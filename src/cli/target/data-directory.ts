/** The data directory: where it is, whether it holds data, and how it is created. */

import { randomBytes } from "node:crypto";
import { closeSync, mkdirSync, openSync, rmdirSync, statSync, unlinkSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { DATA_DIRECTORY, flushFolderSync, keepFromGit } from "../../store/open.ts";
import { CliError, EXIT, usageError, valueError } from "../exit.ts";

/** The database file in a data directory. */
export const DATABASE = "perdure.db";

/** The directory as it was given, for messages, and its full path. */
export interface DataDir {
  readonly given: string;
  /** The source of the directory: `--data`, `PERDURE_DATA`, or null for the default. */
  readonly from: string | null;
  readonly path: string;
  /** The database file. */
  readonly file: string;
}

/** `source` of the path: `--data`, `PERDURE_DATA`, a settings file, or `default`. */
export function dataAt(dir: string, source: string, cwd: string): DataDir {
  const from = source === "default" ? null : source;
  // Not shown, as it may contain a password.
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

/** Advice if a file was passed instead of a directory; null if it is not a file. A program may keep its database anywhere; a
 *  data directory has it under one name. */
function fileAdvice({ given, path }: Pick<DataDir, "given" | "path">): string | null {
  if (!isFile(path)) return null;
  if (basename(path) === DATABASE) return `pass its directory, --data ${dirname(given)}`;
  return `--data must be a directory with a ${DATABASE}; pass a database file with --db ${given}`;
}

/** False if it cannot be read; that error is reported elsewhere. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** An empty file is the remains of an interrupted start. */
export function holdsData({ given, file }: DataDir): boolean {
  try {
    return statSync(file).size > 0;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw new CliError(EXIT.failed, `cannot read ${given}: ${message}`);
  }
}

/** A clock by which background work of an engine (heartbeats, reaping, pruning) never becomes due. Waits of a reader, as for
 *  the next event, work as usual. */
export const stillClock: Clock = {
  ...systemClock,
  after: (ms, call, options) => (options?.background ? () => {} : systemClock.after(ms, call, options)),
};

// Creates the data directory before anything is opened, so that errors name it.

export function makeDataDirectory(dir: DataDir): DataDir {
  const made: string[] = [];
  try {
    make(dir.path, made);
    for (const path of made) flushFolderSync(dirname(path)); // so that its content survives a power cut
    // Tests by writing: for root, permission checks always succeed.
    const probe = join(dir.path, `.probe-${randomBytes(6).toString("hex")}`);
    closeSync(openSync(probe, "wx", 0o600));
    unlinkSync(probe);
    // An existing directory gets no .gitignore, unless it has our own name.
    if (made.includes(dir.path) || basename(dir.path) === DATA_DIRECTORY) keepFromGit(dir.path);
    return dir;
  } catch (error) {
    for (const path of made.reverse()) rmdirSync(path); // removes what was created
    const { code } = error as NodeJS.ErrnoException;
    const named = dir.from === null ? "" : `${dir.from}: `;
    const advice = fileAdvice(dir) ?? "pass another directory with --data";
    throw usageError(`${named}cannot write to ${dir.given} (${code}); ${advice}`);
  }
}

/** Level by level: `mkdir` with `recursive` never ends if a file system refuses new directories, as /proc does. */
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
