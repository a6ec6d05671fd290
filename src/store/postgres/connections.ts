/** Connections: a pool for everything, one more for renewals and beats, so that leases are kept while the pool is busy, and
 *  two for searches and counts, which may take long: however many ask for them, the pool is for those who write.
 *
 *  Which failures are tried again here: a statement that was certainly not done (no connection, rolled back by a
 *  deadlock) always, and one whose end is unknown only if the caller says that it may be repeated. For a few seconds:
 *  a restart or a failover is waited out, an outage is told. */
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

/** A transaction under way, or a connection that has none. */
export interface PgConnection {
  ask(statement: PgStatement, values?: readonly PgValue[]): Promise<PgRow[]>;
}

export interface TransactionOptions {
  /** It may be done twice without harm. */
  readonly repeat?: boolean;
  /** On the connection that is kept free for it. */
  readonly reserved?: boolean;
  /** A read that may take long: on connections apart, and for a limited time. */
  readonly aside?: boolean;
  /** A read, or a step of opening the store: its errors do not mention what was stored. */
  readonly storesNoJobs?: boolean;
}

/** Three of them fit into our patience. */
const CONNECT_TIMEOUT_MS = 1_600;
const PATIENCE_MS = 5_000;
/** A machine that slept finds its time used up when it wakes: it tries so often in any case. */
const MIN_TRIES = 3;
const FAREWELL_MS = 2_000;
/** Searches and counts at a time, and how long one may take: counts of some ten million jobs fit into it. */
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
      // An idle connection that the server ended: the next call gets another.
      pool.on("error", () => {});
      pool.on("connect", (client) => {
        this.#clients.add(client);
        client.on("error", () => {});
      });
      pool.on("remove", (client) => this.#clients.delete(client));
      return pool;
    };
    this.#pool = make(options.connections, SESSION_SETTINGS);
    // Nothing may keep the renewals waiting for long: neither a lock nor a beat that waits for one.
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

  /** The same, where a repeat is another statement than the first try. */
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
        // Nothing was committed, whatever broke: it may be begun again.
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

  /** A server that is silent says no farewell either: it is given a moment. */
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
          // One try whose end is unknown makes the whole call unknown, unless it may be repeated and nothing came of it.
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
      // Whatever went wrong on the way, nothing was asked yet; a wrong password stays what it is.
      if (errorClassOf(error) !== "bug") throw new NoConnection(messageOf(error), { cause: error });
      const message = `PostgreSQL cannot be opened: ${messageOf(error)}`;
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

/** Thrown by a caller's function, and nothing that PostgreSQL said. */
function isOurs(error: unknown): boolean {
  return errorClassOf(error) === "bug" && (error as { code?: unknown }).code === undefined;
}

function isCancelled(error: unknown): boolean {
  return (error as { code?: unknown }).code === "57014";
}

function tookTooLong(cause: unknown): PerdureError {
  const message = `a search or count took longer than ${ASIDE_SECONDS} s and was cancelled; ask for less, or later`;
  return new PerdureError("overloaded", message, { cause });
}

/** Sets up a new connection. One to a standby is none: after a failover the address may still lead there for a while. */
async function prepare(client: pg.ClientBase, settings: string): Promise<void> {
  const timing = { query_timeout: CONNECT_TIMEOUT_MS };
  await client.query({ text: settings, ...timing });
  const asked = { text: "select pg_is_in_recovery() as standby", ...timing };
  const { rows } = await client.query<{ standby: boolean }>(asked);
  if (rows[0]?.standby) throw new NoConnection("this server is a standby, which takes no writes");
}

/** Ends a connection without a word. */
export function cutOff(client: unknown): void {
  const { connection } = client as { connection?: { stream?: { destroy?: () => void } } };
  connection?.stream?.destroy?.();
}

/** The transaction did not commit, and never will. */
class RolledBack extends Error {}

/** A commit that warns is not known to be durable: its wait for the standby was cut short. */
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
