/** Whether the open files are still those that their paths name. A file that was deleted or replaced can be written to for as
 *  long as it is open, and nobody finds what was stored in it: such a commit must not be acknowledged. */
import { realpathSync, type Stats, statSync } from "node:fs";
import { resolve } from "node:path";

export interface Misplaced {
  readonly file: "database" | "log";
  /** What happened to which file, and what to do about it. */
  readonly message: string;
}

/** Null: they are in their place. */
export type FilesInPlace = () => Misplaced | null;

/** A commit that went to a file which is not in its place. */
export class MisplacedFile extends Error {}

const REMEDY = "put it back, or stop every process that uses it and restore a backup";

/** Of a database that was opened and read, so that its write-ahead log exists. */
export function filesInPlace(path: string): FilesInPlace {
  // SQLite keeps the log beside the file that a link leads to. Absolute, because the process may change its directory.
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
      const what = found === null ? "deleted or moved away" : "replaced by another file";
      return { file, message: `${name} was ${what} while it was in use; ${REMEDY}` };
    }
    return null;
  };
}

/** Null: no such file. One that cannot be examined, as in a directory that was closed to us, counts as unchanged. */
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
