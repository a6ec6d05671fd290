/** Opens a store in a schema and migrates it. Reads its version without creating or changing anything. */
import { ConfigError, PerdureError } from "../../core/errors.ts";
import { type Clock, sleep } from "../../lib/clock.ts";
import type { SchemaVersion, Store } from "../store.ts";
import { type PgConnection, PgConnections } from "./connections.ts";
import { MIGRATIONS } from "./migrations.ts";
import { postgresStore } from "./postgres-store.ts";

// Opens a store in a schema of a PostgreSQL database: makes it, or refuses what is not ours or newer than we are.
// Safe from many processes at once: they take turns at an advisory lock.

export interface OpenPostgres {
  /** `postgres://user:password@host:port/database`; `?schema=name` may stand in it. */
  readonly url: string;
  readonly schema?: string | undefined;
  /** Of the pool; two more are used for renewals and for listening. */
  readonly connections?: number | undefined;
  readonly random: () => number;
  readonly clock: Clock;
  /** For the store's generation, and what its cursors are checked by. */
  readonly newSecret: () => string;
}

export const DEFAULT_SCHEMA = "perdure";
const DEFAULT_CONNECTIONS = 8;
const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,62}$/;
/** "PERD": taken while a schema is made. */
const MIGRATION_LOCK = 0x50455244;

export async function openPostgres(options: OpenPostgres): Promise<Store> {
  const { random, clock, newSecret, connections = DEFAULT_CONNECTIONS } = options;
  const { connectionString, schema } = address(options);
  const db = await PgConnections.open({
    config: { connectionString, application_name: "perdure" },
    connections,
    random,
    sleep: (ms, options) => sleep(clock, ms, options),
    monotonic: clock.monotonic,
  });
  try {
    await db.transaction((connection) => migrate(connection, schema, newSecret), { storesNoJobs: true });
    return await postgresStore(db, { schema, clock, random });
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** The schema may be named in the address, so that one text says where a store is. */
export function address({ url, schema }: Pick<OpenPostgres, "url" | "schema">): {
  connectionString: string;
  schema: string;
} {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    const allowed = "an address such as postgres://user:password@host:5432/database";
    throw new ConfigError({ path: "open.url", given: "postgres:…", allowed, problem: "not a URL" });
  }
  const named = schema ?? parsed.searchParams.get("schema") ?? DEFAULT_SCHEMA;
  if (!SCHEMA_NAME.test(named) || named.startsWith("pg_")) {
    const allowed = "small letters, digits and _, at most 63, not beginning with a digit or pg_";
    throw new ConfigError({ path: "open.schema", given: named, allowed });
  }
  parsed.searchParams.delete("schema");
  return { connectionString: parsed.toString(), schema: named };
}

const plain = (text: string) => ({ name: "", text, isLong: true });

async function migrate(connection: PgConnection, schema: string, newSecret: () => string): Promise<void> {
  const ask: MigrationQuery = (text, values = []) => connection.ask(plain(text), values);
  const [[encoding] = []] = await ask("select current_setting('server_encoding')");
  if (encoding !== "UTF8") {
    const message = `the database's encoding is ${encoding}; text is kept as it came only in one with UTF8`;
    throw new PerdureError("store_not_a_database", message);
  }
  await ask("select pg_advisory_xact_lock($1, hashtext($2))", [MIGRATION_LOCK, schema]);
  const version = await presentVersion(connection, schema);
  if (version < MIGRATIONS.length) await advance(ask, schema, version, newSecret);
}

/** 0 where there is nothing of ours yet. Refuses what belongs to another program or a newer version. */
export async function presentVersion(connection: PgConnection, schema: string): Promise<number> {
  const ask: MigrationQuery = (text, values = []) => connection.ask(plain(text), values);
  const [[tables = 0] = []] = await ask("select count(*)::int from pg_tables where schemaname = $1", [schema]);
  const [[isOurs] = []] = await ask("select to_regclass($1) is not null", [`"${schema}".meta`]);
  if (!isOurs && tables !== 0) {
    const message = `the schema ${schema} holds tables of another program; choose another with the option "schema"`;
    throw new PerdureError("store_not_a_database", message);
  }
  const version = isOurs ? Number((await ask(`select value from "${schema}".meta where name = 'version'`))[0]?.[0]) : 0;
  if (version <= MIGRATIONS.length) return version;
  const message =
    `the schema ${schema} has version ${version}, and this version of Perdure knows up to ${MIGRATIONS.length}: ` +
    "use the newer version that wrote it, or another schema";
  throw new PerdureError("store_newer", message);
}

type MigrationQuery = (text: string, values?: readonly (string | number)[]) => ReturnType<PgConnection["ask"]>;

async function advance(ask: MigrationQuery, schema: string, version: number, newSecret: () => string): Promise<void> {
  // Only where it is not there: the statement needs a right that the owner of a schema need not have.
  const [[isThere] = []] = await ask("select to_regnamespace($1) is not null", [`"${schema}"`]);
  if (!isThere) await ask(`create schema if not exists "${schema}"`);
  for (const step of MIGRATIONS.slice(version)) {
    for (const statement of statementsOf(step.replaceAll("$s", `"${schema}"`))) await ask(statement);
  }
  if (version === 0) {
    const add = `insert into "${schema}".meta (name, value)
      values ('generation', $1), ('secret', $2), ('version', '0'), ('beat_at', ''), ('held_until', '0')`;
    await ask(add, [newSecret().slice(0, 8), newSecret()]);
  }
  await ask(`update "${schema}".meta set value = $1 where name = 'version'`, [String(MIGRATIONS.length)]);
}

/** The driver takes one statement at a time where there are values; steps hold no semicolon but between statements. */
function statementsOf(step: string): string[] {
  const withoutNotes = step.replaceAll(/--[^\n]*/g, "");
  return withoutNotes.split(";").filter((statement) => statement.trim() !== "");
}

// Looks which version a schema has, without making or changing anything.

type PostgresVersionQuery = Pick<OpenPostgres, "url" | "schema" | "random" | "clock">;

/** Refuses what is not ours, or newer than we are, as opening does. */
export async function postgresVersion({ url, schema, random, clock }: PostgresVersionQuery): Promise<SchemaVersion> {
  const found = address({ url, schema });
  const db = await PgConnections.open({
    config: { connectionString: found.connectionString, application_name: "perdure" },
    connections: 1,
    random,
    sleep: (ms, options) => sleep(clock, ms, options),
    monotonic: clock.monotonic,
  });
  try {
    const version = await db.transaction((connection) => presentVersion(connection, found.schema), {
      storesNoJobs: true,
    });
    return { found: version, known: MIGRATIONS.length };
  } finally {
    await db.close();
  }
}
