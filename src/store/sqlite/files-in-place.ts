/** Checks that the open files are still those at their paths. A file that was deleted or replaced stays writable while
 *  it is open, but nobody can find what is stored in it: such a commit must not be acknowledged. */
import { realpathSync, type Stats, statSync } from "node:fs";
import { resolve } from "node:path";

export interface Misplaced {
  readonly file: "database" | "log";
  /** What happened to which file, and what to do about it. */
  readonly message: string;
}

/** Returns null if the files are unchanged. */
export type FilesInPlace = () => Misplaced | null;

/** A commit went to a file that is no longer at its path. */
export class MisplacedFile extends Error {}

const REMEDY = "restore the file, or stop every process that uses it and restore a backup";

/** For a database that was opened and read, so that its write-ahead log exists. */
export function filesInPlace(path: string): FilesInPlace {
  // SQLite keeps the log beside the target of a link. Absolute paths, because the process may change its directory.
  const paths = { database: resolve(path), log: `${realpathSync(path)}-wal` };
  const files = (["database", "log"] as const).map((file) => ({
    file,
    name: paths[file],
    opened: statOf(paths[file]),
  }));
  return () => {
    for (const { file, name, opened } of files) {
      if (opened === null) continue;
      const found = statOf(name);
      if (isSame(found, opened)) continue;
      const what = found === null ? "deleted or moved" : "replaced by another file";
      return { file, message: `${name} was ${what} while it was in use; ${REMEDY}` };
    }
    return null;
  };
}

/** Null: no such file. A file that cannot be examined, for example for lack of permission, counts as unchanged. */
function statOf(name: string): Pick<Stats, "dev" | "ino"> | "unknown" | null {
  try {
    return statSync(name, { throwIfNoEntry: false }) ?? null;
  } catch {
    return "unknown";
  }
}

type FileStat = ReturnType<typeof statOf>;

function isSame(found: FileStat, opened: FileStat): boolean {
  if (found === "unknown" || opened === "unknown") return true;
  return found?.dev === opened?.dev && found?.ino === opened?.ino;
}
