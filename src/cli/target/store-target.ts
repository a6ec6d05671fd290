/** The address of a store that a command opens without a server: the database of a data directory, or the one named by `db`. */
import { ConfigError } from "../../core/errors.ts";
import { isPostgres, sqlitePath } from "../../store/open.ts";
import { withoutPassword } from "../config/show-value.ts";
import { usageError } from "../exit.ts";
import type { DataDir } from "./data-directory.ts";

export interface StoreTarget {
  readonly kind: "store";
  /** A PostgreSQL address with its secrets, or the full path of a file. */
  readonly url: string;
  readonly schema: string | undefined;
  /** For people, without a password. Two targets with the same text are the same database. */
  readonly shown: string;
  /** The data directory, in which attempts run; the database may be elsewhere. */
  readonly dir: DataDir;
  /** The database is the one in the data directory. */
  readonly isData: boolean;
  readonly namespace: string;
}

export function dataTarget(dir: DataDir, namespace: string): StoreTarget {
  return { kind: "store", url: dir.file, schema: undefined, shown: dir.given, dir, isData: true, namespace };
}

export interface DatabaseChoice {
  readonly db: string;
  /** The source: `--db`, `PERDURE_DB`, or a position in a settings file. */
  readonly from: string;
  readonly schema: string | undefined;
  readonly dir: DataDir;
  readonly namespace: string;
  readonly cwd: string;
}

export function databaseTarget({ db: given, from, schema, dir, namespace, cwd }: DatabaseChoice): StoreTarget {
  const db = given.trim();
  if (isPostgres(db)) {
    return { kind: "store", url: db, schema, shown: shownAddress(db, schema), dir, isData: false, namespace };
  }
  const file = fileAt(db, from, cwd);
  return { kind: "store", url: file, schema: undefined, shown: file, dir, isData: file === dir.file, namespace };
}

/** With the schema, unless the address contains it. */
function shownAddress(db: string, schema: string | undefined): string {
  const shown = withoutPassword(db);
  if (schema === undefined || !URL.canParse(shown)) return shown;
  const url = new URL(shown);
  if (!url.searchParams.has("schema")) url.searchParams.set("schema", schema);
  return url.href;
}

function fileAt(db: string, from: string, cwd: string): string {
  let file: string;
  try {
    file = sqlitePath(db, cwd);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw usageError(error.message.replace(/^open\.url:/, `${from}:`));
  }
  if (file === ":memory:") {
    throw usageError(`${from}: a database in memory belongs to one process; pass a file, or postgres://…`);
  }
  return file;
}
