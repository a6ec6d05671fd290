/** `database` in a data directory: the jobs of its server are not in the file beside it, but in this database. It outlives
 *  the server, so that nobody takes an empty file for its jobs while it is away: what is stored there would never be seen. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../../store/open.ts";
import { CliError, EXIT } from "../exit.ts";
import { readNote } from "../read-file.ts";

const NAME = "database";

/** `shown` is the database without a password; null: the file in the directory itself. */
export function rememberDatabase(dir: string, shown: string | null): void {
  const path = join(dir, NAME);
  if (shown === null) rmSync(path, { force: true });
  else if (databaseOf(dir) !== shown) writeDurably(path, `${shown}\n`, { replace: true });
}

/** Refuses a directory whose jobs lie elsewhere. */
export function refuseElsewhere({ path, given }: { readonly path: string; readonly given: string }): void {
  const database = databaseOf(path);
  if (database === null) return;
  throw new CliError(
    EXIT.failed,
    `the jobs of ${given} are in ${database}, and the server that has them is not running here: start it again, name ` +
      "the database with PERDURE_DB or --db, or another server with --server. `perdure up` without --db begins to use the " +
      "file in the directory instead",
  );
}

/** The database that a directory's server was last given; null: the file in the directory. */
export function databaseOf(dir: string): string | null {
  return readNote(join(dir, NAME))?.trim().slice(0, 500) || null;
}
