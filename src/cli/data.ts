/** The data directory: where it is, and whether it holds data. */
import { statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { show } from "../core/errors.ts";
import { systemClock } from "../engine/clock.ts";
import type { Clock } from "../lib/clock.ts";
import { CliError, EXIT, usageError } from "./exit.ts";

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
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(dir)) throw usageError(`${from}: got an address; give a directory`);
  if (dir.trim() === "" || dir.includes("\0")) throw usageError(`${from}: got ${show(dir)}; give a directory`);
  const path = resolve(cwd, dir);
  return { given: dir, from, path, file: join(path, DATABASE) };
}

export function noData({ given, path }: DataDir): CliError {
  const advised = fileAdvice({ given, path });
  if (advised !== null) return new CliError(EXIT.failed, `${given} is a file: ${advised}`);
  const advice = "run `perdure run -- COMMAND` or `perdure up` first, or name another with --data";
  return new CliError(EXIT.failed, `there is no Perdure data in ${given}; ${advice}`);
}

/** What to do with a file where a directory is wanted; null if it is none. A program may have its database anywhere; a
 *  directory of data has it under one name. */
export function fileAdvice({ given, path }: Pick<DataDir, "given" | "path">): string | null {
  if (!isFile(path)) return null;
  if (basename(path) === DATABASE) return `--data wants its directory, ${dirname(given)}`;
  return `--data wants a directory, with the database in it as ${DATABASE}; pass a database file as --db ${given}`;
}

/** What cannot even be looked at is somebody else's mistake to tell. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** An empty file is what is left of a start that was cut short. */
export function holdsData({ given, file }: DataDir): boolean {
  try {
    return statSync(file).size > 0;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw new CliError(EXIT.failed, `cannot look into ${given}: ${message}`);
  }
}

/** Beats, reaping and pruning are what an engine does in the background, and by this clock their time never comes. Waits
 *  of a reader, as for the next event, pass as usual. */
export const stillClock: Clock = {
  ...systemClock,
  after: (ms, call, options) => (options?.background ? () => {} : systemClock.after(ms, call, options)),
};
