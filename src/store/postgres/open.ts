/** Opens a store in a schema: creates it, or checks that it is ours and not newer than this version, and migrates it.
 *  Also reads its version without creating or changing anything. */
import { ConfigError, PerdureError } from "../../core/errors.ts";
import { type Clock, sleep } from "../../lib/clock.ts";
import type { SchemaVersion, Store } from "../store.ts";
import { type PgConnection, PgConnections } from "./connections.ts";
import { MIGRATIONS } from "./migrations.ts";
import { postgresStore } from "./postgres-store.ts";

// Safe from many processes at once: an advisory lock serializes them.

export interface OpenPostgres {
  /** `postgres://user:password@host:port/database`, optionally with `?schema=name`. */
  readonly url: string;
  readonly schema?: string | undefined;
  /** The size of the pool; two more are used for renewals and for listening. */
  readonly connections?: number | undefined;
  readonly random: () => number;
  readonly clock: Clock;
  /** For the store's generation and the signature of its cursors. */
  readonly newSecret: () => string;
}

export const DEFAULT_SCHEMA = "perdure";
const DEFAULT_CONNECTIONS = 8;
const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,62}$/;
/** "PERD": locked while a schema is created. */
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

/** The schema may be part of the address, so that one text names a store. */
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
    const allowed = "at most 63 lowercase letters, digits and _, not starting with a digit or pg_";
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
    const message = `the database's encoding is ${encoding}; Perdure requires UTF8`;
    throw new PerdureError("store_not_a_database", message);
  }
  await ask("select pg_advisory_xact_lock($1, hashtext($2))", [MIGRATION_LOCK, schema]);
  const version = await presentVersion(connection, schema);
  if (version < MIGRATIONS.length) await advance(ask, schema, version, newSecret);
}

/** 0 if nothing of ours exists yet. Refuses what belongs to another program or a newer version. */
export async function presentVersion(connection: PgConnection, schema: string): Promise<number> {
  const ask: MigrationQuery = (text, values = []) => connection.ask(plain(text), values);
  const [[tables = 0] = []] = await ask("select count(*)::int from pg_tables where schemaname = $1", [schema]);
  const [[isOurs] = []] = await ask("select to_regclass($1) is not null", [`"${schema}".meta`]);
  if (!isOurs && tables !== 0) {
    const message = `the schema ${schema} has tables of another program; choose another schema with the option "schema"`;
    throw new PerdureError("store_not_a_database", message);
  }
  const version = isOurs ? Number((await ask(`select value from "${schema}".meta where name = 'version'`))[0]?.[0]) : 0;
  if (version <= MIGRATIONS.length) return version;
  const message =
    `the schema ${schema} has version ${version}, but this version of Perdure supports up to ${MIGRATIONS.length}: ` +
    "upgrade Perdure, or choose another schema";
  throw new PerdureError("store_newer", message);
}

type MigrationQuery = (text: string, values?: readonly (string | number)[]) => ReturnType<PgConnection["ask"]>;

async function advance(ask: MigrationQuery, schema: string, version: number, newSecret: () => string): Promise<void> {
  // Only if it is missing: the statement needs a privilege that the owner of a schema may not have.
  const [[exists] = []] = await ask("select to_regnamespace($1) is not null", [`"${schema}"`]);
  if (!exists) await ask(`create schema if not exists "${schema}"`);
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

/** The driver accepts one statement per call with values; steps have semicolons only between statements. */
function statementsOf(step: string): string[] {
  const withoutNotes = step.replaceAll(/--[^\n]*/g, "");
  return withoutNotes.split(";").filter((statement) => statement.trim() !== "");
}

// Reads the version of a schema without creating or changing anything.

type PostgresVersionQuery = Pick<OpenPostgres, "url" | "schema" | "random" | "clock">;

/** Refuses a schema that is not ours or newer than this version, as opening does. */
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
