/** Selects the store adapter for an address. */
import { resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { ViewsChange } from "./postgres/views.ts";
import { openSqlite, sqliteFaults, sqliteVersion } from "./sqlite/open.ts";
import type { SchemaVersion, Store, WallMark } from "./store.ts";

export {
  type DurableWriteOptions,
  type FileOwner,
  flushFileSync,
  flushFolderSync,
  makeFolderDurablySync,
  writeDurably,
} from "../files/durable.ts";
export { MirrorFolder, MirrorRefused } from "../files/mirror-folder.ts";
export { driverName, holdLock } from "./sqlite/driver.ts";
export { DATA_DIRECTORY, keepFromGit } from "./sqlite/open.ts";
export type { Store } from "./store.ts";

export interface OpenStore {
  readonly url: string | undefined;
  /** PostgreSQL only: the schema that holds the tables, and the size of the pool. */
  readonly schema?: string | undefined;
  readonly connections?: number | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly report?: (message: string) => void;
  readonly newSecret: () => string;
  /** The clocks of this process, for a store without its own clock. */
  readonly mark?: () => WallMark;
}

const DEFAULT_FILE = ".perdure/perdure.db";
const ALLOWED = 'a file such as "./jobs.db", "sqlite:./jobs.db", ":memory:", or "postgres://host/database"';

export async function openStore({
  url = DEFAULT_FILE,
  schema,
  connections,
  clock,
  ...rest
}: OpenStore): Promise<Store> {
  if (isPostgres(url)) {
    // Loaded on demand: the driver takes a good part of a short command's time.
    const { openPostgres } = await import("./postgres/open.ts");
    return openPostgres({
      url: url.trim(),
      schema,
      connections,
      clock,
      random: rest.random,
      newSecret: rest.newSecret,
    });
  }
  for (const [path, given] of Object.entries({ schema, connections })) {
    if (given === undefined) continue;
    throw new ConfigError({ path: `open.${path}`, given, allowed: "left out: it applies to PostgreSQL only" });
  }
  return openSqlite({ path: sqlitePath(url), clock, ...rest });
}

type VersionQuery = Pick<OpenStore, "url" | "schema" | "clock" | "random">;

/** The schema version at an address. Creates and migrates nothing. */
export async function schemaVersion({
  url = DEFAULT_FILE,
  schema,
  clock,
  random,
}: VersionQuery): Promise<SchemaVersion> {
  if (!isPostgres(url)) return sqliteVersion(sqlitePath(url), random);
  const { postgresVersion } = await import("./postgres/open.ts");
  return postgresVersion({ url: url.trim(), schema, random, clock });
}

/** Views over the tables of a store in PostgreSQL, as another system's; null takes them away. Returns false if nothing changed. */
export async function changeViews(options: VersionQuery & ViewsChange): Promise<boolean> {
  const { changePostgresViews } = await import("./postgres/views.ts");
  const { url = "", ...rest } = options;
  return changePostgresViews({ url: url.trim(), ...rest });
}

/** Integrity errors in an existing database file; empty for PostgreSQL, which checks its own files. */
export async function storeFaults({
  url = DEFAULT_FILE,
  random,
}: Pick<VersionQuery, "url" | "random">): Promise<string[]> {
  return isPostgres(url) ? [] : sqliteFaults(sqlitePath(url), random);
}

export function isPostgres(url: string): boolean {
  return /^\s*postgres(ql)?:/i.test(url);
}

/** The file path of a SQLite address; throws if it is not one. A relative path is resolved against `from`. */
export function sqlitePath(given: string, from = ""): string {
  if (typeof given !== "string" || given.trim() === "" || given.includes("\0")) {
    throw new ConfigError({ path: "open.url", given, allowed: ALLOWED });
  }
  // Whitespace around an address is a paste error, never part of the name.
  const url = given.trim();
  // The keyword form of a PostgreSQL address. Not shown: it may contain a password.
  if (/(^|\s)(host|hostaddr|dbname|user|password|port)\s*=/i.test(url)) {
    throw new ConfigError({ path: "open.url", given: "host=…", allowed: ALLOWED });
  }
  const path = url.replace(/^sqlite:(\/\/)?/, "");
  // An unknown scheme, or a special name of SQLite's, would silently become a file name.
  if (/^[a-z][a-z0-9+.-]+:/i.test(path) || (/^:.*:$/.test(path) && path !== ":memory:")) {
    // Show only the scheme: a password may follow.
    const shown = /^:/.test(path) ? path : `${path.slice(0, path.indexOf(":"))}:…`;
    throw new ConfigError({ path: "open.url", given: shown, allowed: ALLOWED });
  }
  // Something before the scheme, such as a quote or an extra letter. Not shown, for the same reason.
  if (path.includes("://")) throw new ConfigError({ path: "open.url", given: "…://…", allowed: ALLOWED });
  return path === ":memory:" ? path : resolve(from, path);
}
