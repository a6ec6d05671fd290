/** The PostgreSQL driver as the adapter uses it: `pg`, loaded when a store is opened. Rows are arrays, and 64-bit
 *  integers become numbers: ours are times and counters, far below 2^53. */
import type pg from "pg";

export type Pg = typeof pg;
export type PgClient = pg.Client | pg.PoolClient;
export type PgRow = readonly PgCell[];
export type PgCell = string | number | boolean | null;
export type PgValue = string | number | boolean | null | Buffer;

/** A named statement is parsed and planned once per connection. */
export interface PgStatement {
  readonly name: string;
  readonly text: string;
  /** It may have to count, search or delete very many rows. */
  readonly isLong?: boolean;
}

/** A server that does not respond for this long counts as lost: one without power closes no connections. Longer than
 *  the lock timeout, so that a statement that only waits ends by itself. */
export const LONG = { isLong: true } as const;
const ANSWER_MS = 8_000;
const LONG_ANSWER_MS = 120_000;

export async function loadPg(): Promise<Pg> {
  return (await import("pg")).default;
}

const INT8 = 20;
const types = {
  getTypeParser: (oid: number) => (oid === INT8 || INTEGERS.has(oid) ? Number : oid === BOOLEAN ? isTrue : asText),
};
const INTEGERS = new Set([21, 23, 26]);
const BOOLEAN = 16;
const isTrue = (text: string) => text === "t";
const asText = (text: string) => text;

export async function ask(client: PgClient, statement: PgStatement, values: readonly PgValue[]): Promise<PgRow[]> {
  const { name, text, isLong = false } = statement;
  const timing = { query_timeout: isLong ? LONG_ANSWER_MS : ANSWER_MS };
  const query = {
    name,
    text,
    values: values as PgValue[],
    rowMode: "array" as const,
    types: types as never,
    ...timing,
  };
  return (await client.query<PgCell[]>(query)).rows;
}

/** Session settings: locks end with a process that hangs, plans do not change with statistics, and acknowledged commits
 *  are on disk. `synchronous_commit` is raised, never lowered: a stricter setting is kept. */
export const SESSION_SETTINGS = `
  set plan_cache_mode = force_generic_plan;
  set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
  set jit = off;
  set default_transaction_isolation = 'read committed';
  set client_min_messages = warning;
  set idle_in_transaction_session_timeout = '10s';
  set lock_timeout = '5s';
  select set_config('client_connection_check_interval', '5s', false)
  where current_setting('server_version_num')::int >= 140000;
  select set_config('synchronous_commit', 'on', false)
  where current_setting('synchronous_commit') in ('off', 'local', 'remote_write');
`;

/** Creates a statement for one store: `$s.` before a table becomes its schema. */
export type MakeStatement = (name: string, text: string, options?: { isLong: boolean }) => PgStatement;
