/** Connections: a pool for everything, one more for renewals and beats, so that leases are kept while the pool is busy,
 *  and two for searches and counts, which may take long and must not occupy the pool.
 *
 *  Retried here: a statement that was certainly not executed (no connection, rolled back by a deadlock) always, and one
 *  with an unknown outcome only if the caller marks it as repeatable. Retries last a few seconds: enough for a restart
 *  or a failover, while an outage is reported. */
import type pg from "pg";
import { PerdureError } from "../../core/errors.ts";
import { ask, loadPg, type PgClient, type PgRow, type PgStatement, type PgValue, SESSION_SETTINGS } from "./driver.ts";
import { errorClassOf, explained, messageOf, NoConnection, UnknownCommit } from "./error-classes.ts";

export interface ConnectionOptions {
  readonly config: pg.PoolConfig;
  readonly connections: number;
  readonly random: () => number;
  readonly sleep: (ms: number, options?: { readonly background: boolean }) => Promise<void>;
  readonly monotonic: () => number;
}

/** A transaction in progress, or a connection without one. */
export interface PgConnection {
  ask(statement: PgStatement, values?: readonly PgValue[]): Promise<PgRow[]>;
}

export interface TransactionOptions {
  /** Executing it twice does no harm. */
  readonly repeat?: boolean;
  /** Uses the reserved connection. */
  readonly reserved?: boolean;
  /** A read that may take long: uses separate connections and has a time limit. */
  readonly aside?: boolean;
  /** A read, or a step of opening the store: its errors do not mention what was stored. */
  readonly storesNoJobs?: boolean;
}

/** Three of them fit into the time for retries. */
const CONNECT_TIMEOUT_MS = 1_600;
const PATIENCE_MS = 5_000;
/** After a machine slept, the time for retries is already over when it wakes: it still tries this often. */
const MIN_TRIES = 3;
const FAREWELL_MS = 2_000;
/** Concurrent searches and counts, and how long one may take: enough to count some ten million jobs. */
const ASIDE_CONNECTIONS = 2;
const ASIDE_SECONDS = 30;
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 250;

const BEGIN = { name: "", text: "begin" };
const ROLLBACK = { name: "", text: "rollback" };
const COMMIT = { text: "commit", query_timeout: 8_000 };

export class PgConnections {
  readonly #pool: pg.Pool;
  readonly #reserved: pg.Pool;
  readonly #aside: pg.Pool;
  readonly #options: ConnectionOptions;
  readonly #clients = new Set<pg.ClientBase>();
  #closed = false;

  static async open(options: ConnectionOptions): Promise<PgConnections> {
    return new PgConnections(await loadPg(), options);
  }

  private constructor({ Pool }: typeof pg, options: ConnectionOptions) {
    this.#options = options;
    const make = (max: number, settings: string) => {
      const timing = { connectionTimeoutMillis: CONNECT_TIMEOUT_MS, keepAlive: true };
      const pool = new Pool({
        ...options.config,
        ...timing,
        max,
        onConnect: ((client: pg.ClientBase) => prepare(client, settings)) as (client: pg.ClientBase) => void,
      });
      // The server closed an idle connection: the next call gets another.
      pool.on("error", () => {});
      pool.on("connect", (client) => {
        this.#clients.add(client);
        client.on("error", () => {});
      });
      pool.on("remove", (client) => this.#clients.delete(client));
      return pool;
    };
    this.#pool = make(options.connections, SESSION_SETTINGS);
    // Nothing may delay renewals for long: neither a lock nor a beat that waits for one.
    this.#reserved = make(1, `${SESSION_SETTINGS} set lock_timeout = '2s'`);
    const readOnly = `set statement_timeout = '${ASIDE_SECONDS}s'; set default_transaction_read_only = on`;
    this.#aside = make(ASIDE_CONNECTIONS, `${SESSION_SETTINGS} ${readOnly}`);
  }

  get config(): pg.PoolConfig {
    return this.#options.config;
  }

  /** A statement that changes nothing. */
  read(statement: PgStatement, values: readonly PgValue[] = [], care: TransactionOptions = {}): Promise<PgRow[]> {
    return this.#patiently({ ...care, repeat: true, storesNoJobs: true }, (client) => ask(client, statement, values));
  }

  /** A statement that is a transaction by itself; durable when this resolves. */
  write(statement: PgStatement, values: readonly PgValue[], care: TransactionOptions = {}): Promise<PgRow[]> {
    return this.writeAs(() => statement, values, care);
  }

  /** Like `write`, with a different statement for retries. */
  writeAs(
    statement: (tries: number) => PgStatement,
    values: readonly PgValue[],
    care: TransactionOptions = {},
  ): Promise<PgRow[]> {
    return this.#patiently(care, (client, tries) => watched(client, () => ask(client, statement(tries), values)));
  }

  /** Several statements as one transaction. `work` may be called again from the start. */
  transaction<T>(
    work: (connection: PgConnection, tries: number) => Promise<T>,
    care: TransactionOptions = {},
  ): Promise<T> {
    return this.#patiently(care, async (client, tries) => {
      let result: T;
      try {
        await ask(client, BEGIN, []);
        result = await work({ ask: (statement, values = []) => ask(client, statement, values) }, tries);
      } catch (error) {
        // Nothing was committed, whatever failed: it may be restarted.
        if (errorClassOf(error) === "unknown") throw new RolledBack(messageOf(error), { cause: error });
        await ask(client, ROLLBACK, []).catch(() => {});
        throw error;
      }
      await watched(client, async () => {
        const { command } = await client.query(COMMIT);
        if (command !== "COMMIT") throw new RolledBack(`the commit became a ${command}`);
      });
      return result;
    });
  }

  /** A server that is unreachable does not answer the goodbye either: waits a limited time. */
  async close(): Promise<void> {
    this.#closed = true;
    const ended = Promise.all([this.#pool, this.#reserved, this.#aside].map((pool) => pool.end()));
    await Promise.race([ended, this.#options.sleep(FAREWELL_MS, { background: true })]);
    for (const client of this.#clients) cutOff(client);
  }

  async #patiently<T>(care: TransactionOptions, work: (client: PgClient, tries: number) => Promise<T>): Promise<T> {
    const { sleep, random, monotonic } = this.#options;
    const began = monotonic();
    let unknown: unknown = null;
    for (let tries = 0; ; tries++) {
      try {
        return await this.#once(care, (client) => work(client, tries));
      } catch (error) {
        if (care.aside === true && isCancelled(error)) throw tookTooLong(error);
        const trouble = error instanceof RolledBack ? "again" : errorClassOf(error);
        if (trouble === "unknown" && unknown === null) unknown = error;
        const mayRepeat = trouble === "away" || trouble === "again" || (trouble === "unknown" && care.repeat === true);
        const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, 10)) * (0.5 + random());
        const isOver = tries + 1 >= MIN_TRIES && monotonic() - began + pause > PATIENCE_MS;
        if (!mayRepeat || this.#closed || isOver) {
          if (trouble === "data" || error instanceof PerdureError || isOurs(error)) throw error;
          // One try with an unknown outcome makes the whole call unknown, unless it is repeatable and had no effect.
          throw unknown === null ? explained(error, trouble, care) : explained(unknown, "unknown", care);
        }
        await sleep(pause);
      }
    }
  }

  #poolFor({ reserved = false, aside = false }: TransactionOptions): pg.Pool {
    if (reserved) return this.#reserved;
    return aside ? this.#aside : this.#pool;
  }

  async #once<T>(care: TransactionOptions, work: (client: PgClient) => Promise<T>): Promise<T> {
    let client: pg.PoolClient;
    try {
      client = await this.#poolFor(care).connect();
    } catch (error) {
      // Whatever failed, no statement was sent yet; a wrong password is reported as such.
      if (errorClassOf(error) !== "bug") throw new NoConnection(messageOf(error), { cause: error });
      const message = `cannot connect to PostgreSQL: ${messageOf(error)}`;
      throw new PerdureError("store_io", message, { cause: error });
    }
    let broken = false;
    try {
      return await work(client);
    } catch (error) {
      const trouble = errorClassOf(error);
      broken = trouble === "unknown" || trouble === "away" || error instanceof RolledBack;
      throw error;
    } finally {
      client.release(broken);
    }
  }
}

/** Thrown by a caller's function, not by PostgreSQL. */
function isOurs(error: unknown): boolean {
  return errorClassOf(error) === "bug" && (error as { code?: unknown }).code === undefined;
}

function isCancelled(error: unknown): boolean {
  return (error as { code?: unknown }).code === "57014";
}

function tookTooLong(cause: unknown): PerdureError {
  const message = `a search or count took longer than ${ASIDE_SECONDS} s and was cancelled; narrow the filter or retry later`;
  return new PerdureError("overloaded", message, { cause });
}

/** Prepares a new connection. Rejects a standby: after a failover the address may still lead to one for a while. */
async function prepare(client: pg.ClientBase, settings: string): Promise<void> {
  const timing = { query_timeout: CONNECT_TIMEOUT_MS };
  await client.query({ text: settings, ...timing });
  const asked = { text: "select pg_is_in_recovery() as standby", ...timing };
  const { rows } = await client.query<{ standby: boolean }>(asked);
  if (rows[0]?.standby) throw new NoConnection("this server is a standby and does not accept writes");
}

/** Closes a connection without the end message of the protocol. */
export function cutOff(client: unknown): void {
  const { connection } = client as { connection?: { stream?: { destroy?: () => void } } };
  connection?.stream?.destroy?.();
}

/** The transaction was not and will not be committed. */
class RolledBack extends Error {}

/** A commit with a warning may not be durable: its wait for the standby was interrupted. */
async function watched<T>(client: PgClient, work: () => Promise<T>): Promise<T> {
  let warning: string | null = null;
  const onNotice = (notice: { code?: string | undefined; message?: string | undefined }) => {
    if (notice.code === "01000") warning = notice.message ?? "a warning";
  };
  client.on("notice", onNotice);
  try {
    const result = await work();
    if (warning !== null) throw new UnknownCommit(warning);
    return result;
  } finally {
    client.off("notice", onNotice);
  }
}
