/** Where a server keeps the files of attempts. With SQLite: in a directory. With PostgreSQL: in the database, so that every
 *  server has them, or in a directory that all servers share; that they do is checked at the start, by a mark in it. */
import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { artifactsDir } from "../../embedded/job-outputs.ts";
import type { Blobs } from "../../store/blobs.ts";
import { directoryBlobs } from "../../store/directory-blobs.ts";
import { makeFolderDurablySync, writeDurably } from "../../store/open.ts";
import type { Store } from "../../store/store.ts";
import { CliError, EXIT, usageError } from "../exit.ts";
import { NOTE_BYTES, readBounded } from "../read-file.ts";

export const MARK = ".perdure-outputs";
/** Of the store: what its servers agreed on. */
export const SETTING = "outputs";

export function outputsOf(given: string | undefined, cwd: string, db: string) {
  return async (store: Store): Promise<Blobs> => {
    if (store.blobs === undefined) {
      if (given === "database") {
        throw usageError("--outputs: SQLite has no room for files; give a directory, or use PostgreSQL");
      }
      // Beside the database, where the embedded engine has them too.
      return directoryBlobs(given === undefined ? artifactsDir({ url: db }).dir : resolve(cwd, given));
    }
    const isDatabase = given === undefined || given === "database";
    const dir = isDatabase ? null : resolve(cwd, given);
    const mine = dir === null ? "database" : `directory ${markOf(dir)}`;
    const agreed = await store.setSettingIfAbsent(SETTING, mine);
    if (agreed !== mine) throw new CliError(EXIT.usage, disagreement(agreed, given));
    return dir === null ? store.blobs() : directoryBlobs(dir);
  };
}

/** The same for all who see the same directory. */
function markOf(dir: string): string {
  const path = join(dir, MARK);
  try {
    makeFolderDurablySync(dir);
    // All servers agree on it from now on, so it must be found again after a power cut.
    writeDurably(path, randomBytes(16).toString("hex"), { replace: false });
  } catch (error) {
    throw usageError(`--outputs: cannot write to ${dir}: ${(error as Error).message}`);
  }
  return readBounded(path, NOTE_BYTES, path).toString("utf8").trim();
}

function disagreement(agreed: string, given: string | undefined): string {
  const others = agreed === "database" ? "in the database" : "in another directory";
  const advice =
    agreed === "database"
      ? "start this one with --outputs database"
      : "give the same directory, shared by all hosts, with --outputs";
  return `--outputs: got ${given ?? "nothing"}; the servers of this database keep files of attempts ${others}: ${advice}`;
}
