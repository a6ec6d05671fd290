/** Makes the data directory. Before anything is opened: what is wrong with a directory should be said of the directory. */
import { randomBytes } from "node:crypto";
import { closeSync, mkdirSync, openSync, rmdirSync, statSync, unlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { DATA_DIRECTORY, flushFolderSync, keepFromGit } from "../../store/open.ts";
import { type DataDir, fileAdvice } from "../data.ts";
import { usageError } from "../exit.ts";

export function madeDir(dir: DataDir): DataDir {
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
    const advice = fileAdvice(dir) ?? "name another directory with --data";
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
